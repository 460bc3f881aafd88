"""Groups of volumes as one on a GPU: odd sizes, strides, both layouts, poisoned memory."""

from __future__ import annotations

import pytest
from poisoned_memory import check_template

pytestmark = pytest.mark.gpu

NDHWC = "--in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
CUBES = "--spatial_dim 3 --fil_d 3 -y 3 -x 3 --pad_d 1 -p 1 -q 1"
LINES = {
    "8-channels": f"convbfp16 {CUBES} -n 2 --in_d 5 -H 7 -W 6 -c 64 -k 64 -g 8",
    "4-channels": f"convfp16 {CUBES} -n 2 --in_d 5 -H 7 -W 6 -c 32 -k 32 -g 8",
    "wide": f"convfp16 {CUBES} -n 1 --in_d 3 -H 9 -W 70 -c 128 -k 64 -g 8",
    "uneven": f"convfp16 {CUBES} -n 2 --in_d 4 -H 5 -W 6 -c 32 -k 96 -g 4",
    "stride-2": f"convfp16 {CUBES} --conv_stride_d 2 -u 2 -v 2 -n 2 --in_d 6 -H 7 -W 8 -c 64 "
    "-k 96 -g 4",
    "even-filter": "convfp16 --spatial_dim 3 --fil_d 2 -y 4 -x 2 -p 1 -n 2 --in_d 4 -H 6 -W 5 "
    "-c 64 -k 64 -g 4",
}


@pytest.mark.parametrize("layout", ["", NDHWC])
@pytest.mark.parametrize("direction", [1, 2])
@pytest.mark.parametrize("name", LINES)
def test_groups_of_volumes(name: str, direction: int, layout: str) -> None:
    family = "merged" if layout else "relaid"
    check_template(f"{LINES[name]} -F {direction} {layout}", {family})
