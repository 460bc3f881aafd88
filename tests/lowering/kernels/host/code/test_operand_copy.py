"""Copies of rows hold every position that a tap reads, whichever way positions are walked."""

from __future__ import annotations

import numpy as np
import pytest
from host_contractions import TARGETS, Case, Types, run, window
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


@pytest.mark.parametrize(
    "types", [("f32", "f32", "f32"), ("f16", "f16", "f32"), ("i8", "i8", "i32")]
)
@pytest.mark.parametrize("channels", range(1, 9))
@pytest.mark.parametrize("cpu", TARGETS)
def test_few_channels_that_lie_apart(channels: int, cpu: str, types: Types) -> None:
    """Some are joined to whole vectors, some are not; lines are whole vectors or longer."""
    taps = (window(3, 1, 1), window(3, 2, 1))
    run(Case(2, channels, 8, (3, 19), taps, orders=(1, 0, 0), types=types), "fprop", cpu)
