"""Every element of the gradients of weights that the wgmma template stores, on a GPU.

Small integers make all sums exact, and the result and the workspace are poisoned: tails of rows,
columns and positions, filters of every size, partitions of every kind. Of real numbers the bits are
the same every time, and the flags are left clean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conv_lines import BACKWARD_WEIGHT, conv_line
from plan_runs import check_config

if TYPE_CHECKING:
    from collections.abc import Sequence


pytestmark = pytest.mark.gpu


def line(
    dtype: str,
    n: int,
    c: int,
    k: int,
    spatial: Sequence[int],
    taps: int,
    pad: int,
    stride: int,
    dilation: int = 1,
) -> str:
    return conv_line(dtype, n, c, k, spatial, taps, pad, stride, BACKWARD_WEIGHT, dilation)


def config_of(config: str) -> str:
    """The config of `TILE STAGES CLUSTER PARTITION [ROLES]`."""
    tile, stages, cluster, partition, *roles = config.split()
    return (
        f"sm90_wgrad {tile} stages={stages} roles={roles[0] if roles else '4:8'} "
        f"cluster={cluster} partition={partition} blocks=132"
    )


@pytest.mark.parametrize(
    ("text", "config"),
    [
        # 1x1 as a plain matrix, and with strides; rows and positions end inside of tiles.
        (line("f16", 2, 64, 64, (9, 11), 1, 0, 1), "128x64 4 1 data-parallel"),
        (line("f16", 2, 64, 64, (9, 11), 1, 0, 1), "64x128 3 1 split-k:2:reduce-scatter"),
        (line("f16", 2, 64, 64, (9, 11), 1, 0, 1), "64x128 3 1 split-k:4:tree"),
        (line("bf16", 2, 136, 72, (9, 11), 1, 0, 2), "128x256 4 1 data-parallel"),
        (line("bf16", 2, 136, 72, (19, 23), 1, 0, 3), "256x128 3 1 data-parallel"),
        # Tiles span taps; channels that are no multiple of a copy's.
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "128x256 4 1 split-k:3:reduce-scatter"),
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "256x128 4 1 split-k:3:linear"),
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "64x256 4 1 split-k:2:linear"),
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "128x128 4 1 data-parallel"),
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "128x192 4 1 stream-k:linear"),
        (line("bf16", 3, 64, 200, (7, 7), 3, 1, 1), "256x128 4 1 split-k:3:reduce-scatter"),
        (line("bf16", 3, 64, 200, (7, 7), 3, 1, 1), "256x64 4 1 stream-k:tree"),
        (line("bf16", 3, 64, 328, (7, 7), 3, 1, 1), "256x128 4 1 data-parallel"),
        (line("f16", 5, 8, 8, (13, 12), 3, 1, 2), "128x64 4 1 data-parallel"),
        (line("f16", 5, 8, 8, (13, 12), 3, 1, 2), "64x256 4 1 split-k:4:tree"),
        # Even filters, padding beyond the filter, dilation, other ranks.
        (line("bf16", 3, 40, 72, (17, 23), 2, 0, 2), "128x256 4 1 split-k:5:linear"),
        (line("f16", 3, 16, 24, (6, 5), 4, 5, 1), "128x256 4 1 stream-k:tree"),
        (line("f16", 2, 64, 64, (20, 11), 3, 2, 1, 2), "128x128 4 1 split-k:2:reduce-scatter"),
        (line("f16", 3, 64, 96, (128,), 5, 4, 2), "128x128 4 1 split-k:2:tree"),
        (line("bf16", 2, 32, 64, (6, 8, 7), 3, 1, 2), "128x256 4 1 split-k:2:reduce-scatter"),
        # Parts in one cluster.
        (line("f16", 2, 64, 64, (9, 11), 1, 0, 1), "64x128 3 4 split-k:4:reduce-scatter"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "256x128 4 1 stream-k:linear"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "128x128 6 1 split-k:4:tree"),
        (line("bf16", 3, 64, 200, (7, 7), 3, 1, 1), "128x192 4 1 split-k:2:linear"),
        # Many parts, and tiles of which some are divided.
        (line("f16", 2, 256, 256, (7, 7), 3, 1, 1), "128x256 4 1 split-k:2:reduce-scatter"),
        (line("f16", 32, 64, 64, (14, 14), 3, 1, 1), "128x64 4 1 split-k:14:reduce-scatter"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "128x128 6 1 stream-k:linear"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "256x128 4 1 stream-k:tree"),
        (line("f16", 2, 256, 2376, (7, 7), 3, 1, 1), "256x128 4 1 data-parallel"),
        (line("f16", 2, 256, 2376, (7, 7), 3, 1, 1), "64x64 4 1 stream-k:linear 1:4"),
        (line("f16", 2, 256, 2376, (7, 7), 3, 1, 1), "64x64 4 1 stream-k:tree:blocks 1:4"),
        # Parts of unequal length that take turns.
        (line("f16", 5, 64, 128, (9, 11), 1, 0, 1), "64x64 4 1 split-k:3:reduce-scatter 1:4"),
        (line("bf16", 5, 136, 72, (9, 11), 1, 0, 1), "128x64 4 1 split-k:5:tree"),
        # Parts of a cluster that push their sums, of one warpgroup and of two.
        (line("f16", 5, 72, 136, (9, 11), 2, 1, 1), "64x64 4 3 split-k:3:reduce-scatter 1:4"),
        (line("bf16", 3, 72, 136, (19, 23), 3, 1, 1), "128x128 4 5 split-k:5:reduce-scatter"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "256x64 4 3 split-k:3:reduce-scatter"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "64x256 3 2 split-k:2:reduce-scatter"),
        # Sums that neighbours push over stages which are used no more; parts shorter than the ring.
        (line("bf16", 3, 72, 136, (19, 23), 3, 1, 1), "128x128 6 3 split-k:3:reduce-scatter"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "128x160 5 4 split-k:4:reduce-scatter"),
        (line("f16", 5, 64, 128, (9, 11), 1, 0, 1), "128x128 7 3 split-k:3:reduce-scatter"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "64x192 7 2 split-k:2:reduce-scatter 1:4"),
        # Tiles that share a chunk of columns, the last one beyond the end.
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "128x160 4 1 data-parallel"),
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "64x160 3 1 split-k:3:reduce-scatter 1:4"),
        (line("bf16", 3, 64, 200, (7, 7), 3, 1, 1), "128x160 4 1 stream-k:tree"),
        (line("f16", 5, 64, 128, (9, 11), 1, 0, 1), "128x160 4 1 split-k:5:reduce-scatter"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "128x160 4 1 split-k:3:linear"),
        (line("f16", 2, 512, 320, (7, 7), 3, 1, 1), "128x160 5 1 data-parallel"),
        # Other roles.
        (line("f16", 2, 64, 72, (9, 11), 1, 0, 1), "64x64 8 1 data-parallel 4:4"),
        (line("bf16", 5, 40, 72, (13, 12), 3, 1, 2), "64x192 4 1 split-k:3:tree 1:4"),
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "64x192 4 1 stream-k:linear 4:4"),
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "128x64 4 1 split-k:3:reduce-scatter 1:4"),
        (line("bf16", 3, 64, 328, (7, 7), 3, 1, 1), "128x64 4 2 split-k:2:reduce-scatter 4:4"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "128x256 4 1 stream-k:tree 4:8"),
        # No warps that load: a thread that multiplies asks, for one part of a tile or for many.
        (line("f16", 2, 64, 64, (9, 11), 1, 0, 1), "64x64 8 1 data-parallel 0:4"),
        (line("f16", 2, 64, 64, (9, 11), 1, 0, 1), "64x128 3 1 split-k:2:reduce-scatter 0:8"),
        (line("bf16", 2, 136, 72, (19, 23), 1, 0, 3), "256x128 3 1 data-parallel 0:8"),
        (line("f16", 5, 64, 128, (9, 11), 1, 0, 1), "64x64 4 1 split-k:3:reduce-scatter 0:4"),
        (line("bf16", 5, 136, 72, (9, 11), 1, 0, 1), "128x64 4 1 split-k:5:tree 0:8"),
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "128x256 4 1 split-k:3:reduce-scatter 0:8"),
        (line("f16", 2, 72, 136, (9, 11), 3, 1, 1), "64x192 2 1 stream-k:linear 0:4"),
        (line("bf16", 3, 64, 200, (7, 7), 3, 1, 1), "256x64 4 1 stream-k:tree 0:8"),
        (line("f16", 3, 16, 24, (6, 5), 4, 5, 1), "128x256 4 1 stream-k:tree 0:8"),
        (line("f16", 2, 64, 64, (20, 11), 3, 2, 1, 2), "128x128 4 1 split-k:2:reduce-scatter 0:8"),
        (line("f16", 3, 64, 96, (128,), 5, 4, 2), "128x128 4 1 split-k:2:tree 0:8"),
        (line("bf16", 2, 32, 64, (6, 8, 7), 3, 1, 2), "128x256 4 1 split-k:2:reduce-scatter 0:8"),
        (line("f16", 2, 256, 2376, (7, 7), 3, 1, 1), "256x128 4 1 data-parallel 0:8"),
        (line("f16", 2, 256, 2376, (7, 7), 3, 1, 1), "64x64 4 1 stream-k:tree 0:4"),
        (line("f16", 2, 256, 2376, (7, 7), 3, 1, 1), "64x64 4 1 stream-k:linear:blocks 0:4"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "128x160 4 1 split-k:3:linear 0:8"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "256x128 4 1 stream-k:linear 0:8"),
        (line("f16", 32, 64, 64, (14, 14), 3, 1, 1), "128x64 4 1 split-k:14:reduce-scatter 0:8"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "256x64 4 3 split-k:3:reduce-scatter 0:8"),
        (line("bf16", 3, 72, 136, (19, 23), 3, 1, 1), "128x128 6 3 split-k:3:reduce-scatter 0:8"),
        (line("f16", 16, 128, 320, (14, 14), 3, 1, 1), "64x192 7 2 split-k:2:reduce-scatter 0:4"),
    ],
)
def test_kernel(text: str, config: str) -> None:
    check_config(text, config_of(config))


def grouped(
    dtype: str,
    c: int,
    k: int,
    groups: int,
    spatial: Sequence[int],
    taps: int,
    pad: int,
    stride: int,
) -> str:
    return f"{line(dtype, 3, c, k, spatial, taps, pad, stride)} -g {groups}"


COLUMN_OF_PLANES = (
    "convfp16 -n 3 -c 128 -H 16 -W 24 -k 272 -y 3 -x 1 -p 1 -q 0 -g 2 -F 4 "
    "--in_layout NCHW --fil_layout NCHW --out_layout NCHW"
)
GROUPS = [
    (grouped("f16", 128, 128, 2, (9, 11), 3, 1, 1), "64x256 4 1 data-parallel"),
    (grouped("f16", 128, 128, 2, (9, 11), 3, 1, 1), "64x192 4 1 split-k:3:reduce-scatter 1:4"),
    (grouped("bf16", 144, 240, 3, (9, 11), 3, 1, 2), "128x128 4 1 split-k:2:linear"),
    (grouped("bf16", 144, 240, 3, (9, 11), 3, 1, 2), "64x128 4 1 data-parallel"),
    (grouped("f16", 144, 240, 3, (9, 11), 1, 0, 1), "64x64 8 1 split-k:2:reduce-scatter 1:4"),
    (grouped("f16", 128, 128, 4, (9, 11), 1, 0, 2), "64x64 8 1 data-parallel 1:4"),
    (grouped("f16", 128, 128, 4, (14, 14), 3, 1, 1), "64x256 4 1 stream-k:linear"),
    (grouped("f16", 256, 256, 4, (75,), 32, 16, 1), "64x256 5 1 data-parallel"),
    (grouped("f16", 256, 256, 4, (75,), 32, 16, 1), "64x192 6 1 stream-k:tree 1:4"),
    (grouped("f16", 512, 256, 2, (14, 14), 3, 1, 1), "128x160 4 1 data-parallel"),
    (grouped("bf16", 512, 256, 2, (14, 14), 3, 1, 1), "128x128 6 3 split-k:3:reduce-scatter"),
    (grouped("bf16", 128, 256, 2, (6, 8, 7), 3, 1, 2), "128x256 4 1 split-k:2:tree 0:8"),
    (COLUMN_OF_PLANES, "128x128 4 1 split-k:3:reduce-scatter"),
]
"""The channels of a group fill a copy, or more than half of one, or end inside of one."""


@pytest.mark.parametrize(("text", "config"), GROUPS)
def test_groups(text: str, config: str) -> None:
    check_config(text, config_of(config))


@pytest.mark.parametrize(
    "config",
    [
        "128x256 4 1 data-parallel",
        "128x256 4 1 split-k:7:reduce-scatter",
        "128x256 4 1 split-k:7:linear",
        "128x256 4 1 split-k:7:tree",
        "128x256 4 1 stream-k:linear",
        "128x256 4 1 stream-k:tree",
        "128x128 5 3 split-k:3:reduce-scatter",
        "128x160 5 1 split-k:4:reduce-scatter",
        "128x160 5 4 split-k:4:reduce-scatter",
        "128x128 6 3 split-k:3:reduce-scatter",
        "128x256 4 1 split-k:7:reduce-scatter 0:8",
        "128x256 4 1 stream-k:tree 0:8",
        "128x128 6 3 split-k:3:reduce-scatter 0:8",
        "64x128 6 1 split-k:5:linear 0:4",
    ],
)
def test_the_same_bits_every_time(config: str) -> None:
    text = line("f16", 16, 256, 256, (14, 14), 3, 1, 1)
    check_config(text, config_of(config), exact=False, times=21)
