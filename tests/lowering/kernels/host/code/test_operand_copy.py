"""Copies of rows hold every position that a tap reads, whichever way positions are walked."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.bodies.contraction.spec import Axis, Channels, Phase
from convir.lowering.kernels.host.code.operand_copy import staged_phases
from convir.reference import FloatFormat, evaluate


def pixels(axis: Axis) -> list[list[int | None]]:
    """Where in memory each tap of each output reads, None for padding."""
    return [
        [
            place * axis.row_stride if 0 <= place < axis.extent else None
            for i in range(axis.size)
            for place in [row + i * axis.step]
        ]
        for row in axis.tap_rows
    ]


@given(
    st.integers(1, 6),
    st.integers(1, 9),
    st.sampled_from([-3, -2, -1, 1, 2, 3]),
    st.lists(st.integers(-4, 12), min_size=1, max_size=3, unique=True),
)
def test_copies_hold_what_is_read(size: int, extent: int, step: int, rows: list[int]) -> None:
    taps = tuple(range(len(rows)))
    axis = Axis(size, extent, step, tuple(rows), taps, 5, 1)
    (phase,), (copied,), offset = staged_phases([Phase((axis,))], 1, Channels("f32", 1, 0))
    for before, after in zip(pixels(axis), pixels(phase.axes[0]), strict=True):
        for source, copy in zip(before, after, strict=True):
            place = None if copy is None else offset + copy * copied.stride
            assert source is None or place == source
            assert source is not None or place is None


def test_a_gradient_that_reads_rows_backwards() -> None:
    line = "conv -n 1 -c 2 -H 4 -W 14 -k 3 -y 4 -x 1 -p 1 -q 0 -u 3 -v 1 -F 2"
    (problem,) = parse_line(line).problems.values()
    random = np.random.default_rng(0)
    operands = [random.integers(-3, 4, s).astype(np.float32) for s in problem.shapes[:2]]

    def module() -> ModuleOp:
        return ModuleOp([function_of("main", problem)])

    found = convir_compile(module(), device="host")(*operands)
    (expected,) = evaluate(module(), "main", operands, float_format=FloatFormat.WIDE)
    np.testing.assert_array_equal(found, expected)
