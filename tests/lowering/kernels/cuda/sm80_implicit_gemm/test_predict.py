"""Predicted memory traffic: sectors that several phases write."""

from __future__ import annotations

import pytest
from cuda_contractions import contraction_of_line

from convir.lowering.kernels.cuda.prediction.traffic import sector_writes

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
STRIDED = "-H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2"


@pytest.mark.parametrize(
    ("line", "times"),
    [
        (f"convfp16 -n 2 -c 64 {STRIDED}", 2.0),  # every second element of a row of a channel
        (f"convfp16 -n 2 -c 64 {STRIDED} {NHWC}", 1.0),  # whole sectors of channels
        (f"convfp16 -n 2 -c 3 {STRIDED} {NHWC}", 2.0),  # every second pixel, of 6 bytes
        (f"convfp16 -n 2 -c 64 {STRIDED} -g 64 {NHWC}", 16.0),  # a channel for each group
        ("conv --spatial_dim 1 -n 2 -c 8 -W 100 -k 8 -x 5 -v 3 -q 1 -F 2", 3.0),
        ("convfp16 -n 2 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -F 1", 1.0),  # one phase
        ("convfp16 -n 2 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -F 4", 1.0),  # of weights
    ],
)
def test_phases_that_interleave_write_sectors_apart(line: str, times: float) -> None:
    assert sector_writes(contraction_of_line(line).contraction) == times
