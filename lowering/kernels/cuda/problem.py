"""A kernel's tensor body as kernel families take it: a contraction, and an epilogue in C++."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    i32,
)
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.refusal import Refusal
from convir.analysis.structural_keys import once_for_equal_bodies
from convir.dialects.kernel import ops as kernel
from convir.lowering.bodies.contraction.read_fused import read_fused
from convir.lowering.kernels.cuda.epilogue import Epilogue
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.protocol import Problem
from convir.lowering.loops.cuda.scalars import ScalarPrinter

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.scalar_program import ScalarProgram
    from convir.lowering.bodies.contraction.spec import Contraction, StorageType

_TYPES: dict[StorageType, AnyFloat | IntegerType] = {
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    "f32": Float32Type(),
    "f64": Float64Type(),
    "i32": i32,
}


@dataclass(frozen=True)
class ContractionProblem(Problem):
    """What a kernel computes, for families, and which of its arguments is which operand."""

    a: int
    other: int
    """The input that is B where C is computed, and C where B is."""

    @property
    def problem(self) -> Problem:
        """The same without its arguments."""
        return Problem(self.contraction, self.epilogue)

    def place(self, pointer: Pointer) -> Pointer:
        """The kernel's input or output that stands behind an operand."""
        match pointer.place:
            case "a":
                return Pointer("input", self.a)
            case "b" | "c":
                is_result = pointer.place.upper() == self.contraction.result
                return Pointer("output") if is_result else Pointer("input", self.other)
            case "epilogue":
                return Pointer("input", self.epilogue.operands[pointer.index].argument)
            case _:
                return pointer


def read_problem(callee: kernel.FuncOp) -> ContractionProblem | Refusal:
    """Read the body of `callee`, or say why it is not a contraction with an epilogue."""
    return _read(callee, kernel.ALLOW_TF32 in callee.attributes)


@once_for_equal_bodies
def _read(callee: kernel.FuncOp, allow_tf32: bool) -> ContractionProblem | Refusal:
    fused = read_fused(callee, _reading_cost)
    if isinstance(fused, Refusal):
        return fused
    if fused.contraction.element == "i32":
        return Refusal("it sums integers")
    try:
        epilogue = _printed(fused.epilogue)
    except PassFailedException as error:
        return Refusal(f"its epilogue cannot be fused: {error}")
    contraction = fused.contraction
    if allow_tf32 and all(operand.type == "f32" for operand in contraction.inputs):
        contraction = replace(contraction, tf32=True)
    return ContractionProblem(contraction, epilogue, fused.a, fused.other)


def _reading_cost(spec: Contraction) -> tuple[int, int]:
    """Fewest taps first, which a block walks one by one; then channels that are contiguous."""
    return spec.taps, sum(channels.stride != 1 for channels in (spec.a, spec.c))


def _printed(epilogue: FusedEpilogue) -> Epilogue:
    return Epilogue(
        epilogue.sum,
        epilogue.stored,
        _statements(epilogue.body, epilogue),
        _statements(epilogue.zero_fill, epilogue),
        epilogue.operands,
        rounds_only=epilogue.rounds_only,
        zero_fills_are_zero_sums=epilogue.zero_fills_are_zero_sums,
        zero_fills_read_operands=epilogue.zero_fill.reads_operands,
        has_functions=epilogue.body.has_functions,
    )


def _statements(program: ScalarProgram, epilogue: FusedEpilogue) -> str:
    """C++ that computes `y` from the sum `x` and the elements of the operands, a line each.

    Raises:
        PassFailedException: an op or a type has no CUDA code.
    """
    types = [_TYPES[operand.type] for operand in epilogue.operands]
    scalars = program.as_block(_TYPES[epilogue.sum], types)
    total, *elements = scalars.block.args
    names: dict[SSAValue, str] = {total: "x"}
    names |= {element: f"p.e{i}[at[{i}]]" for i, element in enumerate(elements)}
    printer = ScalarPrinter("long long", names)
    names |= {value: printer.constant(number) for value, number in scalars.constants.items()}
    lines: list[str] = []
    for number, op in enumerate(scalars.block.ops):
        kind = printer.type_name(op.results[0].type)
        lines.append(f"const {kind} v{number} = {printer.expression(op)};")
        names[op.results[0]] = f"v{number}"
    lines.append(f"const auto y = {names[scalars.value]};")
    return "".join(f"    {line}\n" for line in lines)
