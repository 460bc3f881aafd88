"""How tensors of PyTorch lie in memory, in the letters of the compiler.

PyTorch names the dimensions of an activation N C D H W and those of a filter K C T R S, whatever
their strides; strides say in which of two orders the elements lie: channels first, or channels
last. Dimensions of size 1 have no order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Order: TypeAlias = Literal["first", "last"]
"""Whether channels come before the spatial dimensions or after them."""

ORDERS: tuple[Order, Order] = ("first", "last")

SPATIAL = {1: ("W", "S"), 2: ("HW", "RS"), 3: ("DHW", "TRS")}
"""By spatial rank the spatial letters of an activation, and the taps of a filter."""


def strides_of(shape: Sequence[int], order: Order) -> tuple[int, ...]:
    """The strides, in elements, of a dense tensor of `shape` in an order."""
    axes = range(len(shape)) if order == "first" else (0, *range(2, len(shape)), 1)
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(list(axes)):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def orders_of(shape: Sequence[int], strides: Sequence[int]) -> tuple[Order, ...]:
    """The orders in which a tensor is dense: none, one, or both where sizes are 1."""
    return tuple(
        order
        for order in ORDERS
        if all(
            size == 1 or have == want
            for size, have, want in zip(shape, strides, strides_of(shape, order), strict=True)
        )
    )


def letters(order: Order, rank: int, *, is_filter: bool = False) -> str:
    """The layout of an activation or a filter with `rank` spatial dimensions, e.g. `NHWC`."""
    spatial = SPATIAL[rank][1 if is_filter else 0]
    outer = "K" if is_filter else "N"
    return f"{outer}C{spatial}" if order == "first" else f"{outer}{spatial}C"


def arranged(shape: Sequence[int], order: Order) -> tuple[int, ...]:
    """The shape of a dense tensor as its memory has it."""
    return tuple(shape) if order == "first" else (shape[0], *shape[2:], shape[1])
