"""The gradient of the weights of groups of 32 channels on a GPU, two taps at a time."""

from __future__ import annotations

import pytest
from poisoned_memory import check_same_bits, check_template

pytestmark = pytest.mark.gpu

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
THREE = "-y 3 -x 3 -p 1 -q 1"

LINES = {
    "32-channels": f"-n 3 -c 64 -H 25 -W 25 -k 64 {THREE} -g 2",
    "three-groups": f"-n 3 -c 96 -H 14 -W 14 -k 96 {THREE} -g 3",
    "more-strips-than-slots": f"-n 400 -c 64 -H 14 -W 14 -k 64 {THREE} -g 2",
    "strips-of-an-image": f"-n 2 -c 64 -H 50 -W 50 -k 64 {THREE} -g 2",
    "odd": f"-n 5 -c 64 -H 13 -W 11 -k 64 {THREE} -g 2",
    "few-rows": f"-n 3 -c 64 -H 5 -W 61 -k 64 {THREE} -g 2",
    "wide": f"-n 1 -c 64 -H 9 -W 93 -k 64 {THREE} -g 2",
    "without-padding": "-n 3 -c 64 -H 16 -W 18 -k 64 -y 3 -x 3 -g 2",
    "padding-on-one-axis": "-n 3 -c 64 -H 16 -W 18 -k 64 -y 3 -x 3 -p 1 -g 2",
    "padding-beyond-the-filter": "-n 2 -c 64 -H 13 -W 11 -k 64 -y 3 -x 3 -p 3 -q 4 -g 2",
    "more-groups-than-blocks": f"-n 1 -c 4288 -H 7 -W 7 -k 4288 {THREE} -g 134",
    "dilated": "-n 2 -c 64 -H 27 -W 29 -k 64 -y 3 -x 3 -p 2 -q 3 -l 2 -j 3 -g 2",
}


@pytest.mark.parametrize("command", ["convfp16", "convbfp16"])
@pytest.mark.parametrize("name", LINES)
def test_gradients(name: str, command: str) -> None:
    check_template(f"{command} {LINES[name]} -F 4 {NHWC}", {"grouped-wgrad-pairs"})


@pytest.mark.parametrize("name", ["32-channels", "three-groups", "more-strips-than-slots"])
def test_the_same_bits_run_after_run(name: str) -> None:
    check_same_bits(f"convfp16 {LINES[name]} -F 4 {NHWC}")
