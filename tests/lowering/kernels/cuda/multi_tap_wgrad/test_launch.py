"""`multi_tap_wgrad` sees gradients of weights as shifts on one grid; its configs are their
texts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from cuda_contractions import contraction_of_line, refusal_of_line, refusal_of_text
from hypothesis import given
from hypothesis import strategies as st

from convir.lowering.bodies.contraction.spec import Axis, Channels, Contraction, Phase, Weights
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import (
    MultiTapWgradConfig,
    base_of,
    reach,
)
from convir.lowering.kernels.cuda.multi_tap_wgrad.launch import kernels
from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import MultiTapProblem, problem_of
from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.toolchain.compile import compile_cubin, kernel_usage

parse = MultiTapWgradConfig.parse

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
NARROW = f"convfp16 -n 32 -c 256 -H 25 -W 25 -k 36 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}"
GROUPED = f"convbfp16 -n 4 -c 256 -H 9 -W 9 -k 256 -y 3 -x 3 -p 1 -q 1 -g 2 -F 4 {NHWC}"
STRIDED = f"convfp16 -n 4 -c 64 -H 26 -W 25 -k 72 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 4 {NHWC}"


@st.composite
def specs(draw: st.DrawFn) -> Contraction:
    """Gradients of 1-D and 2-D weights with all kinds of windows, without channels to speak of."""
    sizes = draw(st.lists(st.tuples(*[st.integers(1, 6)] * 2), min_size=2, max_size=3))
    axes: list[Axis] = []
    row, out, weight = 4, 4, 16
    for is_batch, (size, extent) in zip((True, False, False), sizes, strict=False):
        if is_batch:
            axes.append(Axis.batch(size, row, out))
            row, out = row * size, out * size
            continue
        taps, step = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        first, between = draw(st.integers(-7, 3)), draw(st.integers(1, 3))
        rows = tuple(first + i * between for i in range(taps))
        weights = tuple(i * weight for i in range(taps))
        axes.append(Axis(size, extent, step, rows, weights, row, out))
        row, out, weight = row * extent, out * size, weight * taps
    return Contraction(
        "f32",
        (Phase(tuple(axes)),),
        4,
        4,
        Channels("f16"),
        Weights("f16", 4, 1),
        Channels("f16"),
        result="B",
    )


def gradients(spec: Contraction) -> dict[int, set[tuple[int, int]]]:
    """For each weight the pairs of elements of A and C that are multiplied for it."""
    axes = spec.phases[0].axes
    found: dict[int, set[tuple[int, int]]] = {}
    for taps in product(*(range(len(axis.tap_rows)) for axis in axes)):
        weight = sum(axis.tap_weights[i] for axis, i in zip(axes, taps, strict=True))
        pairs = found.setdefault(weight, set())
        for at in product(*(range(axis.size) for axis in axes)):
            rows = [p * a.step + a.tap_rows[i] for p, a, i in zip(at, axes, taps, strict=True)]
            if all(0 <= row < axis.extent for row, axis in zip(rows, axes, strict=True)):
                read = sum(row * axis.row_stride for row, axis in zip(rows, axes, strict=True))
                pairs.add((read, sum(p * a.out_stride for p, a in zip(at, axes, strict=True))))
    return found


def on_grid(
    problem: MultiTapProblem, extents: tuple[int, ...], strides: list[int]
) -> dict[int, int]:
    """The element at each position of the grid that lies inside."""
    found: dict[int, int] = {}
    for at in product(*map(range, extents)):
        position = 0
        for index, size in zip(at, problem.grid, strict=True):
            position = position * size + index
        found[position] = sum(i * s for i, s in zip(at, strides, strict=True))
    return found


@given(specs())
def test_taps_are_shifts_on_a_grid(spec: Contraction) -> None:
    problem = problem_of(spec)
    assert isinstance(problem, MultiTapProblem)
    axes = spec.phases[0].axes
    dy = on_grid(problem, tuple(a.size for a in axes), [a.out_stride for a in axes])
    for tap in problem.taps:
        x = on_grid(problem, tap.plane.extents, [a.row_stride * a.step for a in axes])
        assert all(position < problem.pixels for position in (*x, *dy))
        pairs = {
            (tap.plane.offset + element, dy[position - tap.shift])
            for position, element in x.items()
            if position - tap.shift in dy
        }
        assert pairs == gradients(spec)[tap.weight]


@given(specs(), st.integers(1, 9))
def test_tiles_have_all_taps_once_and_each_reads_one_plane(spec: Contraction, taps: int) -> None:
    problem = problem_of(spec)
    assert isinstance(problem, MultiTapProblem)
    config = MultiTapWgradConfig(taps, 8, 4, "mma", (0, 4), Partition(), 132)
    groups = config.tap_groups(problem)
    assert sorted(tap.weight for group in groups for tap in group) == sorted(
        tap.weight for tap in problem.taps
    )
    assert all(len({tap.plane for tap in group}) == 1 for group in groups)
    distances = [abs(tap.shift - base_of(group)) for group in groups for tap in group]
    assert reach(groups) == max(distances)


CONFIG = (
    "multi_tap_wgrad 9x40 stages=4 instruction=wgmma roles=4:8 partition=stream-k:linear blocks=132"
)


@pytest.mark.parametrize(
    ("changed", "to", "reason"),
    [
        ("9x40", "9x44", "out_channels=44: multiples of 8, 8 to 48"),
        ("9x40", "9x48", "too many for 64 input channels"),
        ("4:8", "3:5", "roles=3:5: one of 0:4, 0:8"),
        ("stages=4", "stages=2", "stages=2: at least 3"),
        ("instruction=wgmma", "instruction=mma", "too few registers"),
        ("stages=4", "stages=40", "bytes of shared memory"),
        ("stream-k:linear", "split-k:64:reduce-scatter", "do not run at the same time"),
        ("stream-k:linear", "split-k:500:tree", "steps are not divided"),
    ],
)
def test_illegal_configs_are_refused_with_the_reason(changed: str, to: str, reason: str) -> None:
    found, text = contraction_of_line(NARROW), CONFIG.replace(changed, to)
    assert reason in refusal_of_text(kernels, found, parse, text)


@pytest.mark.parametrize(
    ("changed", "to", "reason"),
    [
        ("-F 4", "-F 1", "not a gradient of weights"),
        ("convfp16", "conv", "tensor cores do not multiply f32"),
        ("-k 36", "-k 35", "single elements"),
    ],
)
def test_other_contractions_are_refused_with_the_reason(changed: str, to: str, reason: str) -> None:
    assert reason in refusal_of_line(kernels, NARROW.replace(changed, to), parse(CONFIG))


def test_positions_that_are_walked_backwards_are_refused() -> None:
    """The gradient of one row of data: positions are the taps of a filter that is flipped."""
    line = "convfp16 --spatial_dim 1 -n 1 -c 64 -W 3 -k 64 -x 2 -v 2 -F 2"
    layouts = "--in_layout NCW --fil_layout NWC --out_layout NCW"
    reason = refusal_of_line(kernels, f"{line} {layouts}", parse(CONFIG))
    assert reason == "its output pixels are walked backwards"


def test_channels_first_is_refused() -> None:
    channels_first = NARROW.replace("--in_layout NHWC", "--in_layout NCHW")
    assert refusal_of_line(kernels, channels_first, parse(CONFIG))


KERNELS = [
    (
        NARROW,
        "9x40 stages=5 instruction=wgmma roles=4:8 partition=split-k:33:reduce-scatter blocks=132",
    ),
    (NARROW, "9x40 stages=5 instruction=wgmma roles=4:4 partition=stream-k:tree blocks=132"),
    (NARROW, "9x40 stages=5 instruction=wgmma roles=0:8 partition=split-k:16:linear blocks=132"),
    (NARROW, "3x40 stages=5 instruction=wgmma roles=0:4 partition=data-parallel blocks=132"),
    (NARROW, "9x40 stages=5 instruction=mma roles=4:4 partition=stream-k:tree:blocks blocks=132"),
    (STRIDED, "4x48 stages=4 instruction=mma roles=0:8 partition=stream-k:linear blocks=132"),
    (GROUPED, "9x32 stages=4 instruction=mma roles=4:4 partition=stream-k:linear blocks=4"),
    (STRIDED, "4x40 stages=4 instruction=wgmma roles=4:8 partition=split-k:3:tree blocks=132"),
]


@pytest.mark.parametrize(("line", "config"), KERNELS)
def test_kernels_compile_without_spills(line: str, config: str) -> None:
    found = contraction_of_line(line)
    plan = kernels(
        found.contraction, found.epilogue, parse(f"multi_tap_wgrad {config}"), DEFAULT_TARGET
    )
    assert isinstance(plan, KernelPlan)
    (kernel,) = plan.kernels
    for arch in ("sm_90a",) if "wgmma" in config else ("sm_80", "sm_90a"):
        assert compile_cubin(kernel.source, arch)
        assert kernel_usage(kernel.source, arch)[kernel.symbol].spill_bytes == 0


def test_positions_of_a_step_are_shared_by_math_groups() -> None:
    found = contraction_of_line(NARROW)
    problem = problem_of(found.contraction)
    assert isinstance(problem, MultiTapProblem)
    assert problem.pixels == prod(problem.grid) == 32 * 26 * 26
    wide, narrow = (parse(CONFIG.replace("4:8", roles)) for roles in ("4:8", "4:4"))
    schedules = [config.schedule(found.contraction, problem) for config in (wide, narrow)]
    assert [schedule.tiles for schedule in schedules] == [4, 4]
    assert [schedule.steps for schedule in schedules] == [
        int(np.ceil(21632 / chunk)) for chunk in (128, 64)
    ]


UNALIGNED = f"convfp16 -n 4 -c 128 -H 16 -W 16 -k 128 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}"


@pytest.mark.parametrize(
    ("changed", "to", "reason"),
    [("-c 128", "-c 100", None), ("-k 128", "-k 103", "single elements")],
)
def test_rows_that_are_not_vectors(changed: str, to: str, reason: str | None) -> None:
    """What Composable Kernel's stream-K refuses: depths are copied in narrower pieces instead."""
    found = contraction_of_line(UNALIGNED.replace(changed, to))
    plan = kernels(found.contraction, found.epilogue, parse(CONFIG), DEFAULT_TARGET)
    assert isinstance(plan, KernelPlan) if reason is None else reason in str(plan)


def test_blocks_and_memory_of_a_forced_number_of_units() -> None:
    found = contraction_of_line(UNALIGNED)
    config = parse(
        "multi_tap_wgrad 9x40 stages=4 instruction=mma roles=4:4 partition=stream-k:tree blocks=4"
    )
    plan = kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
    assert isinstance(plan, KernelPlan)
    # Two tiles of depths, four of columns: two whole waves of four, nothing to put together.
    assert (plan.kernels[0].grid, plan.workspace, plan.state) == ((4, 1, 1), (), ())
    few = kernels(found.contraction, found.epilogue, replace(config, blocks=3), DEFAULT_TARGET)
    assert isinstance(few, KernelPlan)
    slot = 9 * 40 * 64 * 4
    assert (few.kernels[0].grid, few.workspace, few.state) == ((3, 1, 1), (2 * slot,), (8,))
