"""`fold-constants`: what is computed from constants alone is computed once, here.

    rewrite: %s = conv.constant #conv.blob<…>; %f = flip(%w); %g = generic(%f, %s)
             --> %g = conv.constant dense<…>

Filter flips, repacks of weights, the scales of a folded batch normalisation. The NumPy reference
computes them, so every rounding of the IR is kept. Only what something else reads is stored, as
the furthest value of its chain; reshapes and slices stay ops, which cost nothing at run time.

Preconditions: the op is pure, all that it reads is a constant with elements (no uninitialised
tensor alone), and its result is no larger than `max-bytes` and than GROWTH times the constants it
is computed from: a table that a short formula gives is not worth its memory. A value that is the
same everywhere stays a fill.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    FixedBitwidthType,
    FunctionType,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from convir.dialects.compat.literals import dense_from_bytes
from convir.dialects.conv_constant import ConstantOp
from convir.dialects.dependence import backward_slice, operands_of
from convir.dialects.diagnostics import DiagnosticError
from convir.dialects.refusal import Refusal
from convir.dialects.zeros import constant_fill_of
from convir.passes import remarks
from convir.passes.effects import Effects

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Attribute

NAME = "fold-constants"

GROWTH = 2
"""How many times the bytes that it is computed from a stored result may take."""
SMALL_BYTES = 4096
"""Results of so many bytes are stored whatever they are computed from."""
MAX_BYTES = 1 << 28

_CHEAP = frozenset(
    {
        *("arith.constant", "conv.constant", "linalg.fill", "tensor.empty", "tensor.splat"),
        *("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice"),
    }
)
"""Ops that cost nothing at run time, or less than reading their result from memory would. A slice
is how its reader addresses the constant: the phases of a backward convolution share one filter."""


def bytes_of(value: SSAValue) -> int | None:
    """The bytes of a static tensor; None for anything else."""
    value_type: object = value.type
    if not isinstance(value_type, TensorType):
        return None
    tensor_type = cast("TensorType[Attribute]", value_type)
    element: object = tensor_type.element_type
    if not tensor_type.has_static_shape() or not isinstance(element, FixedBitwidthType):
        return None
    return prod(tensor_type.get_shape()) * element.size


class _Constants:
    """What a block computes from constants alone."""

    def __init__(self, block: Block) -> None:
        effects = Effects()
        self.known: set[Operation] = set()
        for op in block.ops:
            if op.has_trait(IsTerminator) or not op.results or not effects.is_pure(op):
                continue
            if all(self.is_known(value) for value in operands_of(op)):
                self.known.add(op)

    def is_known(self, value: SSAValue) -> bool:
        """Whether a value is computed from constants alone."""
        return value.owner in self.known

    def is_needed(self, op: Operation) -> bool:
        """Whether a result of a known op is read by anything that must run."""
        for result in op.results:
            for use in result.uses:
                reader = use.operation
                while reader.parent_block() is not op.parent_block():
                    reader = cast("Operation", reader.parent_op())
                if reader not in self.known or (reader.name in _CHEAP and self.is_needed(reader)):
                    return True
        return False


def refusal_of(op: Operation, sources: list[Operation], max_bytes: int) -> Refusal | None:
    """Why the result of `op`, computed by `sources`, is not stored; None if it is."""
    size = bytes_of(op.results[0])
    if len(op.results) != 1 or size is None:
        return Refusal("its result is not one static tensor of numbers")
    if constant_fill_of(op.results[0]) is not None:
        return Refusal("its result is one value, which is cheaper to fill in")
    if size > max_bytes:
        return Refusal(f"its result takes {size} bytes, more than {max_bytes}")
    read = sum(
        bytes_of(source.results[0]) or 0
        for source in sources
        if isinstance(source, ConstantOp | arith.ConstantOp)
        and constant_fill_of(source.results[0]) is None
    )
    if size > max(GROWTH * read, SMALL_BYTES):
        return Refusal(f"its result takes {size} bytes, computed from {read} bytes of constants")
    return None


def evaluated(op: Operation, sources: list[Operation]) -> Any:
    """The result of `op` as an array.

    Raises:
        DiagnosticError: the reference does not know an op, or cannot read a constant.
    """
    from convir.runtime.reference import evaluate  # noqa: PLC0415  (brings NumPy along)

    block = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    for source in sources:
        block.add_op(source.clone(mapping))
    block.add_op(func.ReturnOp(mapping[op.results[0]]))
    types = FunctionType.from_lists([], [op.results[0].type])
    module = ModuleOp([func.FuncOp("constant", types, Region(block))])
    return evaluate(module, "constant", [])[0]


def stored(array: Any, tensor_type: TensorType[Attribute]) -> ConstantOp:
    """A constant op that holds the elements of `array`."""
    elements = cast("TensorType[IntegerType]", tensor_type)
    return ConstantOp(dense_from_bytes(array.tobytes(), elements), tensor_type)


def _fold(block: Block, max_bytes: int) -> None:
    constants = _Constants(block)
    for op in list(block.ops):
        if op not in constants.known or op.name in _CHEAP or not constants.is_needed(op):
            continue
        sources = backward_slice(block, {op})
        refusal = refusal_of(op, sources, max_bytes)
        if refusal is None:
            refusal = _store(op, sources, constants)
        if refusal is not None:
            remarks.refused(NAME, op, refusal.reason)
    for op in reversed(list(block.ops)):
        if op in constants.known and all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)


def _store(op: Operation, sources: list[Operation], constants: _Constants) -> Refusal | None:
    """Put a constant in the place of `op`; why not, where that fails."""
    try:
        array = evaluated(op, sources)
    except DiagnosticError as error:
        return Refusal(error.diagnostics[0].message)
    result = op.results[0]
    constant = stored(array, cast("TensorType[Attribute]", result.type))
    constant.location = op.location
    constant.result.name_hint = result.name_hint
    computing = sum(source.name not in _CHEAP for source in sources)
    remarks.fired(NAME, op, f"{array.nbytes} bytes instead of {computing} ops at every run")
    Rewriter.insert_op(constant, InsertPoint.before(op))
    constants.known.add(constant)
    result.replace_all_uses_with(constant.result)
    return None


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Compute once what is computed from constants alone."""

    name: ClassVar[str] = NAME

    max_bytes: int = MAX_BYTES
    """Larger results stay computed."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block."""
        for function in list(op.walk()):
            if isinstance(function, func.FuncOp) and len(function.body.blocks) == 1:
                _fold(function.body.block, self.max_bytes)
