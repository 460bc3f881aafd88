"""The gradient of the weights of small groups on a GPU: tails, odd windows, poisoned memory."""

from __future__ import annotations

import pytest
from poisoned_memory import check_same_bits, check_template

pytestmark = pytest.mark.gpu

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
NWC = "--spatial_dim 1 --in_layout NWC --fil_layout NWC --out_layout NWC"
GROUPED = "-n 2 -c 64 -H 13 -W 11 -k 64"
THREE = "-y 3 -x 3 -p 1 -q 1"

LINES = {
    "8-channels": f"{GROUPED} {THREE} -g 8 {NHWC}",
    "16-channels": f"{GROUPED} {THREE} -g 4 {NHWC}",
    "32-channels": f"{GROUPED} -y 3 -x 2 -p 1 -g 2 {NHWC}",
    "4-channels": f"{GROUPED} {THREE} -g 16 {NHWC}",
    "64-channels": f"-n 2 -c 128 -H 9 -W 9 -k 128 {THREE} -g 2 {NHWC}",
    "3-channels": f"-n 2 -c 48 -H 9 -W 9 -k 48 {THREE} -g 16 {NHWC}",
    "uneven": f"-n 2 -c 32 -H 10 -W 9 -k 64 {THREE} -u 2 -v 2 -g 4 {NHWC}",
    "more-depths": f"-n 2 -c 128 -H 10 -W 9 -k 64 {THREE} -g 4 {NHWC}",
    "part-of-a-block": f"-n 1 -c 96 -H 7 -W 7 -k 96 {THREE} -g 12 {NHWC}",
    "stride-2": f"{GROUPED} {THREE} -u 2 -v 2 -g 8 {NHWC}",
    "stride-2-32-channels": f"{GROUPED} {THREE} -u 2 -v 2 -g 2 {NHWC}",
    "stride-3": f"{GROUPED} {THREE} -u 3 -v 3 -g 8 {NHWC}",
    "one-tap": f"{GROUPED} -y 1 -x 1 -u 2 -v 2 -g 8 {NHWC}",
    "uneven-strides": f"{GROUPED} -y 3 -x 2 -p 1 -u 2 -v 3 -g 8 {NHWC}",
    "even-filter": f"{GROUPED} -y 4 -x 2 -p 1 -q 1 -u 2 -v 2 -g 8 {NHWC}",
    "padding-beyond-the-filter": f"{GROUPED} -y 3 -x 3 -p 3 -q 4 -g 8 {NHWC}",
    "dilated": f"{GROUPED} -y 3 -x 3 -p 2 -q 3 -l 2 -j 3 -g 8 {NHWC}",
    "few-pixels": f"-n 300 -c 64 -H 2 -W 2 -k 64 {THREE} -g 8 {NHWC}",
    "one-image": f"-n 2 -c 64 -H 2 -W 2 -k 64 {THREE} -g 2 {NHWC}",
    "small-images": f"-n 70 -c 64 -H 2 -W 3 -k 64 {THREE} -u 2 -v 2 -g 2 {NHWC}",
    "wide": f"-n 1 -c 64 -H 3 -W 300 -k 64 {THREE} -g 8 {NHWC}",
    "many-parts": f"-n 40 -c 64 -H 13 -W 11 -k 64 {THREE} -g 4 {NHWC}",
    "many-parts-of-shared-sums": f"-n 40 -c 64 -H 13 -W 11 -k 64 -y 3 -x 2 -p 1 -g 2 {NHWC}",
    "depthwise": f"-n 2 -c 48 -H 13 -W 11 -k 48 {THREE} -g 48 {NHWC}",
    "strided-depthwise": f"-n 2 -c 64 -H 13 -W 11 -k 64 {THREE} -u 2 -v 2 -g 64 {NHWC}",
    "line": f"{NWC} -n 3 -c 64 -W 333 -k 64 -x 3 -q 2 -j 2 -g 8",
    "strided-line": f"{NWC} -n 2 -c 64 -W 333 -k 64 -x 16 -q 4 -v 8 -g 8",
}


@pytest.mark.parametrize("command", ["convfp16", "convbfp16"])
@pytest.mark.parametrize("name", LINES)
def test_gradients(name: str, command: str) -> None:
    check_template(f"{command} {LINES[name]} -F 4", {"grouped-wgrad"})


@pytest.mark.parametrize("name", ["8-channels", "stride-2-32-channels", "few-pixels", "many-parts"])
def test_the_same_bits_run_after_run(name: str) -> None:
    check_same_bits(f"convfp16 {LINES[name]} -F 4")
