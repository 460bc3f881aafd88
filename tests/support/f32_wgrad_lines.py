"""Gradients of weights in f32, as MIOpenDriver lines: layouts, tails, strides, padding, groups."""

from conv_lines import NCHW, NHWC

PIXELS = "--in_layout NHWC --fil_layout NCHW --out_layout NCHW"
"""Of C's pixels alone are neighbours contiguous."""
FILTER_FIRST = "--in_layout NHWC --fil_layout NCHW --out_layout NHWC"
VOLUME = "--in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"

WHOLE = f"conv -n 3 -c 64 -H 8 -W 8 -k 64 -y 1 -x 1 -F 4 {NCHW}"
TAIL = f"conv -n 5 -c 72 -H 12 -W 10 -k 136 -y 1 -x 1 -F 4 {NCHW}"
ODD_CHANNELS = f"conv -n 2 -c 67 -H 16 -W 13 -k 35 -y 1 -x 1 -F 4 {NCHW}"
MANY = f"conv -n 32 -c 256 -H 28 -W 28 -k 320 -y 1 -x 1 -F 4 {NCHW}"
COLUMN = f"conv -n 3 -c 72 -H 16 -W 24 -k 136 -y 3 -x 1 -p 1 -F 4 {NCHW}"
WINDOW = f"conv -n 5 -c 72 -H 12 -W 10 -k 136 -y 3 -x 3 -p 1 -q 1 -F 4 {PIXELS}"
STRIDED_WINDOW = f"conv -n 3 -c 64 -H 32 -W 16 -k 200 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -F 4 {PIXELS}"
POINTS = f"conv -n 5 -c 72 -H 12 -W 10 -k 136 -y 1 -x 1 -F 4 {PIXELS}"
ROWS = f"conv -n 3 -c 72 -H 13 -W 11 -k 136 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}"
ROWS_FILTER_FIRST = ROWS.replace(NHWC, FILTER_FIRST)
MATRIX = f"conv -n 2 -c 136 -H 9 -W 9 -k 264 -y 1 -x 1 -F 4 {NHWC}"
STRIDED = f"conv -n 3 -c 40 -H 19 -W 23 -k 72 -y 2 -x 4 -p 1 -q 2 -u 2 -v 3 -F 4 {NHWC}"
BEYOND = f"conv -n 5 -c 32 -H 5 -W 6 -k 16 -y 2 -x 3 -p 4 -q 3 -F 4 {NHWC}"
GROUPS = f"conv -n 2 -c 192 -H 14 -W 14 -k 144 -y 3 -x 3 -p 1 -q 1 -g 2 -F 4 {NHWC}"
DEEP = (
    "conv --spatial_dim 3 -n 2 -c 32 --in_d 6 -H 8 -W 7 -k 64 --fil_d 3 -y 3 -x 3 --pad_d 1 -p 1 "
    f"-q 1 --conv_stride_d 2 -u 2 -v 2 --dilation_d 1 -l 1 -j 1 -F 4 {VOLUME}"
)


def config_text(config: str, products: int = 1) -> str:
    """The text of the `sm90_wgrad` config `TILE STAGES PARTITION`."""
    tile, stages, partition = config.split()
    text = f"sm90_wgrad {tile} stages={stages} roles=4:8 cluster=1 partition={partition} blocks=132"
    return text if products == 1 else f"{text} products={products}"
