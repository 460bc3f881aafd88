"""MIOpenDriver lines: options that many share, and windows that are the same along all axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT = 1, 2, 4
"""What `-F` asks for."""

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
NCHW = "--in_layout NCHW --fil_layout NCHW --out_layout NCHW"
PLANES = "--in_layout NCHW --fil_layout NHWC --out_layout NHWC"
"""Images of planes, as they come from a file, and everything else with channels last."""
NWC = "--spatial_dim 1 --in_layout NWC --fil_layout NWC --out_layout NWC"

THREE = "-y 3 -x 3 -p 1 -q 1"
"""3x3 windows that keep the size."""
SLICES = (
    "--fil_d 1 -y 3 -x 3 --pad_d 0 -p 1 -q 1 --conv_stride_d 1 -u 2 -v 2 --dilation_d 1 -l 1 -j 1"
)
"""Of a volume: windows of one slice."""
TIME = (
    "--fil_d 3 -y 1 -x 1 --pad_d 1 -p 0 -q 0 --conv_stride_d 1 -u 1 -v 1 --dilation_d 1 -l 1 -j 1"
)
"""Of a volume: windows of one pixel of three slices."""
CUBES = (
    "--fil_d 3 -y 3 -x 3 --pad_d 1 -p 1 -q 1 --conv_stride_d 1 -u 1 -v 1 --dilation_d 1 -l 1 -j 1"
)
"""Of a volume."""


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
