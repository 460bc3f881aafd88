"""One convolution that PyTorch asks for, as plain data, and each of its three directions.

Nothing here imports PyTorch or the compiler: signatures travel between processes and are the keys
of choices on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from convir.analysis.refusal import Refusal
from convir.pytorch.layouts import orders_of

if TYPE_CHECKING:
    from convir.pytorch.layouts import Order

Pass: TypeAlias = Literal["forward", "backward data", "backward weight"]
"""What is computed: the result, the gradient of the input, or that of the filter."""


@dataclass(frozen=True)
class Options:
    """The options of `aten::convolution`; one number of each kind per spatial dimension."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int

    def output_spatial(self, sizes: tuple[int, ...], taps: tuple[int, ...]) -> tuple[int, ...]:
        """The spatial sizes of the result, for an input of `sizes` and a filter of `taps`."""
        along = zip(
            sizes, taps, self.stride, self.padding, self.dilation, self.output_padding, strict=True
        )
        if self.transposed:
            return tuple((h - 1) * s - 2 * p + d * (r - 1) + 1 + o for h, r, s, p, d, o in along)
        return tuple((h + 2 * p - d * (r - 1) - 1) // s + 1 for h, r, s, p, d, _ in along)


@dataclass(frozen=True)
class Tensor:
    """A tensor without its elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""


@dataclass(frozen=True)
class Signature:
    """One direction of one convolution: all that code and choices depend on."""

    direction: Pass
    dtype: str
    """`f32`, `f16` or `bf16`, of all tensors."""
    operands: tuple[Tensor, Tensor]
    """Forward: input and filter. Backward data: output gradient and filter. Backward weight: input
    and output gradient."""
    result: Tensor
    bias: bool
    """Whether a bias is added to the result, which only the forward direction may do."""
    options: Options
    device: str
    """`host` or `cuda`."""
    allow_tf32: bool = False
    """Whether f32 may be multiplied as TF32."""
    threads: int = 0
    """At most so many threads, on the host."""


@dataclass(frozen=True)
class Placement:
    """In which order each tensor of a signature lies, and which operands are copied first."""

    operands: tuple[Order, Order]
    result: Order
    copies: tuple[bool, bool]


def placement(signature: Signature) -> Placement | Refusal:
    """How the tensors of a signature are read and written.

    Operands that are dense in neither order are copied: to channels last if any tensor is so.
    """
    tensors = (*signature.operands, signature.result)
    found = [orders_of(tensor.shape, tensor.strides) for tensor in tensors]
    if not found[2]:
        return Refusal("the result is dense in neither order")
    wanted: Order = "last" if ("last",) in found else "first"
    chosen: list[Order] = [
        wanted if wanted in orders or not orders else orders[0] for orders in found
    ]
    return Placement((chosen[0], chosen[1]), chosen[2], (not found[0], not found[1]))


def swaps_operands(signature: Signature) -> bool:
    """Whether the problem's operands are those of the signature in the other order."""
    return signature.options.transposed and signature.direction == "backward weight"
