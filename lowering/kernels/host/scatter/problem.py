"""A kernel's body as one strided scatter of an argument into zeros."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import FixedBitwidthType, TensorType
from xdsl.ir import BlockArgument, Operation

from convir.analysis.refusal import Refusal
from convir.analysis.scatter.generic import scatter_generic
from convir.analysis.slices import slice_view
from convir.analysis.values.zeros import is_zero
from convir.lowering.bodies.operand_access import shape_of
from convir.lowering.kernels.host.code.builder import LINE_BYTES

if TYPE_CHECKING:
    from convir.dialects.kernel import ops as kernel

MIN_RUN_BYTES = 64
"""Shorter runs are no whole vector; loops over their elements do better."""

STREAM_BYTES = 32 << 20
"""A result larger than this leaves no last-level cache room for anything."""


@dataclass(frozen=True)
class Scatter:
    """The elements of one argument at every stride-th position of zeros."""

    argument: int
    element_bytes: int
    source: tuple[int, ...]
    """Sizes, as many as the result has."""
    result: tuple[int, ...]
    offsets: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def inner(self) -> int:
        """The innermost dimension that the source does not fill."""
        return max(d for d in range(len(self.result)) if not self._fills(d))

    @property
    def run_bytes(self) -> int:
        """Bytes of what lies in one piece."""
        return prod(self.result[self.inner + 1 :]) * self.element_bytes

    @property
    def line_bytes(self) -> int:
        """Bytes of the result along `inner`."""
        return self.result[self.inner] * self.run_bytes

    @property
    def lines(self) -> int:
        """Lines of the result."""
        return prod(self.result[: self.inner])

    @property
    def streams(self) -> bool:
        """Whether a result that begins with a cache line is written around the caches."""
        large = self.lines * self.line_bytes > STREAM_BYTES
        return large and self.run_bytes % LINE_BYTES == 0

    def _fills(self, dim: int) -> bool:
        whole = self.source[dim] == self.result[dim]
        return whole and (self.offsets[dim], self.strides[dim]) == (0, 1)


def read_scatter(callee: kernel.FuncOp) -> Scatter | Refusal:
    """Read the body of `callee` as one scatter of an argument into zeros, or say why it is none."""
    returned = callee.body.block.last_op
    assert returned is not None
    owner = returned.operands[0].owner if len(returned.operands) == 1 else None
    if not isinstance(owner, Operation):
        return Refusal("it does not return one computed value")
    found = slice_view(owner) or scatter_generic(owner)
    if isinstance(found, Refusal):
        return found
    if found.kind not in ("insert_slice", "generic") or found.dropped:
        return Refusal(f"it is a {owner.name}")
    background = found.fill if found.dest is None else found.dest
    if background is None or not is_zero(background):
        return Refusal("its holes are no zeros")
    if not isinstance(found.source, BlockArgument):
        return Refusal("its source is computed")
    numbers = (found.sizes, found.offsets, found.strides)
    if any(None in line for line in numbers):
        return Refusal("it is dynamic")
    element = cast("TensorType", found.source.type).element_type
    if not isinstance(element, FixedBitwidthType):
        return Refusal(f"elements of {element} have no size")
    sizes, offsets, strides = cast("tuple[tuple[int, ...], ...]", numbers)
    result = shape_of(found.result)
    if 0 in result or 0 in sizes:
        return Refusal("a tensor has no elements")
    scatter = Scatter(found.source.index, element.size, sizes, result, offsets, strides)
    if scatter.source == scatter.result:
        return Refusal("it leaves no hole")
    if scatter.run_bytes < MIN_RUN_BYTES:
        return Refusal(f"its runs are of {scatter.run_bytes} bytes")
    return scatter
