"""What a function costs before anything runs: FLOPs, bytes moved and peak memory.

FLOPs are those of the full loop nest, zeros included: two for a multiply-add, one for any other
float operation in a body; casts and index arithmetic are free. Bytes are what each op reads and
writes once. Splats, empty tensors, slices and reshapes that only rename elements cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FixedBitwidthType,
    IndexType,
    TensorType,
)
from xdsl.traits import ConstantLike

from convir.analysis.contraction import ContractionDims, contraction_dims
from convir.analysis.structured import structured

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Attribute, Block, Operation, SSAValue

    from convir.analysis.structured import Structured

_INDEX_BYTES: Final = 8
_BITS_PER_BYTE: Final = 8
_FREE: Final = frozenset(
    {
        "tensor.empty",
        "tensor.splat",
        "tensor.cast",
        "tensor.dim",
        "tensor.collapse_shape",
        "tensor.expand_shape",
        "tensor.extract_slice",
        "tensor.reshape",
    }
)
"""Ops that at most rename elements."""
_CASTS: Final = frozenset({"arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp"})
_CHOICES: Final = frozenset({"arith.select", "arith.constant", "tensor.extract"})
_MULTIPLY_ADD_FLOPS: Final = 2


@dataclass(frozen=True)
class Cost:
    """FLOPs, and bytes read and written."""

    flops: int = 0
    bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes)


def size_in_bytes(value_type: Attribute, dynamic_size: int = 1) -> int:
    """The bytes of a tensor, every `?` taken as `dynamic_size`; 0 for any other type."""
    if not isinstance(value_type, TensorType):
        return 0
    tensor_type = cast("TensorType[Attribute]", value_type)
    sizes = (dynamic_size if n == DYNAMIC_INDEX else n for n in tensor_type.get_shape())
    return prod(sizes) * element_bytes(tensor_type.element_type)


def cost_of(op: Operation, dynamic_size: int = 1) -> Cost:
    """The cost of one op; what is in its regions counts once, `?` counts as `dynamic_size`."""
    if op.name in _FREE or op.has_trait(ConstantLike):
        return Cost()
    view = structured(op)
    if view is not None:
        return _structured_cost(view, dynamic_size)
    if op.name.startswith(("tensor.", "linalg.")):
        return Cost(0, _bytes(_read(op), dynamic_size) + _bytes(op.results, dynamic_size))
    if op.name.startswith(("arith.", "math.")):
        return _elementwise_cost(op, dynamic_size)
    inner = (child for region in op.regions for block in region.blocks for child in block.ops)
    return sum((cost_of(child, dynamic_size) for child in inner), Cost())


def peak_bytes(block: Block, dynamic_size: int = 1) -> int:
    """The most bytes of tensors that are live at once, if each op's result is an array of its own.

    Arguments are live throughout. A region counts as its results alone.
    """
    last_use: dict[SSAValue, Operation] = {}
    for op in block.ops:
        for inner in op.walk():
            last_use.update(dict.fromkeys(inner.operands, op))
    live = _bytes(block.args, dynamic_size)
    peak = live
    held: dict[SSAValue, int] = {}
    for op in block.ops:
        if op.name not in _FREE and not op.has_trait(ConstantLike):
            held.update({r: size_in_bytes(r.type, dynamic_size) for r in op.results})
            live += _bytes(op.results, dynamic_size)
        peak = max(peak, live)
        for value in {operand for inner in op.walk() for operand in inner.operands}:
            if last_use.get(value) is op:
                live -= held.pop(value, 0)
    return peak


def _structured_cost(view: Structured, dynamic_size: int) -> Cost:
    trips = prod(dynamic_size if bound is None else bound for bound in view.bounds)
    dims = contraction_dims(view.op)
    if isinstance(dims, ContractionDims):
        per_iteration = _MULTIPLY_ADD_FLOPS
    else:
        per_iteration = sum(map(_is_flop, view.body.ops))
    read = [
        operand
        for operand, argument in zip(view.operands, view.body.args, strict=True)
        if argument.first_use is not None and not _is_splat(operand)
    ]
    captured = {inner.operands[0] for inner in view.body.walk() if inner.name == "tensor.extract"}
    moved = _bytes((*read, *captured), dynamic_size)
    return Cost(per_iteration * trips, moved + _bytes(view.inits, dynamic_size))


def _elementwise_cost(op: Operation, dynamic_size: int) -> Cost:
    """Of arithmetic on whole tensors; scalars cost nothing."""
    moved = _bytes((*_read(op), *op.results), dynamic_size)
    result = op.results[0].type
    if not isinstance(result, TensorType) or op.name in _CASTS | _CHOICES:
        return Cost(0, moved)
    tensor_type = cast("TensorType[Attribute]", result)
    is_flop = isinstance(tensor_type.element_type, AnyFloat)
    element = element_bytes(tensor_type.element_type)
    return Cost(size_in_bytes(tensor_type, dynamic_size) // element if is_flop else 0, moved)


def _is_flop(op: Operation) -> bool:
    if op.name in _CASTS or op.name in _CHOICES:
        return False
    return any(isinstance(result.type, AnyFloat) for result in op.results)


def _read(op: Operation) -> list[SSAValue]:
    """The operands whose elements `op` reads; a splat is in no memory."""
    return [operand for operand in op.operands if not _is_splat(operand)]


def _is_splat(value: SSAValue) -> bool:
    producer = value.owner
    name = getattr(producer, "name", "")
    return name in ("tensor.empty", "tensor.splat", "linalg.fill", "arith.constant")


def _bytes(values: Iterable[SSAValue], dynamic_size: int) -> int:
    return sum(size_in_bytes(value.type, dynamic_size) for value in values)


def element_bytes(element_type: Attribute) -> int:
    """The bytes of one element; 0 of a type that is stored in no tensor."""
    if isinstance(element_type, IndexType):
        return _INDEX_BYTES
    if not isinstance(element_type, FixedBitwidthType):
        return 0
    return -(-element_type.bitwidth // _BITS_PER_BYTE)
