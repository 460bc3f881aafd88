"""MIOpenDriver lines whose windows are the same along all axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT = 1, 2, 4
"""What `-F` asks for."""


def conv_line(
    dtype: str,
    n: int,
    c: int,
    k: int,
    spatial: Sequence[int],
    taps: int,
    pad: int,
    stride: int,
    direction: int = BACKWARD_DATA,
    dilation: int = 1,
) -> str:
    """A line with channels last, of one to three spatial axes."""
    rank = len(spatial)
    layout = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank]
    sizes = dict(zip(("in_d", "H", "W")[3 - rank :], spatial, strict=True))
    names = {
        "fil_d": taps, "y": taps, "x": taps, "pad_d": pad, "p": pad, "q": pad,
        "conv_stride_d": stride, "u": stride, "v": stride,
        "dilation_d": dilation, "l": dilation, "j": dilation,
    }  # fmt: skip
    of_rank = {
        1: ("x", "q", "v", "j"),
        2: ("y", "x", "p", "q", "u", "v", "l", "j"),
        3: tuple(names),
    }[rank]
    options = {**sizes, **{name: names[name] for name in of_rank}}
    text = " ".join(f"{'--' if len(key) > 1 else '-'}{key} {options[key]}" for key in options)
    layouts = " ".join(f"--{which}_layout {layout}" for which in ("in", "fil", "out"))
    element = {"f16": "fp16", "bf16": "bfp16"}[dtype]
    return (
        f"conv{element} --spatial_dim {rank} -n {n} -c {c} -k {k} {text} -F {direction} {layouts}"
    )
