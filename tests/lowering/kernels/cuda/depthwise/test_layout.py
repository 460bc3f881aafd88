"""How tiles of `depthwise` lie in shared memory."""

from __future__ import annotations

import pytest
from family_problems import lines_of, module_of, problem_of, reading_of

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.depthwise.config import DepthwiseConfig
from convir.lowering.kernels.cuda.depthwise.problem import layout, read

ROW_BYTES = 16
"""What `ldmatrix` and vector loads are aligned to."""
CHANNELS = (8, 16, 24, 40, 48, 64, 72)


@pytest.mark.parametrize("line", lines_of("depthwise"))
def test_planes_and_rows_are_aligned(line: str) -> None:
    reading = reading_of(module_of(problem_of(line)))
    assert not isinstance(reading, Refusal)
    found = read(reading.problem.contraction, reading.problem.epilogue)
    assert not isinstance(found, Refusal)
    problem, form = found
    size = STORAGE_BYTES[problem.contraction.a.type]
    unit = form.unit(problem.contraction)
    for channels in CHANNELS:
        config = DepthwiseConfig(4, 16, 2, -(-channels // unit) * unit, 2, 8, 1)
        tile = layout(problem, form, config)
        offsets = (tile.in_row, tile.in_slice, tile.in_image, tile.in_plane, tile.vector_pad)
        offsets += (tile.out_row, tile.out_image, tile.out_phase, tile.out_plane)
        offsets += (tile.planes_at, tile.results_at)
        assert all(offset * size % ROW_BYTES == 0 for offset in offsets)
        assert tile.sums_at % ROW_BYTES == tile.scratch_at % ROW_BYTES == 0
