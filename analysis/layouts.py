"""Which tensors of a block change their layout together, and at what price.

Two tensors are linked where an op computes as well on both of them permuted: a convolution's image
and its result, the operands of an elementwise generic, a pool's input and output, a slice and what
it is inserted into, the parts of a concatenation and the whole. Linked tensors form components.
Where a component meets anything else, an argument, a result of the function, a reshape, a permuted
tensor is transposed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    TensorType,
    f32,
)
from xdsl.ir import Operation

from convir.analysis.slices import is_encoded, slice_view
from convir.analysis.structured import structured
from convir.dialects.conv.constant import ConstantOp
from convir.dialects.conv.ops import DgradOp, FpropOp
from convir.dialects.stream_attributes import is_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Attribute, Block, SSAValue

    from convir.analysis.structured import Structured

HOST = "host"
"""The device whose kernels take some convolutions with their channels first."""

CHANNELS_FIRST = {3: "NCW", 4: "NCHW", 5: "NCDHW"}
"""The layout that is changed, by rank."""


MAX_PLANAR_CHANNELS = 64
"""Channels up to which the host convolves along frames where they are neighbours, with no copy."""


@dataclass(eq=False)
class Component:
    """Linked tensors of one rank."""

    rank: int
    values: list[SSAValue] = field(default_factory=list["SSAValue"])
    convolutions: list[Operation] = field(default_factory=list[Operation])

    def gained(self, device: str) -> int:
        """Bytes that kernels which want channels as neighbours would copy for the convolutions."""
        return sum(
            2 * nbytes(value)
            for op in self.convolutions
            for value in (image_of(op), op.results[0])
            if device != HOST or not _is_planar(op)
        )

    @cached_property
    def edges(self) -> tuple[list[SSAValue], list[SSAValue]]:
        """The tensors that are transposed on their way in, and on their way out, as the block was
        when somebody first asked."""
        inside = set(self.values)
        read: dict[Operation, list[SSAValue]] = {}

        def leaves(value: SSAValue) -> bool:
            for use in value.uses:
                reader = use.operation
                if reader not in read:
                    read[reader] = links_of(reader, inside)
                if value not in read[reader]:
                    return True
            return False

        entering = [value for value in self.values if not _is_linking(value.owner, value)]
        return entering, [value for value in self.values if leaves(value)]

    @property
    def moved(self) -> int:
        """Bytes that transposing moves when the program runs."""
        entering, leaving = self.edges
        kept = [value for value in entering if not is_constant(value)]
        return sum(2 * nbytes(value) for value in (*kept, *leaving))


def _is_planar(op: Operation) -> bool:
    """Whether the host's kernels convolve `op` along neighbouring frames, with no copy."""
    if not isinstance(op, FpropOp) or op.filter_layout.data != "KCS":
        return False
    geometry = op.geometry
    kinds = {getattr(value.type, "element_type", None) for value in (op.lhs, op.rhs, op.result)}
    channels = [cast("TensorType[Attribute]", v.type).get_shape()[1] for v in (op.lhs, op.result)]
    return (
        kinds == {f32}
        and geometry.strides == (1,)
        and (geometry.pad_low, geometry.pad_high) == ((0,), (0,))
        and max(channels) <= MAX_PLANAR_CHANNELS
    )


def image_of(op: Operation) -> SSAValue:
    """The image that a convolution reads."""
    return op.operands[0]


def is_constant(value: SSAValue) -> bool:
    """Whether transposing `value` is done once, when the module is compiled."""
    return isinstance(value.owner, ConstantOp | arith.ConstantOp)


def nbytes(value: SSAValue) -> int:
    """Bytes of a tensor of static shape."""
    kind = cast("TensorType[Attribute]", value.type)
    width = kind.element_type.bitwidth if isinstance(kind.element_type, FixedBitwidthType) else 64
    return prod(kind.get_shape()) * width // 8


def components(block: Block) -> list[Component]:
    """The components of a block that hold a convolution whose channels are first."""
    links = _Links()
    for op in block.ops:
        first, *others = links_of(op) or [None]
        for value in others:
            if first is not None and value is not None:
                links.join(first, value)
    found: dict[SSAValue, Component] = {}
    for op in block.ops:
        if _is_convolution(op):
            value = links.root(op.results[0])
            component = found.setdefault(value, Component(_rank(value)))
            component.convolutions.append(op)
    for value in links.values:
        component = found.get(links.root(value))
        if component is not None:
            component.values.append(value)
    return list(found.values())


