"""Scalar programs on vectors: the epilogue of a contraction in the registers of its tile.

A value of a 16-bit type is kept as the f32 that equals it and rounded after each op that may leave
the type, so that every rounding of the program happens. Accumulators, differences, products,
quotients and roots of 16-bit operands round from f32 as they would from the exact result: f32 has
more than twice their bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f32,
    i1,
    i8,
    i32,
)
from xdsl.ir import Operation

from convir.analysis.rounding import EXACT, MONOTONE
from convir.lowering.bodies.contraction.scalar_program import Result, ScalarProgram
from convir.lowering.kernels.host.code.builder import Value, float_constant, vector
from convir.lowering.kernels.host.code.elements.storage import Storage
from convir.lowering.kernels.host.vector_functions.activations import activation
from convir.lowering.kernels.host.vector_functions.table import FUNCTIONS, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.scalar_program import ScalarBlock, ScalarOp
    from convir.lowering.bodies.contraction.spec import ComputeType, StorageType
    from convir.lowering.kernels.host.code.builder import Function
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

_TYPES: dict[StorageType, AnyFloat | IntegerType] = {
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    "f32": Float32Type(),
    "f64": Float64Type(),
    "i8": i8,
    "i32": i32,
}
_HALVES: dict[type, StorageType] = {Float16Type: "f16", BFloat16Type: "bf16"}

_ARITHMETIC = {
    "arith.addf": "fadd",
    "arith.subf": "fsub",
    "arith.mulf": "fmul",
    "arith.divf": "fdiv",
}
_INTRINSICS = {
    "arith.maximumf": "maximum",
    "arith.minimumf": "minimum",
    "arith.maxnumf": "maxnum",
    "arith.minnumf": "minnum",
    "math.absf": "fabs",
    "math.sqrt": "sqrt",
    "math.floor": "floor",
    "math.ceil": "ceil",
    "math.roundeven": "roundeven",
    "math.fma": "fma",
}
"""Ops that LLVM has instructions for on vectors. Of those that it would call a library for, lane by
lane, `vector_functions` has some."""
_COMPARE = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
_CASTS = ("arith.extf", "arith.truncf")
_OF_INTEGERS = {
    "arith.addi": "add",
    "arith.subi": "sub",
    "arith.muli": "mul",
    "arith.extsi": "sext",
    "arith.extui": "zext",
    "arith.trunci": "trunc",
    "arith.sitofp": "sitofp",
    "arith.uitofp": "uitofp",
    "arith.fptosi": "fptosi",
    "arith.fptoui": "fptoui",
}
"""What is computed of sums of integers beside the ops on f32."""


def unsupported(epilogue: FusedEpilogue) -> str | None:
    """Why a tile cannot compute an epilogue; None if it can."""
    computed = _TYPES[epilogue.sum]
    scalars = _block(epilogue)
    kinds = [number for number in scalars.constants.values() if not _is_number(number, computed)]
    if kinds:
        return f"its epilogue reads the constant {kinds[0]}"
    for op in scalars.block.ops:
        if unsupported_step(op, epilogue.sum):
            return f"its epilogue {unsupported_step(op, epilogue.sum)}"
    return None


def unsupported_step(op: Operation, element: ComputeType) -> str | None:
    """Why vectors of `element` cannot compute a scalar op; None if they can."""
    computed = _TYPES[element]
    known = op.name in _ARITHMETIC or op.name in _INTRINSICS or op.name in _CASTS
    known = known or (op.name in FUNCTIONS and element == "f32")
    known = known or (op.name in _OF_INTEGERS and element == "i32")
    if not known and op.name not in ("arith.negf", "arith.cmpf", "arith.select"):
        return f"holds {op.name}"
    if not all(_is_kept(value.type, computed) for value in (*op.operands, *op.results)):
        return f"computes {op.name} in another type than {element}"
    if op.name == "math.fma" and type(op.results[0].type) in _HALVES:
        return "rounds math.fma to half once"
    return None


def _block(epilogue: FusedEpilogue) -> ScalarBlock:
    types = [_TYPES[operand.type] for operand in epilogue.operands]
    return epilogue.body.as_block(_TYPES[epilogue.sum], types)


def _is_kept(kind: Attribute, computed: AnyFloat | IntegerType) -> bool:
    if computed == i32:
        return kind in (i32, i8, i1, f32)
    is_half = type(kind) in _HALVES and isinstance(computed, Float32Type)
    return kind in (computed, i1) or is_half


def _is_number(value: Attribute, computed: AnyFloat | IntegerType) -> bool:
    kind = cast("FloatAttr[AnyFloat] | IntegerAttr", value).type
    return isinstance(value, FloatAttr | IntegerAttr) and _is_kept(kind, computed)


@dataclass(frozen=True)
class ScalarSteps:
    """Writes a program over vectors of any length, or over scalars."""

    lanes: Lanes
    epilogue: FusedEpilogue

    def write(self, f: Function, total: Value, operands: Sequence[Value]) -> Value:
        """What the program gives for the accumulators `total` and the elements `operands`, but for
        a last rounding, which is that of the store.

        All have the type of the arithmetic, in the same number of lanes.
        """
        late = self._rounded_late
        return _written(f, self.lanes, self._scalars, (total, *operands), late)[1]

    @property
    def is_rounded(self) -> bool:
        """Whether what is written is a number of the 16-bit type that is stored."""
        return type(self._scalars.value.type) in _HALVES and not self._rounded_late

    @cached_property
    def _rounded_late(self) -> frozenset[Operation]:
        """The ops from the last rounding on, if what follows it orders numbers as they were: it may
        as well be the last step."""
        found: list[Operation] = []
        value = self._scalars.value
        while isinstance(op := value.owner, Operation) and value not in self._scalars.constants:
            found.append(op)
            if type(value.type) not in _HALVES or op.name == "arith.select":
                break
            if op.name not in MONOTONE:
                return frozenset(found)
            computed = [
                x
                for x in op.operands
                if isinstance(x.owner, Operation) and x not in self._scalars.constants
            ]
            if len(computed) != 1 or not computed[0].has_one_use():
                break
            (value,) = computed
        return frozenset()

    @cached_property
    def _scalars(self) -> ScalarBlock:
        return _block(self.epilogue)


def write_steps(
    f: Function,
    lanes: Lanes,
    steps: tuple[ScalarOp, ...],
    total: Value,
    operands: Sequence[Value],
) -> list[Value]:
    """What each step gives for the accumulators `total` and the elements `operands`, all of one
    type.

    Steps are those that `unsupported_step` has nothing against.
    """
    if not steps:
        return []
    scalars = _block_of(steps, lanes.element, len(operands))
    return _written(f, lanes, scalars, (total, *operands), frozenset())[0]


@lru_cache(maxsize=1)
def _block_of(steps: tuple[ScalarOp, ...], element: ComputeType, operands: int) -> ScalarBlock:
    """`steps` as ops: the same for every vector of a stage."""
    kind = _TYPES[element]
    return ScalarProgram(Result(len(steps) - 1), steps).as_block(kind, [kind] * operands)


def _written(
    f: Function,
    lanes: Lanes,
    scalars: ScalarBlock,
    arguments: Sequence[Value],
    unrounded: frozenset[Operation],
) -> tuple[list[Value], Value]:
    """What each op of a block gives, and the value of all of them; `unrounded` ones give what they
    would round."""
    values: dict[SSAValue, Value] = dict(zip(scalars.block.args, arguments, strict=True))
    for value, number in scalars.constants.items():
        values[value] = constant(number, arguments[0].type)
    results: list[Value] = []
    for op in scalars.block.ops:
        found = activation(op) if lanes.element == "f32" else None
        if found is None:
            given = [values[x] for x in op.operands]
            results.append(write_step(f, lanes, op, given, rounds=op not in unrounded))
        else:
            results.append(write(f, found[0], [values[found[1]]], lanes.cpu))
        values[op.results[0]] = results[-1]
    return results, values[scalars.value]


def write_step(
    f: Function, lanes: Lanes, op: Operation, operands: Sequence[Value], *, rounds: bool = True
) -> Value:
    """What a scalar op gives, on vectors of any length or on scalars."""
    first = operands[0]
    if isinstance(op, arith.CmpfOp):
        predicate = _COMPARE[op.predicate.value.data]
        text = f"fcmp {predicate} {first}, {operands[1].text}"
        return f.emit(_truths(first.type), "compared", text)
    if op.name == "arith.select":
        _, left, right = operands
        return f.emit(left.type, "chosen", f"select {first}, {left}, {right}")
    if op.name == "arith.extf":
        return first
    if op.name in _OF_INTEGERS:
        return _of_integers(f, op, operands)
    if op.name in _ARITHMETIC:
        value = f.float_binary(_ARITHMETIC[op.name], first, operands[1], "computed")
    elif op.name == "arith.negf":
        value = f.emit(first.type, "negated", f"fneg {first}")
    elif op.name == "arith.truncf":
        value = first
    elif op.name in FUNCTIONS:
        value = write(f, op.name, operands, lanes.cpu)
    else:
        value = _intrinsic(f, lanes, _INTRINSICS[op.name], operands)
    half = None if op.name in EXACT or not rounds else _HALVES.get(type(op.results[0].type))
    return value if half is None else Storage(lanes, half).rounded(f, value)


def _of_integers(f: Function, op: Operation, operands: Sequence[Value]) -> Value:
    first, *others = operands
    name = _OF_INTEGERS[op.name]
    if others:
        return f.emit(first.type, "computed", f"{name} {first}, {others[0].text}")
    element = "float" if op.results[0].type == f32 else str(op.results[0].type)
    kind = vector(element, _count(first.type)) if first.type.startswith("<") else element
    return f.emit(kind, "converted", f"{name} {first} to {kind}")


def _count(kind: str) -> int:
    return int(kind[1:].split(" x ", maxsplit=1)[0])


def _intrinsic(f: Function, lanes: Lanes, name: str, operands: Sequence[Value]) -> Value:
    kind = operands[0].type
    suffix = "f64" if lanes.element == "f64" else "f32"
    if kind.startswith("<"):
        suffix = f"v{kind[1:].split(' x ')[0]}{suffix}"
    parameters = ", ".join(operand.type for operand in operands)
    declaration = f"declare {kind} @llvm.{name}.{suffix}({parameters})"
    return f.intrinsic(declaration, kind, operands, name)


def _truths(kind: str) -> str:
    return vector("i1", int(kind[1:].split(" x ", maxsplit=1)[0])) if kind.startswith("<") else "i1"


def constant(number: Attribute, like: str) -> Value:
    """A constant in every lane of the shape of `like`."""
    if not isinstance(number, IntegerAttr):
        data = cast("FloatAttr[AnyFloat]", number).value.data
        return float_constant(data, like.replace("i32", "float"))
    whole = cast("IntegerAttr[IntegerType]", number)
    if whole.type != i1:
        element, text = str(whole.type), str(whole.value.data)
        if not like.startswith("<"):
            return Value(element, text)
        return Value(vector(element, _count(like)), f"splat ({element} {text})")
    kind, text = _truths(like), "true" if whole.value.data else "false"
    if not kind.startswith("<"):
        return Value(kind, text)
    lanes = int(kind[1:].split(" x ", maxsplit=1)[0])
    return Value(kind, f"<{', '.join([f'i1 {text}'] * lanes)}>")
