"""How tiles of `grouped_planes` lie in shared memory, and what the family takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from family_problems import lines_of, module_of, problem_of, reading_of

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.grouped_planes.candidates import plan
from convir.lowering.kernels.cuda.grouped_planes.config import CHUNK
from convir.lowering.kernels.cuda.grouped_planes.problem import layout, read, shifts
from convir.lowering.kernels.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue

pytestmark = pytest.mark.fast

PLANES = "--in_layout NCHW --fil_layout NCHW --out_layout NCHW"
GROUPS = "convfp16 -n 2 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1"


def contraction_of(line: str) -> tuple[Contraction, Epilogue]:
    reading = reading_of(module_of(problem_of(line)))
    assert not isinstance(reading, Refusal)
    return reading.problem.contraction, reading.problem.epilogue


@pytest.mark.parametrize("line", lines_of("grouped_planes"))
def test_rows_of_a_matrix_lie_in_different_banks(line: str) -> None:
    contraction, epilogue = contraction_of(line)
    found, configs = read(contraction, epilogue), plan(contraction, epilogue, DEFAULT_TARGET)
    assert not isinstance(found, Refusal)
    assert not isinstance(configs, Refusal)
    for config in configs:
        tile = layout(*found, config)
        assert {i * tile.in_plane // CHUNK % 8 for i in range(8)} == set(range(8))
        assert {i * tile.out_plane // CHUNK % 8 for i in range(8)} == set(range(8))
        assert tile.in_row % CHUNK == tile.in_image % CHUNK == tile.out_image % CHUNK == 0


@pytest.mark.parametrize("line", lines_of("grouped_planes"))
def test_what_taps_read_is_in_the_tile(line: str) -> None:
    contraction, epilogue = contraction_of(line)
    found, configs = read(contraction, epilogue), plan(contraction, epilogue, DEFAULT_TARGET)
    assert not isinstance(found, Refusal)
    assert not isinstance(configs, Refusal)
    problem, _ = found
    least, most = shifts(problem)
    cols = problem.cols
    for config in configs:
        tile = layout(*found, config)
        for first in range(0, problem.col_count, tile.tile_cols):
            last = min(first + tile.tile_cols, problem.col_count) - 1
            begin = first * cols.step - tile.lead * CHUNK
            read_first = max(0, first * cols.step + least)
            read_last = min(cols.extent - 1, last * cols.step + most)
            assert begin <= read_first
            assert read_last < begin + tile.in_cols


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{GROUPS} -g 8 -F 1", "its operands are no planes"),
        (f"{GROUPS} -g 8 -u 2 -v 2 -F 2 {PLANES}", "it has slices, or several phases"),
        (f"{GROUPS} -g 8 -v 3 -F 1 {PLANES}", "its taps read columns -1 to 1, step 3"),
        (f"{GROUPS} -g 32 -F 1 {PLANES}", "groups of 2 and 2 channels"),
        (f"{GROUPS} -g 8 -F 1 {PLANES}".replace("convfp16", "conv"), "tensor cores"),
    ],
)
def test_what_is_refused(line: str, reason: str) -> None:
    if PLANES not in line:
        line += " --in_layout NHWC --fil_layout NHWC --out_layout NHWC"
    found = read(*contraction_of(line))
    assert isinstance(found, Refusal)
    assert found.reason.startswith(reason)
