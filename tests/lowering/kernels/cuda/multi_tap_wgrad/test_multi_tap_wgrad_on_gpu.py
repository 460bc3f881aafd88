"""Every weight that `multi_tap_wgrad` stores, on a GPU, against PyTorch.

Small integers make all sums exact, and memory is poisoned: tails of depths, columns and taps, even
filters, padding beyond the filter, steps, dilation, groups, all ranks, pipelines and partitions.
"""

from __future__ import annotations

import pytest
from plan_runs import check_config

pytestmark = pytest.mark.gpu

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
NWC = "--in_layout NWC --fil_layout NWC --out_layout NWC"
NDHWC = "--in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"

LINES = [
    f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 36 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}",
    f"convbfp16 -n 3 -c 40 -H 7 -W 11 -k 20 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}",
    f"convfp16 -n 2 -c 72 -H 12 -W 12 -k 36 -y 5 -x 3 -p 2 -q 1 -F 4 {NHWC}",
    f"convfp16 -n 3 -c 64 -H 6 -W 6 -k 8 -y 3 -x 3 -p 4 -q 4 -F 4 {NHWC}",
    f"convfp16 -n 2 -c 64 -H 10 -W 10 -k 36 -y 3 -x 3 -p 2 -q 2 -l 2 -j 2 -F 4 {NHWC}",
    f"convbfp16 -n 5 -c 256 -H 8 -W 8 -k 36 -y 1 -x 1 -F 4 {NHWC}",
    f"convfp16 -n 2 -c 66 -H 9 -W 9 -k 102 -y 2 -x 2 -p 1 -q 1 -F 4 {NHWC}",
    f"convfp16 -n 5 -c 72 -H 13 -W 13 -k 36 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 4 {NHWC}",
    f"convfp16 -n 8 -c 64 -H 14 -W 11 -k 40 -y 3 -x 3 -p 1 -q 1 -u 3 -v 2 -F 4 {NHWC}",
    f"convbfp16 -n 7 -c 256 -H 8 -W 8 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 2 -F 4 {NHWC}",
    f"convfp16 --spatial_dim 1 -n 6 -c 128 -W 37 -k 36 -x 5 -q 2 -v 1 -F 4 {NWC}",
    (
        f"convfp16 --spatial_dim 3 -n 2 -c 64 --in_d 5 -H 6 -W 7 -k 36 --fil_d 3 -y 3 -x 3 "
        f"--pad_d 1 -p 1 -q 1 -F 4 {NDHWC}"
    ),
]
TILES = ("9x40", "5x24", "3x48", "1x8")
MATHS = (
    ("wgmma", "4:8"),
    ("wgmma", "4:4"),
    ("wgmma", "0:8"),
    ("wgmma", "0:4"),
    ("mma", "4:4"),
    ("mma", "0:8"),
)
PARTITIONS = (
    ("data-parallel", 132),
    ("split-k:2:tree", 132),
    ("split-k:2:linear", 132),
    ("stream-k:linear", 2),
    ("stream-k:tree", 3),
    ("stream-k:tree:blocks", 4),
)


def cases() -> list[tuple[str, str]]:
    """Every line with every pipeline, and with tiles and partitions in turn."""
    found: list[tuple[str, str]] = []
    for i, line in enumerate(LINES):
        for j, (instruction, roles) in enumerate(MATHS):
            tile = TILES[(i + j) % len(TILES)]
            partition, blocks = PARTITIONS[(i + 2 * j) % len(PARTITIONS)]
            pipeline = f"stages=3 instruction={instruction} roles={roles}"
            config = f"multi_tap_wgrad {tile} {pipeline} partition={partition} blocks={blocks}"
            found.append((line, config))
    return found


@pytest.mark.parametrize(("text", "config"), cases())
def test_every_weight_is_stored(text: str, config: str) -> None:
    check_config(text, config)
