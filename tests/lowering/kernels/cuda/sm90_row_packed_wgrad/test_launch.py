"""`sm90_row_packed_wgrad` sees gradients of weights as rows of images; its configs are their
texts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from cuda_contractions import contraction_of_line, refusal_of_line, refusal_of_text
from hypothesis import given
from hypothesis import strategies as st

from convir.lowering.bodies.contraction.spec import Axis, Channels, Contraction, Phase, Weights
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.config import (
    RowPackedWgradConfig,
)
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.launch import kernels
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import RowPackedProblem, problem_of
from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
from convir.lowering.kernels.cuda.tile_schedule.schedule import COUNTER_BYTES
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.toolchain.compile import compile_cubin, kernel_usage

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
NWC = "--in_layout NWC --fil_layout NWC --out_layout NWC"
NARROW = f"convfp16 -n 32 -c 256 -H 25 -W 25 -k 36 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}"
GROUPED = f"convbfp16 -n 4 -c 256 -H 9 -W 9 -k 64 -y 3 -x 3 -p 1 -q 1 -g 2 -F 4 {NHWC}"
SMALL = f"convfp16 -n 32 -c 256 -H 7 -W 7 -k 36 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}"
FLAT = f"convfp16 --spatial_dim 1 -n 4 -c 64 -W 99 -k 24 -x 5 -q 2 -v 1 -F 4 {NWC}"


@st.composite
def specs(draw: st.DrawFn) -> Contraction:
    """Gradients of 1-D and 2-D weights whose windows move by single positions."""
    spatial = draw(st.lists(st.tuples(*[st.integers(1, 6)] * 2), min_size=1, max_size=2))
    images = draw(st.integers(1, 3))
    axes = [Axis.batch(images, 8, 4)] if images > 1 or draw(st.booleans()) else []
    row, out, weight = 8 * images, 4 * images, 16
    for i, (size, extent) in enumerate(spatial):
        between = draw(st.integers(1, 3)) if i == len(spatial) - 1 else 1
        taps, first = draw(st.integers(1, 4)), draw(st.integers(-7, 3))
        if not axes and taps == 1 and first == 0:
            first = 1  # else it is images
        rows = tuple(first + t * between for t in range(taps))
        weights = tuple(t * weight for t in range(taps))
        axes.append(Axis(size, extent, 1, rows, weights, row, out))
        row, out, weight = row * extent, out * size, weight * taps
    return Contraction(
        "f32",
        (Phase(tuple(axes)),),
        8,
        4,
        Channels("f16"),
        Weights("f16", 4, 1),
        Channels("f16"),
        result="B",
    )


def products(axes: tuple[Axis, ...]) -> set[tuple[int, int, int]]:
    """Weight, element of A and element of C, of everything that is multiplied."""
    found: set[tuple[int, int, int]] = set()
    for taps in product(*(range(len(axis.tap_rows)) for axis in axes)):
        for at in product(*(range(axis.size) for axis in axes)):
            rows = [p * a.step + a.tap_rows[i] for p, a, i in zip(at, axes, taps, strict=True)]
            if all(0 <= row < axis.extent for row, axis in zip(rows, axes, strict=True)):
                found.add(
                    (
                        sum(a.tap_weights[i] for a, i in zip(axes, taps, strict=True)),
                        sum(row * a.row_stride for row, a in zip(rows, axes, strict=True)),
                        sum(p * a.out_stride for p, a in zip(at, axes, strict=True)),
                    )
                )
    return found


@given(specs(), st.tuples(*[st.integers(1, 3)] * 2), st.tuples(*[st.integers(1, 9)] * 2))
def test_steps_and_stacked_taps_multiply_everything_once(
    spec: Contraction, taps: tuple[int, int], step: tuple[int, int]
) -> None:
    """The template's addresses: rows of dY of a step begin with those of its last tap."""
    problem = problem_of(spec)
    assert isinstance(problem, RowPackedProblem)
    images, rows, cols = problem.images, problem.rows, problem.cols
    found: list[tuple[int, int, int]] = []
    for image, row0, col0, r0, s0 in product(
        range(images.size),
        range(0, rows.extent, step[0]),
        range(0, cols.extent, step[1]),
        range(0, len(rows.tap_rows), taps[0]),
        range(0, len(cols.tap_rows), taps[1]),
    ):
        first_row = row0 - rows.tap_rows[0] - (r0 + taps[0] - 1)
        tap_cols = cols.tap_rows[s0 : s0 + taps[1]]
        first_col = col0 - max(tap_cols)
        for dy, dx, packed, s in product(*map(range, (*step, *taps))):
            r, s = r0 + taps[0] - 1 - packed, s0 + s
            if r >= len(rows.tap_rows) or s >= len(cols.tap_rows):
                continue
            shift = max(tap_cols) - cols.tap_rows[s]
            assert 0 <= shift <= max(tap_cols) - min(tap_cols)
            y, x = row0 + dy, col0 + dx
            p, q = first_row + dy + packed, first_col + dx + shift
            if y < rows.extent and x < cols.extent and 0 <= p < rows.size and 0 <= q < cols.size:
                found.append(
                    (
                        rows.tap_weights[r] + cols.tap_weights[s],
                        image * images.row_stride + y * rows.row_stride + x * cols.row_stride,
                        image * images.out_stride + p * rows.out_stride + q * cols.out_stride,
                    )
                )
    assert len(set(found)) == len(found)
    assert set(found) == products(spec.phases[0].axes)


