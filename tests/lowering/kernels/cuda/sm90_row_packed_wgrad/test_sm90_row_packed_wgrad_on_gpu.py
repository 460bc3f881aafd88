"""Every weight that `sm90_row_packed_wgrad` stores, on a GPU, against PyTorch.

Small integers make all sums exact, and memory is poisoned: tails of depths, columns, taps, rows and
columns of positions, even filters, padding beyond the filter, dilation, groups, one and two
dimensions, all pipelines and partitions.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_runs import check_config

from convir.frontends.miopen import parse_line
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.config import (
    MAX_STAGING,
    WGMMA_M,
    RowPackedWgradConfig,
)

pytestmark = pytest.mark.gpu

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
NWC = "--in_layout NWC --fil_layout NWC --out_layout NWC"

LINES = [
    f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 36 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}",
    f"convbfp16 -n 4 -c 40 -H 7 -W 11 -k 20 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}",
    f"convfp16 -n 2 -c 72 -H 12 -W 12 -k 36 -y 5 -x 3 -p 2 -q 1 -F 4 {NHWC}",
    f"convfp16 -n 3 -c 64 -H 6 -W 6 -k 8 -y 3 -x 3 -p 4 -q 4 -F 4 {NHWC}",
    f"convfp16 -n 2 -c 64 -H 10 -W 10 -k 36 -y 3 -x 3 -p 1 -q 2 -l 1 -j 2 -F 4 {NHWC}",
    f"convbfp16 -n 5 -c 256 -H 8 -W 8 -k 36 -y 1 -x 1 -F 4 {NHWC}",
    f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 102 -y 2 -x 2 -p 1 -q 1 -F 4 {NHWC}",
    f"convbfp16 -n 7 -c 128 -H 8 -W 8 -k 40 -y 3 -x 3 -p 1 -q 1 -g 2 -F 4 {NHWC}",
    f"convfp16 -n 2 -c 64 -H 3 -W 300 -k 12 -y 3 -x 4 -p 0 -q 1 -F 4 {NHWC}",
    f"convfp16 --spatial_dim 1 -n 6 -c 128 -W 37 -k 36 -x 5 -q 2 -v 1 -F 4 {NWC}",
]
TILES = (
    ("3x3x40", "step=4x8 slab=2"),
    ("2x2x24", "step=3x32 slab=1"),
    ("3x1x48", "step=4x24 slab=2"),
    ("5x3x8", "step=1x32 slab=1"),
    ("1x2x16", "step=3x16 slab=1"),
    ("3x3x40", "step=8x16 slab=2"),
    ("2x3x40", "step=2x40 slab=2"),
)
PIPELINES = (
    ("shared", "async", "4:8", 64),
    ("shared", "async", "0:4", 64),
    ("registers", "tma", "4:4", 64),
    ("shared", "tma", "4:8", 128),
    ("shared", "async", "0:8", 64),
    ("registers", "tma", "8:8", 64),
    ("registers", "tma", "4:8", 128),
    ("shared", "async", "0:8", 128),
    ("shared", "tma", "8:8", 64),
    ("shared", "tma", "8:4", 64),
    ("registers", "tma", "8:4", 64),
)
PARTITIONS = (
    ("data-parallel", 1, 132),
    ("split-k:2:reduce-scatter", 1, 132),
    ("split-k:2:tree", 1, 132),
    ("split-k:2:linear", 1, 132),
    ("stream-k:linear", 1, 2),
    ("split-k:2:reduce-scatter", 2, 132),
    ("stream-k:tree", 1, 3),
    ("stream-k:tree:blocks", 1, 4),
)


def cases() -> list[tuple[str, str]]:
    """Every line with every pipeline, and with tiles and partitions in turn."""
    found: list[tuple[str, str]] = []
    for i, line in enumerate(LINES):
        for j, (x, y, roles, tile_m) in enumerate(PIPELINES):
            taps, step = TILES[(i + j) % len(TILES)]
            partition, cluster, blocks = PARTITIONS[(i + j) % len(PARTITIONS)]
            stages = 2 + j % 2
            staging = (1, 2, MAX_STAGING)[i % 3]
            prologue = min(stages, staging) if y == "tma" and (i + j) % 3 > 0 else 1
            config = RowPackedWgradConfig.parse(
                f"sm90_row_packed_wgrad {taps} tile_m={tile_m} {step} stages={stages}"
                f" staging={staging} prologue={prologue} x={x} y={y} roles={roles}"
                f" cluster={cluster} partition={partition} blocks={blocks}"
            )
            (problem,) = parse_line(line).problems.values()
            if config.tile_m > WGMMA_M:
                config = replace(config, cluster=1)
            if not config.divides_slabs:
                config = replace(config, x="shared")
            if config.trades_registers:
                config = replace(config, prologue=1)
            if problem.geometry.groups > 1 or problem.shapes[1][-1] > config.out_channels:
                config = replace(config, y="async", prologue=1)
            found.append((line, str(config)))
    return found


PACKED = (
    (0, "3x3x36 tile_m=64 step=4x16 slab=2 stages=2 staging=2 prologue=1 x=registers", "4:4"),
    (0, "3x3x36 tile_m=128 step=2x16 slab=2 stages=3 staging=1 prologue=1 x=registers", "4:8"),
    (0, "3x3x36 tile_m=64 step=4x16 slab=2 stages=2 staging=2 prologue=1 x=registers", "4:8"),
    (1, "3x2x20 tile_m=64 step=2x16 slab=1 stages=2 staging=2 prologue=2 x=shared", "4:4"),
    (2, "5x2x36 tile_m=64 step=6x16 slab=1 stages=2 staging=1 prologue=1 x=shared", "4:8"),
    (2, "2x3x36 tile_m=64 step=2x8 slab=2 stages=3 staging=4 prologue=3 x=shared", "4:4"),
    (2, "5x1x36 tile_m=64 step=4x16 slab=2 stages=2 staging=1 prologue=1 x=shared", "8:8"),
    (8, "3x4x12 tile_m=64 step=2x160 slab=1 stages=2 staging=1 prologue=1 x=shared", "4:8"),
)
"""A line, a tile whose rows of columns end in the middle of eight, and roles."""


def packed() -> list[tuple[str, str]]:
    """Packed columns, with partitions in turn."""
    found: list[tuple[str, str]] = []
    for i, (line, tile, roles) in enumerate(PACKED):
        partition, cluster, blocks = PARTITIONS[i]
        config = f"sm90_row_packed_wgrad {tile} y=tma roles={roles} cluster={cluster}"
        found.append((LINES[line], f"{config} partition={partition} blocks={blocks}"))
    return found


RING = (
    (0, "3x3x36 tile_m=128 step=2x16 slab=2 stages=2 staging=1 prologue=1 x=registers", "4:8"),
    (0, "3x3x36 tile_m=64 step=4x16 slab=2 stages=3 staging=2 prologue=1 x=registers", "4:8"),
    (0, "3x3x40 tile_m=64 step=2x16 slab=1 stages=4 staging=2 prologue=1 x=registers", "4:8"),
    (0, "3x3x40 tile_m=64 step=2x16 slab=1 stages=4 staging=2 prologue=1 x=registers", "8:8"),
    (1, "3x2x20 tile_m=64 step=2x16 slab=1 stages=2 staging=2 prologue=1 x=shared", "4:4"),
    (2, "5x1x36 tile_m=64 step=4x16 slab=2 stages=3 staging=1 prologue=1 x=shared", "4:8"),
    (2, "5x1x40 tile_m=128 step=5x16 slab=1 stages=2 staging=1 prologue=1 x=shared", "4:8"),
    (2, "2x3x36 tile_m=64 step=2x16 slab=2 stages=5 staging=4 prologue=1 x=shared", "4:4"),
    (3, "3x3x8 tile_m=64 step=3x16 slab=1 stages=2 staging=1 prologue=1 x=shared", "4:4"),
    (4, "3x3x36 tile_m=128 step=2x16 slab=1 stages=3 staging=2 prologue=1 x=registers", "8:8"),
)
"""The same where rows of dY stay from step to step."""
RING_PARTITIONS = (
    *(("data-parallel", 132), ("split-k:3:reduce-scatter", 132), ("split-k:2:reduce-scatter", 132)),
    *(("stream-k:linear", 2), ("stream-k:tree:blocks", 3), ("split-k:2:tree", 132)),
)


def rings() -> list[tuple[str, str]]:
    """Every ring with every partition, whose parts begin in the middle of images, and with them."""
    found: list[tuple[str, str]] = []
    for line, tile, roles in RING:
        for partition, blocks in RING_PARTITIONS:
            config = f"sm90_row_packed_wgrad {tile} y=ring roles={roles} cluster=1"
            found.append((LINES[line], f"{config} partition={partition} blocks={blocks}"))
    return found


@pytest.mark.parametrize(("text", "config"), [*cases(), *packed(), *rings()])
def test_every_weight_is_stored(text: str, config: str) -> None:
    check_config(text, config)


STEP = "step=2x32 slab=2 stages=4 staging=2 cluster=1"
CLUSTERS = "step=2x32 slab=2 stages=4 staging=2 cluster=8"
WIDE = "step=4x32 slab=2 stages=3 staging=2 cluster=1"


@pytest.mark.parametrize(
    "partition",
    [
        (
            f"tile_m=64 {STEP} prologue=1 x=shared y=async roles=4:8 "
            f"partition=split-k:16:reduce-scatter"
        ),
        (
            f"tile_m=64 {CLUSTERS} prologue=1 x=registers y=tma roles=4:8 "
            f"partition=split-k:8:reduce-scatter"
        ),
        (
            f"tile_m=128 {STEP} prologue=1 x=registers y=tma roles=4:8 "
            f"partition=split-k:66:reduce-scatter"
        ),
        f"tile_m=64 {STEP} prologue=1 x=shared y=async roles=0:8 partition=split-k:7:tree",
        f"tile_m=64 {STEP} prologue=1 x=shared y=tma roles=8:8 partition=split-k:7:linear",
        f"tile_m=64 {STEP} prologue=2 x=registers y=tma roles=4:4 partition=stream-k:linear",
    ],
)
def test_the_same_bits_every_time(partition: str) -> None:
    check_bits(f"sm90_row_packed_wgrad 3x3x40 {partition} blocks=132")


@pytest.mark.parametrize(
    "partition",
    [
        (
            f"tile_m=64 {WIDE} prologue=1 x=registers y=tma roles=8:8 "
            f"partition=split-k:32:reduce-scatter"
        ),
        (
            f"tile_m=128 {WIDE} prologue=1 x=registers y=tma roles=4:8 "
            f"partition=split-k:61:reduce-scatter"
        ),
        f"tile_m=128 {STEP} prologue=1 x=registers y=tma roles=8:8 partition=split-k:7:tree",
        (
            f"tile_m=128 {STEP} prologue=1 x=registers y=ring roles=4:8 "
            f"partition=split-k:64:reduce-scatter"
        ),
        (
            f"tile_m=64 {WIDE} prologue=1 x=registers y=ring roles=8:8 "
            f"partition=split-k:32:reduce-scatter"
        ),
    ],
)
def test_packed_columns_have_the_same_bits_every_time(partition: str) -> None:
    check_bits(f"sm90_row_packed_wgrad 3x3x36 {partition} blocks=132")


def check_bits(config: str) -> None:
    """Twenty launches on random numbers, compared with PyTorch."""
    text = f"convfp16 -n 32 -c 256 -H 25 -W 25 -k 36 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}"
    check_config(text, config, exact=False, times=20)