class _Links:
    """Disjoint sets of values: a forest whose paths are halved as they are walked."""

    def __init__(self) -> None:
        self._parents: dict[SSAValue, SSAValue] = {}
        self._sizes: dict[SSAValue, int] = {}

    @property
    def values(self) -> list[SSAValue]:
        """All values that were joined or asked for, first ones first."""
        return list(self._parents)

    def root(self, value: SSAValue) -> SSAValue:
        """The value that stands for all that `value` is joined with."""
        parents = self._parents
        above = parents.setdefault(value, value)
        while above is not value:
            parents[value] = parents[above]
            value = parents[value]
            above = parents[value]
        return value

    def join(self, one: SSAValue, other: SSAValue) -> None:
        """Make the sets of two values one, the smaller below the larger."""
        one, other = self.root(one), self.root(other)
        if one is other:
            return
        size, other_size = self._sizes.get(one, 1), self._sizes.get(other, 1)
        if size < other_size:
            one, other = other, one
        self._parents[other] = one
        self._sizes[one] = size + other_size


def links_of(op: Operation, among: Iterable[SSAValue] = ()) -> list[SSAValue]:
    """The tensors, operands and results of `op`, that it computes as well on permuted.

    Args:
        op: any op.
        among: tensors that are permuted anyway; an op that reads one through a map of its own
            reads it permuted as well.
    """
    if isinstance(op, FpropOp | DgradOp):
        return [op.lhs, op.init, op.result] if _is_convolution(op) else []
    if not all(_is_plain(value) for value in (*op.operands, *op.results)):
        return []
    view = structured(op)
    if view is not None:
        return _of_structured(view, among)
    if op.name == "tensor.empty" or _is_splat(op):
        return list(op.results)
    sliced = slice_view(op)
    if sliced is not None:
        return _of_slice(op, sliced.dest)
    if op.name == "tensor.concat" and _rank(op.results[0]) in CHANNELS_FIRST:
        return [*op.operands, *op.results]
    if op.name.partition(".")[0] in ("arith", "math") and _is_pointwise(op):
        return [*op.operands, *op.results]
    return []


def _of_structured(view: Structured, among: Iterable[SSAValue]) -> list[SSAValue]:
    """Inits, results, and the inputs whose dimension i the loop of result dimension i walks."""
    if len(view.inits) != 1 or "operandSegmentSizes" not in view.op.properties:
        return []
    if any(op.name in ("linalg.index", "tensor.extract") for op in view.body.walk()):
        return []
    out = view.forms[-1]
    if out is None:
        return []
    loops = [form.bare for form in out]
    results = [*view.inits, *view.op.results]
    read = [value for value in view.inputs if value in among and value not in results]
    if None in loops or len(set(loops)) != len(loops):
        return read
    if _rank(view.inits[0]) not in CHANNELS_FIRST:
        return read
    linked: list[SSAValue] = []
    for value, read_by in zip(view.inputs, view.input_maps, strict=True):
        indices = read_by.results
        if len(indices) != len(loops) or not isinstance(value.type, TensorType):
            continue
        if all(
            not index.used_dims() & (set(loops) - {loop})
            for index, loop in zip(indices, loops, strict=True)
        ):
            linked.append(value)
    return [*results, *linked, *(value for value in read if value not in linked)]


def _of_slice(op: Operation, dest: SSAValue | None) -> list[SSAValue]:
    """Source, destination and result, where no offset, size or stride is dynamic; none of what is
    inserted into a state, which is updated where it lies."""
    if dest is not None and is_state(dest):
        return []
    tensors = [value for value in op.operands if isinstance(value.type, TensorType)]
    if len(tensors) != len(op.operands) or (op.name == "tensor.pad" and _pads_by_index(op)):
        return []
    values = [*tensors, *op.results]
    return values if len({_rank(value) for value in values}) == 1 else []


def _pads_by_index(op: Operation) -> bool:
    return any(argument.first_use is not None for argument in op.regions[0].block.args)


def _is_convolution(op: Operation) -> bool:
    """Whether both images of `op` have their channels first."""
    if not isinstance(op, FpropOp | DgradOp):
        return False
    layouts = {op.input_layout.data, op.output_layout.data}
    if layouts != {CHANNELS_FIRST.get(_rank(op.result))}:
        return False
    return all(_is_plain(value) for value in (op.lhs, op.init))


def _is_linking(owner: object, value: SSAValue) -> bool:
    return isinstance(owner, Operation) and value in links_of(owner)


def _is_pointwise(op: Operation) -> bool:
    ranks = {_rank(value) for value in (*op.operands, *op.results)}
    return bool(op.operands) and len(op.results) == 1 and ranks <= set(CHANNELS_FIRST)


def _is_splat(op: Operation) -> bool:
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, DenseIntOrFPElementsAttr):
        return False
    return op.value.is_splat() and _rank(op.result) in CHANNELS_FIRST


def _is_plain(value: SSAValue) -> bool:
    """Whether a tensor has a static shape, and no encoding, which says nothing of another shape."""
    kind = value.type
    is_static = not isinstance(kind, TensorType) or DYNAMIC_INDEX not in kind.get_shape()
    return is_static and not is_encoded(value)


def _rank(value: SSAValue) -> int:
    kind = value.type
    return len(kind.get_shape()) if isinstance(kind, TensorType) else 0
