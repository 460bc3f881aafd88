"""Volumes of groups, two rows at a time, on a GPU: odd sizes, padding, poisoned memory."""

from __future__ import annotations

import numpy as np
import pytest
from conv_cases import small_integers, torch_answer
from gpu import cupy_or_skip
from poisoned_memory import check_template
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line

pytestmark = pytest.mark.gpu

NDHWC = "--in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
CUBES = "--spatial_dim 3 --fil_d 3 -y 3 -x 3 -p 1 -q 1"
LINES = {
    "8-channels": f"{CUBES} --pad_d 1 -n 2 --in_d 5 -H 9 -W 27 -c 64 -k 64 -g 8",
    "4-channels": f"{CUBES} --pad_d 1 -n 2 --in_d 3 -H 12 -W 28 -c 64 -k 64 -g 16",
    "16-channels": f"{CUBES} --pad_d 1 -n 2 --in_d 4 -H 14 -W 14 -c 64 -k 64 -g 4",
    "32-channels": f"{CUBES} --pad_d 1 -n 3 --in_d 5 -H 11 -W 30 -c 64 -k 64 -g 2",
    "one-group": f"{CUBES} --pad_d 1 -n 1 --in_d 6 -H 17 -W 50 -c 32 -k 32",
    "two-slices": f"{CUBES} --pad_d 1 -n 5 --in_d 2 -H 14 -W 14 -c 64 -k 64 -g 2",
    "many-strips": f"{CUBES} --pad_d 1 -n 9 --in_d 20 -H 8 -W 31 -c 64 -k 64 -g 8",
    "without-padding": f"{CUBES} --pad_d 0 -n 2 --in_d 5 -H 14 -W 14 -c 64 -k 64 -g 2",
    "even": "--spatial_dim 3 --fil_d 2 -y 2 -x 2 --pad_d 1 -p 1 -q 1 -n 2 --in_d 4 -H 15 -W 28 "
    "-c 64 -k 64 -g 8",
    "tall": "--spatial_dim 3 --fil_d 5 -y 1 -x 3 --pad_d 2 -q 1 -n 2 --in_d 6 -H 16 -W 31 "
    "-c 64 -k 64 -g 2",
    "dilated": f"{CUBES} --pad_d 2 --dilation_d 2 -n 2 --in_d 6 -H 14 -W 14 -c 64 -k 64 -g 2",
}


@pytest.mark.parametrize("direction", [1, 2])
@pytest.mark.parametrize("command", ["convfp16", "convbfp16"])
@pytest.mark.parametrize("name", LINES)
def test_volumes(name: str, command: str, direction: int) -> None:
    check_template(f"{command} {LINES[name]} {NDHWC} -F {direction}", {"grouped-pairs"})


@pytest.mark.parametrize("command", ["convfp16", "convbfp16"])
@pytest.mark.parametrize("slices", ["--pad_d 1 --conv_stride_d 2 --in_d 7", "--pad_d 4 --in_d 3"])
def test_slices_of_a_forward_pass(slices: str, command: str) -> None:
    line = f"{CUBES} {slices} -n 2 -H 14 -W 14 -c 64 -k 64 -g 8"
    check_template(f"{command} {line} {NDHWC} -F 1", {"grouped-pairs"})


@pytest.mark.parametrize("direction", [1, 2])
def test_a_volume_of_one_slice_is_an_image(direction: int) -> None:
    cupy = cupy_or_skip()
    line = f"convfp16 {CUBES} --pad_d 1 -n 5 --in_d 1 -H 14 -W 14 -c 64 -k 64 -g 2 {NDHWC}"
    (problem,) = parse_line(f"{line} -F {direction}").problems.values()
    lhs, rhs = (small_integers(s, problem.dtype, i) for i, s in enumerate(problem.shapes[:2]))
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda")
    found = cupy.asnumpy(executable(cupy.asarray(lhs), cupy.asarray(rhs)))
    assert np.array_equal(found, torch_answer(problem, lhs, rhs).astype("f2"))
