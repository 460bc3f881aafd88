"""Contractions on copies with channels as neighbours, on a GPU: tails, holes, poisoned memory."""

from __future__ import annotations

import pytest
from poisoned_memory import check_template

from convir.lowering.kernels.cuda.layout_conversion.family import FAMILY

pytestmark = pytest.mark.gpu

GROUPED = "-n 2 -c 64 -H 13 -W 11 -k 64"
LINES = {
    "8-channels": f"convfp16 {GROUPED} -y 3 -x 3 -p 1 -q 1 -g 8",
    "32-channels": f"convbfp16 {GROUPED} -y 3 -x 3 -p 1 -q 1 -g 2",
    "wide-planes": "convfp16 -n 3 -c 64 -H 16 -W 20 -k 128 -y 3 -x 3 -p 1 -q 1 -g 4",
    "stride-2": f"convfp16 {GROUPED} -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 8",
    "holes": f"convfp16 {GROUPED} -y 1 -x 1 -u 2 -v 2 -g 8",
    "even-filter": f"convfp16 {GROUPED} -y 4 -x 2 -p 1 -q 1 -u 2 -v 2 -g 8",
    "padding-beyond-the-filter": f"convfp16 {GROUPED} -y 3 -x 3 -p 3 -q 4 -g 8",
    "small-planes": "convfp16 -n 70 -c 64 -H 2 -W 3 -k 64 -y 3 -x 3 -p 1 -q 1 -g 2",
    "dense": "convbfp16 -n 3 -c 72 -H 10 -W 9 -k 40 -y 3 -x 3 -p 1 -q 1",
    "dense-stride-2": "convfp16 -n 3 -c 64 -H 14 -W 12 -k 128 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2",
    "dense-holes": "convfp16 -n 3 -c 64 -H 14 -W 12 -k 128 -y 1 -x 1 -u 2 -v 2",
    "many-channels": "convfp16 -n 1 -c 328 -H 5 -W 7 -k 264 -y 3 -x 3 -p 1 -q 1",
    "line": "convfp16 --spatial_dim 1 -n 3 -c 64 -W 333 -k 64 -x 3 -q 2 -j 2 -g 8",
    "volume": "convbfp16 --spatial_dim 3 -n 2 -c 64 --in_d 5 -H 7 -W 6 -k 64 --fil_d 3 -y 3 -x 3 "
    "--pad_d 1 -p 1 -q 1",
    "mixed-layouts": f"convfp16 {GROUPED} -y 3 -x 3 -p 1 -q 1 -g 8 --in_layout NHWC",
}


@pytest.mark.parametrize("direction", [1, 2, 4])
@pytest.mark.parametrize("name", LINES)
def test_planes(name: str, direction: int) -> None:
    check_template(f"{LINES[name]} -F {direction}", {FAMILY})


def test_planes_of_the_first_layer() -> None:
    check_template(
        "convfp16 -n 2 -c 3 -H 30 -W 32 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -F 1", {FAMILY}
    )
