"""Every element that joined phases store, on a GPU, against PyTorch.

Odd sizes, tails of rows and depths, filters with and without a tap for every phase's shift, all
ranks, both types, and filters whose depths or whose columns are neighbours.
"""

from __future__ import annotations

import pytest
from conv_lines import conv_line as line
from plan_runs import check_config

pytestmark = pytest.mark.gpu

CRSK = ("--fil_layout NHWC", "--fil_layout CHWN")


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (line("bf16", 2, 32, 64, (8, 10, 12), 3, 1, 2), "stages=6 store=64"),
        (line("f16", 1, 32, 40, (9, 7, 11), 3, 1, 2), "stages=3 store=32"),
        (line("f16", 3, 32, 64, (130,), 4, 1, 2), "stages=8 store=64"),
        (line("bf16", 3, 32, 136, (131,), 4, 1, 2), "stages=2 store=32"),
        (line("f16", 2, 64, 128, (13, 15), 3, 1, 2), "stages=3 store=64"),
        (line("f16", 2, 64, 40, (14, 18), 4, 1, 2), "stages=3 store=64"),
        (line("bf16", 5, 32, 96, (12, 9), 4, 1, 2), "stages=4 store=32"),
        (line("bf16", 2, 96, 24, (67,), 3, 1, 2), "stages=4 store=32"),
        (line("f16", 70, 32, 64, (3, 2), 3, 1, 2), "stages=4 store=32"),
        (line("f16", 2, 32, 64, (40,), 7, 2, 3), "stages=4 store=32"),
        (line("f16", 2, 64, 128, (13, 15), 3, 1, 2).replace(*CRSK), "stages=3 store=64"),
        (line("bf16", 2, 32, 72, (14, 15), 4, 1, 2).replace(*CRSK), "stages=4 store=32"),
    ],
)
@pytest.mark.parametrize("blocks", [132, 1])
def test_kernel(text: str, config: str, blocks: int) -> None:
    check_config(text, f"sm90_fused_dgrad {config} blocks={blocks}")
