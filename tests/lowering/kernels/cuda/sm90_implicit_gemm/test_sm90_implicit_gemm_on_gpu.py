"""Every element of what the wgmma template stores, on a GPU, against PyTorch.

Small integers make all sums exact, and the result's memory is poisoned: tails of every tile, odd
and even sizes, holes in cells, behind narrow rows and in runs, all ranks.
"""

from __future__ import annotations

import pytest
from conv_lines import FORWARD, conv_line
from plan_runs import check_config

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("text", "config"),
    [
        # Holes in the same store as narrow rows, odd sizes, strides of 2 and 3.
        (conv_line("f16", 2, 64, 64, (9, 11), 1, 0, 2), "128x64 4 cooperative 64"),
        (conv_line("f16", 1, 8, 8, (5, 5), 1, 0, 2), "128x32 2 cooperative 32"),
        (conv_line("bf16", 3, 32, 72, (47, 61), 1, 0, 2), "256x32 5 cooperative 32"),
        (conv_line("bf16", 2, 32, 72, (47, 61), 1, 0, 3), "256x32 5 cooperative 32"),
        # Holes in cells: the last tile of columns is partly outside, and so are depths and rows.
        (conv_line("f16", 2, 72, 64, (9, 11), 1, 0, 2), "128x64 4 cooperative 64"),
        (conv_line("f16", 2, 72, 64, (9, 11), 1, 0, 2), "128x64 4 cooperative 32"),
        (conv_line("bf16", 3, 200, 136, (17, 23), 1, 0, 2), "128x256 3 cooperative 256"),
        (conv_line("bf16", 3, 200, 136, (17, 23), 1, 0, 2), "128x96 3 cooperative 96"),
        (conv_line("bf16", 2, 320, 72, (20, 22), 1, 0, 3), "256x128 3 cooperative 128"),
        (conv_line("f16", 30, 448, 200, (30, 31), 1, 0, 2), "128x224 3 cooperative 32"),
        (conv_line("bf16", 3, 328, 136, (27, 33), 1, 0, 2), "128x96 5 pingpong 96"),
        (conv_line("bf16", 3, 328, 136, (27, 33), 1, 0, 2), "128x128 5 pingpong 64"),
        (conv_line("bf16", 3, 328, 136, (27, 33), 1, 0, 2), "64x224 4 pingpong 224"),
        # Holes in runs.
        (conv_line("f16", 2, 128, 64, (9, 9), 1, 1, 2), "128x128 3 cooperative 128"),
        # Several phases, sliding over A.
        (conv_line("f16", 3, 40, 72, (13, 13), 3, 1, 2), "256x64 4 cooperative 64"),
        (conv_line("bf16", 3, 128, 72, (16, 18), 4, 1, 2), "128x128 4 cooperative 128"),
        # Several phases as columns of one product, and not where sizes are odd.
        (conv_line("bf16", 3, 64, 72, (16, 18), 2, 0, 2), "128x256 3 cooperative 64"),
        (conv_line("bf16", 3, 96, 72, (16, 18), 2, 0, 2), "128x224 3 cooperative 32"),
        (conv_line("bf16", 3, 64, 72, (17, 19), 2, 0, 2), "256x64 4 cooperative 64"),
        (conv_line("f16", 3, 256, 72, (128,), 16, 4, 8), "128x256 3 cooperative 256"),
        (conv_line("bf16", 2, 32, 64, (8, 10, 12), 3, 1, 2), "256x32 4 cooperative 32"),
        (conv_line("bf16", 2, 32, 64, (8, 10, 12), 2, 0, 2), "64x256 4 pingpong 32"),
        (conv_line("f16", 2, 64, 64, (14, 15), 3, 1, 1), "128x64 4 cooperative 64"),
        (conv_line("f16", 5, 64, 64, (25, 25), 3, 1, 2), "64x64 4 pingpong 64"),
        # Forward: depths of B have stride 1, and A is read with a step.
        (conv_line("f16", 2, 64, 96, (20, 21), 3, 1, 2, FORWARD), "128x96 4 cooperative 96"),
        (conv_line("f16", 2, 64, 96, (20, 21), 3, 1, 2, FORWARD), "256x96 3 cooperative 96"),
    ],
)
def test_kernel(text: str, config: str) -> None:
    tile, stages, schedule, store = config.split()
    check_config(
        text,
        f"sm90_implicit_gemm {tile} stages={stages} schedule={schedule} store={store} blocks=132",
    )
