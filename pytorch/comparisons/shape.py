"""A convolution as comparisons know it: its sizes, whatever PyTorch calls them."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2, prod
from typing import TYPE_CHECKING, Literal, TypeAlias

from convir.pytorch.layouts import ORDERS, orders_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.pytorch.layouts import Order
    from convir.pytorch.signature import Pass, Signature

Sizes: TypeAlias = tuple[int, ...]
"""One for each spatial dimension."""
Grouping: TypeAlias = Literal["dense", "grouped", "depthwise"]

_ROLES: Mapping[Pass, tuple[int, int, int]] = {
    "forward": (0, 1, 2),
    "backward data": (2, 1, 0),
    "backward weight": (0, 2, 1),
}
"""Which of a signature's tensors are aten's input, filter and output."""
_TRANSPOSED: Mapping[Pass, Pass] = {
    "forward": "backward data",
    "backward data": "forward",
    "backward weight": "backward weight",
}


@dataclass(frozen=True)
class Shape:
    """One direction of one convolution, none of them transposed."""

    direction: Pass
    dtype: str
    """`f16`, `bf16`, `f32`, or `tf32`: f32 that is multiplied as TF32."""
    order: Order
    """Of all three tensors."""
    n: int
    c: int
    """Channels of the input, all groups together."""
    k: int
    """Channels of the output, all groups together."""
    spatial: Sizes
    """Of the input."""
    taps: Sizes
    strides: Sizes
    padding: Sizes
    dilations: Sizes
    groups: int

    @property
    def kind(self) -> tuple[object, ...]:
        """What shapes must have in common for one to say something of the other."""
        precision = "16 bits" if self.dtype in ("f16", "bf16") else self.dtype
        return self.direction, precision, self.order, self.grouping

    @property
    def grouping(self) -> Grouping:
        """Dense, or how small groups are: one or two channels are depthwise."""
        if self.groups == 1:
            return "dense"
        return "depthwise" if self.c // self.groups <= 2 else "grouped"

    def distance(self, other: Shape) -> float:
        """How unlike another shape of its kind it is: powers of two between their sizes, those of
        the number of points half as much."""
        mine, others = self._sizes(), other._sizes()
        apart = [abs(log2(a / b)) for a, b in zip(mine, others, strict=True)]
        return apart[0] / 2 + sum(apart[1:])

    def _sizes(self) -> tuple[int, ...]:
        points = self.n * prod(self.spatial)
        return points, self.c, self.k, self.groups, prod(self.taps), max(self.strides)


def shape_of(signature: Signature) -> Shape | None:
    """The shape of a signature; None where its tensors lie in no common order."""
    options = signature.options
    x, w, y = ((*signature.operands, signature.result)[i] for i in _ROLES[signature.direction])
    direction = signature.direction
    if options.transposed:
        x, y, direction = y, x, _TRANSPOSED[direction]
    orders: list[Order] = [
        order
        for order in ORDERS
        if all(order in orders_of(tensor.shape, tensor.strides) for tensor in (x, w, y))
    ]
    if not orders:
        return None
    return Shape(
        direction,
        "tf32" if signature.allow_tf32 else signature.dtype,
        orders[-1],
        x.shape[0],
        x.shape[1],
        w.shape[0],
        x.shape[2:],
        w.shape[2:],
        options.stride,
        options.padding,
        options.dilation,
        options.groups,
    )
