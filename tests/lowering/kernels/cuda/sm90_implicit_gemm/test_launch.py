"""The wgmma template's plans: what is stored where, which config, and what is refused."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from contraction_readings import dgrad_line, reading, readings
from conv_lines import NWC
from cuda_contractions import refusal_of_text
from gpu import nvrtc_or_skip
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import Axis, Phase
from convir.lowering.kernels.cuda.sm90_implicit_gemm import candidates as sm90_candidates
from convir.lowering.kernels.cuda.sm90_implicit_gemm import launch as wgmma
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import Sm90ImplicitGemmConfig
from convir.lowering.kernels.cuda.sm90_implicit_gemm.family import SM90_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import problem_of, sliding_maps
from convir.lowering.kernels.target import DEFAULT_TARGET, target_of
from convir.runtime.cuda.toolchain.compile import compile_cubin, kernel_usage
from convir.runtime.cuda.toolchain.cubin import executed

if TYPE_CHECKING:
    import numpy.typing as npt

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import Sm90ImplicitGemmProblem


def config_of(text: str) -> Sm90ImplicitGemmConfig:
    """The config `TILE STAGES MATH STORE`."""
    return Sm90ImplicitGemmConfig.parse(text_of(text))


def text_of(text: str) -> str:
    """The text of the config `TILE STAGES MATH STORE`."""
    tile, stages, schedule, store = text.split()
    return f"sm90_implicit_gemm {tile} stages={stages} schedule={schedule} store={store} blocks=132"


def planned(contraction: Contraction) -> Sm90ImplicitGemmProblem:
    problem = problem_of(contraction)
    assert not isinstance(problem, Refusal), problem.reason
    return problem


def stores(problem: Sm90ImplicitGemmProblem, out_channels: int) -> npt.NDArray[np.int64]:
    """The elements of C that the template stores, each time it does, in no order."""
    found: list[range] = []
    for phase in problem.phases:
        for x in product(*(range(size) for size in phase.sizes)):
            start = phase.offset + sum(i * s for i, s in zip(x, phase.strides, strict=True))
            pixels = 1
            if problem.fused_zero_fills:
                width = 1 + problem.fused_zero_fills
                pixels = min(width, problem.row_pixels - x[0] * width)
            found += [
                range(start + at, start + at + pixels * out_channels) for at in problem.pieces
            ]
            for zero_fill in problem.cell_zero_fills:
                if all(i < size for i, size in zip(x, zero_fill.sizes, strict=True)):
                    zeros = start + zero_fill.offset
                    found.append(range(zeros, zeros + pixels * out_channels))
    for zero_fill in problem.zero_fills:
        for at in product(*(range(size) for size in zero_fill.sizes)):
            start = zero_fill.offset + sum(
                x * s for x, s in zip(at, zero_fill.strides, strict=True)
            )
            found.append(range(start, start + zero_fill.run))
    return np.concatenate([np.arange(r.start, r.stop) for r in found])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([8, 32, 72]),
    st.tuples(st.integers(3, 9), st.integers(3, 9)),
    st.integers(1, 4),
    st.integers(0, 1),
    st.integers(1, 3),
)
def test_every_element_is_stored_once(
    c: int, spatial: tuple[int, int], taps: int, pad: int, stride: int
) -> None:
    assume(min(spatial) + 2 * pad >= taps)
    found, *others = readings(dgrad_line(2, c, 16, spatial, taps, pad, stride))
    assume(not others and not isinstance(found, Refusal))
    assert not isinstance(found, Refusal)
    assume(found.contraction.result == "C")
    problem = planned(found.contraction)
    stored = np.sort(stores(problem, c))
    assert np.array_equal(stored, np.arange(2 * c * spatial[0] * spatial[1]))


@pytest.mark.parametrize(
    ("line", "fused", "cells", "zero_fills"),
    [
        # Narrow rows are stored with the hole behind, and the line of holes below, whole lines.
        (dgrad_line(2, 32, 64, (10, 11), 1, 0, 2), 1, 1, 0),
        # Wide ones leave the three holes of a cell to TMA.
        (dgrad_line(2, 128, 64, (10, 11), 1, 0, 2), 0, 3, 0),
        # Positions of the hole that no row has: the holes are filled in runs.
        (dgrad_line(2, 128, 64, (9, 9), 1, 1, 2), 0, 0, 2),
        (dgrad_line(2, 128, 64, (9, 9), 3, 1, 2), 0, 0, 0),
    ],
)
def test_holes(line: str, fused: int, cells: int, zero_fills: int) -> None:
    problem = planned(reading(line).contraction)
    found = (problem.fused_zero_fills, len(problem.cell_zero_fills), len(problem.zero_fills))
    assert found == (fused, cells, zero_fills)


def test_the_longest_phase_is_first_and_equal_ones_alternate() -> None:
    odd = planned(reading(dgrad_line(2, 64, 64, (13, 13), 3, 1, 2)).contraction)
    assert [len(phase.taps) for phase in odd.phases] == [4, 2, 2, 1]
    assert [len(group) for group in odd.groups()] == [1, 2, 1]
    even = planned(reading(dgrad_line(2, 64, 64, (16, 16), 4, 1, 2)).contraction)
    assert [len(group) for group in even.groups()] == [4]
    assert len(even.maps) == 1


def test_phases_without_overlap_are_columns_of_one_product() -> None:
    even = planned(reading(dgrad_line(2, 64, 16, (8, 6), 2, 0, 2)).contraction)
    assert (len(even.phases), even.out_channels, even.matrices) == (1, 256, 1)
    assert even.pieces == (0, 64, 6 * 64, 7 * 64)
    # Not of an odd size, as the last positions have no right neighbour.
    odd = planned(reading(dgrad_line(2, 64, 16, (8, 7), 2, 0, 2)).contraction)
    assert len(odd.pieces) == 1


def test_configs_print_and_parse() -> None:
    config = Sm90ImplicitGemmConfig(128, 224, 4, "cooperative", 32, 132)
    text = "sm90_implicit_gemm 128x224 stages=4 schedule=cooperative store=32 blocks=132"
    assert str(config) == text
    assert Sm90ImplicitGemmConfig.parse(text) == config
    older = text.replace("store=32", "cluster=1 store=direct:32")
    assert Sm90ImplicitGemmConfig.parse(older) == config
    for wrong, reason in (
        ("sm90_implicit_gemm 128x224", "and lacks stages"),
        (older.replace("cluster=1", "cluster=2"), "without 'cluster'"),
        (text + " depth=3", "without 'depth'"),
        (text.replace("coop", "un"), "schedule=unerative: one of cooperative, pingpong"),
        (
            text.replace("sm90_implicit_gemm", "sm80_implicit_gemm"),
            "not a config of sm90_implicit_gemm",
        ),
    ):
        with pytest.raises(ValueError, match=reason):
            Sm90ImplicitGemmConfig.parse(wrong)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("64x128 4 cooperative 128", "block_m=64: one of 128, 256 if cooperative"),
        ("256x64 4 pingpong 64", "block_m=256: one of 64, 128 if pingpong"),
        ("128x40 4 cooperative 8", "block_n=40: one of 32, 64, 96, 128"),
        ("256x160 2 cooperative 32", "exceed the registers"),
        ("128x160 2 pingpong 32", "exceed the registers"),
        ("128x128 1 cooperative 128", "stages=1: at least 2"),
        ("128x128 4 cooperative 48", "48 staged output channels do not divide"),
        ("128x128 9 cooperative 128", "bytes of shared memory"),
    ],
)
def test_illegal_configs(text: str, reason: str) -> None:
    found = reading(dgrad_line(2, 128, 64, (10, 11), 1, 0, 2))
    refused = refusal_of_text(wgmma.kernels, found, Sm90ImplicitGemmConfig.parse, text_of(text))
    assert reason in refused


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (dgrad_line(2, 20, 64, (9, 9), 1, 0, 2), "multiples of 8 elements"),
        (dgrad_line(2, 64, 20, (9, 9), 1, 0, 2), "multiples of 8 elements"),
        (dgrad_line(2, 64, 64, (9, 9), 1, 0, 2).replace("fp16", "fp64"), "not both f16, both bf16"),
        (dgrad_line(2, 64, 96, (9, 9), 1, 0, 2).replace("fp16", ""), "as TF32 has to have them"),
        (dgrad_line(2, 64, 64, (9, 9), 1, 0, 2).replace("-g 1", "-g 2"), "it has groups"),
    ],
)
def test_refusals(line: str, reason: str) -> None:
    found = reading(line)
    refused = sm90_candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_other_architectures_are_refused() -> None:
    found = reading(dgrad_line(2, 64, 64, (9, 9), 1, 0, 2))
    refused = SM90_IMPLICIT_GEMM.candidates(found, target_of("sm_80", 108, 163 << 10))
    assert isinstance(refused, Refusal)
    assert "sm_80 has no wgmma" in refused.reason


@pytest.mark.parametrize(
    ("line", "config"),
    [
        (dgrad_line(2, 32, 72, (10, 11), 1, 0, 2), "256x32 3 cooperative 32"),
        (dgrad_line(2, 448, 200, (10, 11), 1, 0, 2), "128x224 3 cooperative 224"),
        (dgrad_line(2, 256, 64, (9, 9), 3, 1, 2), "128x96 3 pingpong 96"),
        (dgrad_line(2, 64, 64, (8, 8), 2, 0, 2), "64x256 3 pingpong 64"),
        (dgrad_line(2, 128, 64, (9, 9), 1, 1, 2), "64x256 3 pingpong 32"),
    ],
)
def test_kernels_compile_without_spills(line: str, config: str) -> None:
    nvrtc_or_skip()
    found = reading(line)
    parsed = config_of(config)
    plan = wgmma.kernels(found.contraction, found.epilogue, parsed, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    (launch,) = plan.kernels
    assert not kernel_usage(launch.source, DEFAULT_TARGET.arch)[launch.symbol].spill_bytes


def test_code_does_not_grow_with_taps() -> None:
    nvrtc_or_skip()

    def code_bytes(taps: int) -> int:
        found = reading(f"convfp16 -n 4 -c 512 -W 256 -k 64 -x {taps} -q 1 -F 1 {NWC}")
        config = config_of("128x64 4 cooperative 64")
        plan = wgmma.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
        assert not isinstance(plan, Refusal), plan.reason
        (launch,) = plan.kernels
        return len(executed(compile_cubin(launch.source, DEFAULT_TARGET.arch)))

    assert code_bytes(5) < 1.1 * code_bytes(3)


def test_maps_do_not_walk_backwards() -> None:
    phase = Phase((Axis.batch(2, 64, 64), Axis(2, 2, -1, (1,), (0,), 8, 8)))
    refused = sliding_maps([phase])
    assert isinstance(refused, Refusal)
    assert refused.reason == "its taps or steps are too far apart, or walk backwards"