@given(st.integers(1, 4), st.integers(0, 5), st.integers(1, 5))
def test_packed_columns_of_stacked_taps_follow_each_other(
    pairs: int, whole: int, taps: int
) -> None:
    """The template's two copies of a window: where its rows are written, and read from."""
    rows, out_channels = 2 * pairs, 8 * whole + 4
    copy_rows = rows - 2 + taps
    copy_columns = -(-copy_rows * out_channels // 8) * 8
    written: dict[int, tuple[int, int]] = {}
    for copy, row in product(range(2), range(copy_rows)):
        first = copy * copy_columns + row // 2 * 2 * out_channels + row % 2 * out_channels
        written |= {first + n: (copy + row, n) for n in range(out_channels)}
    for row in range(rows):
        first = row % 2 * copy_columns + row // 2 * 2 * out_channels
        assert first % 8 == 0
        packed = [written[first + n] for n in range(taps * out_channels)]
        assert packed == list(product(range(row, row + taps), range(out_channels)))


@given(st.integers(1, 40), st.sampled_from((128, 256)), st.integers(2, 8))
def test_blocks_of_a_cluster_own_every_vector_of_sums_once(
    blocks: int, threads: int, cluster: int
) -> None:
    """The template's slices: chunks of neighbours in turns, and at most what the host asks for."""
    chunk, vectors = 16, blocks * threads
    most = -(-(vectors // chunk) // cluster) * chunk
    places = {
        (v // chunk % cluster, v // chunk // cluster * chunk + v % chunk) for v in range(vectors)
    }
    owned = [
        (vectors // chunk - split + cluster - 1) // cluster * chunk for split in range(cluster)
    ]
    assert places == {(split, at) for split in range(cluster) for at in range(owned[split])}
    assert sum(owned) == vectors
    assert max(owned) <= most


@given(
    st.integers(2, 5),
    st.integers(1, 6),
    st.booleans(),
    st.integers(2, 4),
    st.integers(0, 3),
    st.integers(0, 9),
    st.integers(1, 20),
)
def test_a_ring_has_the_rows_of_every_window(
    taps: int, rows: int, is_copied: bool, stages: int, more: int, begin: int, steps: int
) -> None:
    """The template's ring, filled as early as it may be, and never waiting for itself."""
    halo, image_steps = taps - 1, stages + more
    rows = max(rows, halo)
    rows += rows % 2 if is_copied else 0
    shared = range(2 if is_copied else 1)
    window = rows + halo - len(shared) + 1
    ring_rows = (stages + 1) * rows
    ring: dict[tuple[int, int], tuple[int, int]] = {}
    group = -1
    groups: list[int] = []

    def given_up_before(step: int) -> int:
        """Steps of the part that are multiplied before this one is brought."""
        since = (begin + step) % image_steps
        return step - stages + 1 + (1 if since < stages - 1 and step > since else 0)

    def store(copy: int, row: int, content: tuple[int, int]) -> None:
        ring[copy, row % ring_rows] = content
        if row % ring_rows < window - rows:
            ring[copy, row % ring_rows + ring_rows] = content

    for step in range(steps):
        starts = step == 0 or (begin + step) % image_steps == 0
        assert given_up_before(step) <= (step if starts else step - 1)
        while len(groups) < steps and given_up_before(len(groups)) <= step:
            filled = begin + len(groups)
            is_first = filled in (begin, filled // image_steps * image_steps)
            group = (group + (2 if is_first and filled > begin else 1)) % (stages + 1)
            groups.append(group)
            for row in range(0 if is_first else halo, rows + halo):
                image, first = divmod(filled, image_steps)
                for copy in shared:
                    store(copy, group * rows + row - copy, (image, first * rows + row))
        image, first = divmod(begin + step, image_steps)
        for copy in shared:
            found = [ring[copy, groups[step] * rows + row] for row in range(window)]
            assert found == [(image, first * rows + copy + row) for row in range(window)]


CONFIG = (
    "sm90_row_packed_wgrad 3x3x40 tile_m=64 step=2x32 slab=2 stages=4 "
    "staging=2 prologue=1 x=shared y=async"
    " roles=4:8 cluster=1 partition=stream-k:linear blocks=132"
)


@pytest.mark.parametrize(
    ("changed", "to", "reason"),
    [
        ("3x3x40", "3x3x38", "out_channels=38: multiples of 4, at least 4"),
        ("3x3x40", "3x3x36", "by pairs of rows"),
        ("3x3x40", "6x1x48", "8 to 256 output channels"),
        ("3x3x40", "4x3x40", "240 accumulators of a thread"),
        ("4:8", "3:5", "roles=3:5: one of 0:4, 0:8"),
        ("step=2x32", "step=3x32", "step=3x32 has no whole slabs"),
        ("step=2x32", "step=2x264", "step=2x264: AxB, each 1 to 256"),
        ("step=2x32", "step=2x12", "no slabs"),
        ("step=2x32", "step=2x8", "no slabs for 2 groups"),
        ("slab=2", "slab=3", "slab=3: one of 1, 2"),
        (
            "y=async roles=4:8",
            "y=tma roles=0:8",
            "roles=0:8 needs x=shared y=async, not x=shared y=tma",
        ),
        (
            "step=2x32 slab=2 stages=4 staging=2 prologue=1 x=shared",
            "step=2x24 slab=2 stages=4 staging=2 prologue=1 x=registers",
            "divide 3 slabs",
        ),
        (
            "3x3x40 tile_m=64 step=2x32 slab=2 stages=4 staging=2 prologue=1 x=shared y=async",
            "3x3x32 tile_m=64 step=2x32 slab=2 stages=4 staging=2 prologue=1 x=shared y=tma",
            "output channels of several tiles",
        ),
        ("tile_m=64", "tile_m=192", "roles=4:8 needs tile_m=64 or tile_m=128, not 192"),
        (
            "step=2x32 slab=2 stages=4 staging=2 prologue=1 x=shared y=async",
            "step=1x32 slab=1 stages=4 staging=2 prologue=1 x=shared y=ring",
            "steps of 1 rows share none, or more",
        ),
        (
            "step=2x32 slab=2 stages=4 staging=2 prologue=1 x=shared y=async",
            "step=2x16 slab=2 stages=4 staging=2 prologue=1 x=shared y=ring",
            "whole rows of images",
        ),
        (
            "step=2x32 slab=2 stages=4 staging=2 prologue=1 x=shared y=async",
            "step=8x32 slab=2 stages=5 staging=2 prologue=1 x=shared y=ring",
            "fewer steps than stages",
        ),
        (
            "y=async roles=4:8 cluster=1 partition=stream-k:linear",
            "y=ring roles=4:8 cluster=2 partition=split-k:2:reduce-scatter",
            "are added in global memory",
        ),
        ("staging=2", "staging=5", "staging=5: 1 to 4"),
        ("prologue=1", "prologue=2", "prologue=2: of 1 steps"),
        ("prologue=1 x=shared y=async", "prologue=2 x=shared y=tma", "prologue=2: of 1 steps"),
        (
            "prologue=1 x=shared y=async roles=4:8",
            "prologue=3 x=shared y=tma roles=4:4",
            "prologue=3: of 2 steps",
        ),
        ("stages=4", "stages=1", "stages=1: at least 2"),
        ("stages=4", "stages=40", "bytes of shared memory"),
        ("cluster=1", "cluster=9", "cluster=9: 1 to 8"),
        (
            "cluster=1",
            "cluster=2",
            "cluster=2 needs partition=split-k:2:reduce-scatter, not stream-k:linear",
        ),
        ("stream-k:linear", "split-k:64:reduce-scatter", "do not run at the same time"),
        ("stream-k:linear", "split-k:500:tree", "steps are not divided"),
    ],
)
def test_illegal_configs_are_refused_with_the_reason(changed: str, to: str, reason: str) -> None:
    found, text = contraction_of_line(NARROW), CONFIG.replace(changed, to)
    assert reason in refusal_of_text(kernels, found, RowPackedWgradConfig.parse, text)


@pytest.mark.parametrize(
    ("changed", "to", "reason"),
    [
        ("-F 4", "-F 1", "not a gradient of weights"),
        ("convfp16", "conv", "tensor cores do not multiply f32"),
        ("-p 1", "-u 2 -p 1", "move by several pixels"),
        ("-p 1", "-l 2 -p 2", "do not read adjacent rows"),
        ("-c 256", "-c 252", "no multiples of 16 bytes"),
        ("-k 36", "-k 35", "single elements"),
    ],
)
def test_other_contractions_are_refused_with_the_reason(changed: str, to: str, reason: str) -> None:
    config = RowPackedWgradConfig.parse(CONFIG)
    assert reason in refusal_of_line(kernels, NARROW.replace(changed, to), config)


def test_three_spatial_axes_and_channels_first_are_refused() -> None:
    deep = (
        "convfp16 --spatial_dim 3 -n 2 -c 64 --in_d 5 -H 6 -W 7 -k 36 --fil_d 3 -y 3 -x 3 --pad_d 1"
        " -p 1 -q 1 -F 4 --in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
    )
    for line in (deep, NARROW.replace("--in_layout NHWC", "--in_layout NCHW")):
        assert refusal_of_line(kernels, line, RowPackedWgradConfig.parse(CONFIG))


SHARED = "staging=2 prologue=1 x=shared y=async"
BULK = "staging=1 prologue=1 x=shared y=tma"
AT_ONCE = "staging=4 prologue=4 x=shared y=tma"
APART = "staging=2 prologue=1 x=registers y=tma"
RING = "staging=2 prologue=1 x=registers y=ring"
KERNELS = [
    (
        NARROW,
        f"3x3x40 tile_m=64 step=6x32 slab=2 stages=3 {APART} roles=4:8",
        "split-k:33:reduce-scatter",
        1,
    ),
    (
        NARROW,
        f"3x3x40 tile_m=128 step=3x32 slab=1 stages=4 {APART} roles=4:8",
        "split-k:66:reduce-scatter",
        1,
    ),
    (
        NARROW,
        f"3x3x36 tile_m=128 step=2x32 slab=2 stages=4 {APART} roles=4:8",
        "split-k:64:reduce-scatter",
        1,
    ),
    (
        NARROW,
        f"3x3x36 tile_m=128 step=2x32 slab=2 stages=5 {RING} roles=4:8",
        "split-k:64:reduce-scatter",
        1,
    ),
    (
        NARROW,
        f"3x3x36 tile_m=64 step=4x32 slab=2 stages=5 {RING} roles=4:8",
        "split-k:32:reduce-scatter",
        1,
    ),
    (NARROW, f"3x3x40 tile_m=64 step=6x32 slab=1 stages=3 {RING} roles=4:8", "split-k:20:tree", 1),
    (NARROW, f"3x3x40 tile_m=64 step=5x32 slab=1 stages=3 {BULK} roles=8:8", "split-k:33:tree", 1),
    (
        NARROW,
        f"3x1x40 tile_m=64 step=2x16 slab=2 stages=5 {BULK} roles=4:4",
        "split-k:8:reduce-scatter",
        8,
    ),
    (
        SMALL,
        f"3x1x40 tile_m=64 step=8x8 slab=2 stages=4 {AT_ONCE} roles=8:4",
        "split-k:8:reduce-scatter",
        8,
    ),
    (
        SMALL,
        f"3x1x40 tile_m=64 step=8x8 slab=2 stages=4 {AT_ONCE} roles=8:4",
        "split-k:8:reduce-scatter",
        8,
    ),
    (
        NARROW,
        f"3x3x40 tile_m=128 step=2x32 slab=2 stages=4 {SHARED} roles=0:8",
        "split-k:9:linear",
        1,
    ),
    (
        NARROW,
        f"3x1x40 tile_m=64 step=2x32 slab=2 stages=5 {SHARED} roles=0:4",
        "split-k:2:reduce-scatter",
        2,
    ),
    (GROUPED, f"2x2x32 tile_m=64 step=4x16 slab=2 stages=3 {SHARED} roles=4:8", "data-parallel", 1),
    (FLAT, f"1x5x24 tile_m=64 step=1x112 slab=1 stages=3 {SHARED} roles=4:8", "data-parallel", 1),
]


@pytest.mark.parametrize(("line", "config", "partition", "cluster"), KERNELS)
def test_kernels_compile_without_spills(
    line: str, config: str, partition: str, cluster: int
) -> None:
    found = contraction_of_line(line)
    parsed = RowPackedWgradConfig.parse(
        f"sm90_row_packed_wgrad {config} cluster={cluster} partition={partition} blocks=132"
    )
    plan = kernels(found.contraction, found.epilogue, parsed, DEFAULT_TARGET)
    assert isinstance(plan, KernelPlan)
    (kernel,) = plan.kernels
    assert compile_cubin(kernel.source, "sm_90a")
    usage = kernel_usage(kernel.source, "sm_90a")[kernel.symbol]
    assert (usage.spill_bytes, usage.is_serial) == (0, False)


def test_parts_of_a_cluster_need_no_memory() -> None:
    found = contraction_of_line(NARROW)
    config = RowPackedWgradConfig.parse(CONFIG)
    shared = replace(config, partition=Partition("split-k", 8, "reduce-scatter"))
    plan = kernels(found.contraction, found.epilogue, shared, DEFAULT_TARGET)
    assert isinstance(plan, KernelPlan)
    slot = 4 * (2 * 23) * 4 * 128  # of 45 blocks of four sums, either group keeps 23
    assert (plan.kernels[0].grid, plan.workspace) == ((32, 1, 1), (32 * slot,))
    assert plan.state == (4 * COUNTER_BYTES,)
    clustered = kernels(
        found.contraction, found.epilogue, replace(shared, cluster=8), DEFAULT_TARGET
    )
    assert isinstance(clustered, KernelPlan)
    assert (clustered.kernels[0].grid, clustered.workspace) == ((32, 1, 1), ())
