"""The order of blocks: phases whose results share sectors come in turns."""

from __future__ import annotations

import re

import pytest
from cuda_contractions import contraction_of_line

from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.cuda.sm80_implicit_gemm.config import Sm80ImplicitGemmConfig
from convir.lowering.kernels.cuda.sm80_implicit_gemm.launch import interleaved_tiles, kernels
from convir.lowering.kernels.target import DEFAULT_TARGET

NWC = "--in_layout NWC --fil_layout NWC --out_layout NWC"
CONFIG = Sm80ImplicitGemmConfig(32, 32, 16, 3, (8, 8), is_mma=False)


@pytest.mark.parametrize(
    ("line", "tiles"),
    [
        # 100 MB of which each phase writes every third element: 131,072 rows, 2 tiles of columns
        ("conv --spatial_dim 1 -n 4 -c 64 -W 98304 -k 8 -x 5 -v 3 -q 1 -F 2", 8192),
        ("conv --spatial_dim 1 -n 4 -c 100 -W 98304 -k 8 -x 5 -v 3 -q 1 -F 2", 16384),
        ("conv --spatial_dim 1 -n 4 -c 64 -W 98305 -k 8 -x 5 -v 3 -q 1 -F 2", 8192),  # unequal
        # each phase writes whole sectors
        (f"conv --spatial_dim 1 -n 4 -c 64 -W 98304 -k 8 -x 5 -v 3 -q 1 -F 2 {NWC}", 0),
        # two phases a sector
        ("conv --spatial_dim 1 -n 4 -c 64 -W 98304 -k 8 -x 5 -v 2 -q 1 -F 2", 0),
        # the L2 cache keeps the result
        ("conv --spatial_dim 1 -n 2 -c 8 -W 100 -k 8 -x 5 -v 3 -q 1 -F 2", 0),
        # one phase
        ("conv --spatial_dim 1 -n 4 -c 64 -W 98304 -k 8 -x 5 -q 1 -F 2", 0),
        ("conv --spatial_dim 1 -n 4 -c 64 -W 98304 -k 8 -x 5 -v 3 -q 1 -F 4", 0),
    ],
)
def test_phases_that_share_sectors_come_in_turns(line: str, tiles: int) -> None:
    found = contraction_of_line(line)
    assert interleaved_tiles(found.contraction, CONFIG, DEFAULT_TARGET) == tiles
    plan = kernels(found.contraction, found.epilogue, CONFIG, DEFAULT_TARGET)
    assert isinstance(plan, KernelPlan)
    (kernel,) = plan.kernels
    (constant,) = re.findall(r"kInterleavedTiles = (\d+);", kernel.source)
    assert int(constant) == tiles
    assert kernel.grid[0] >= tiles * len(found.contraction.phases)
