"""The windows of convolutions and pools: `auto_pad`, `pads` and `output_shape` made explicit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.conv.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.frontends.onnx.call import Call

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def windows_of(call: Call, sizes: Sequence[int], taps: Sequence[int]) -> tuple[Window, ...]:
    """The windows of a convolution or a pool over inputs of the given spatial sizes.

    Raises:
        OnnxError: attributes contradict each other.
    """
    rank = len(sizes)
    strides = call.integers("strides", [1] * rank, least=1)
    dilations = call.integers("dilations", [1] * rank, least=1)
    mode = call.choice("auto_pad", "NOTSET", AUTO_PADS)
    pads = call.integers("pads", [0] * (2 * rank))
    windows: list[Window] = []
    for dim, (size, count) in enumerate(zip(sizes, taps, strict=True)):
        window = Window(count, strides[dim], dilations[dim])
        low, high = pads[dim], pads[rank + dim]
        if mode == "VALID":
            low, high = 0, 0
        elif mode != "NOTSET":
            outputs = -(-size // window.stride)
            total = max(window.smallest_input(outputs) - size, 0)
            low, high = split_padding(total, more_at_end=mode == "SAME_UPPER")
        if low < 0 or high < 0:
            raise call.error(f"negative padding {low}, {high} is not supported")
        windows.append(Window(count, window.stride, window.dilation, low, high))
    return tuple(windows)


def split_padding(total: int, *, more_at_end: bool) -> tuple[int, int]:
    """`total` before and after, the odd one at the end or at the beginning."""
    low = total // 2 if more_at_end else total - total // 2
    return low, total - low
