"""Passes over rows on a GPU, against NumPy in f64; and what every config owes, without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpu import cupy_or_skip, launch_kernels, nvrtc_or_skip
from hypothesis import given, settings
from hypothesis import strategies as st
from row_programs import expected, text_of

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.reduction import problem
from convir.lowering.kernels.cuda.reduction.family import REDUCTION
from convir.lowering.kernels.cuda.reduction.problem import Rows, read
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.pipeline import lowering_passes
from convir.runtime.batches.growth import growth_of
from convir.runtime.cuda.toolchain.compile import compile_cubin, kernel_usage

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from convir.lowering.kernels.cuda.reduction.config import ReductionConfig

ULP = 2.0**-23
KINDS = ("f32", "f16", "bf16")
NAMES = ("sum", "max", "min", "product", "softmax", "normal")
PAIRS = (
    *(("sum", "f32"), ("sum", "bf16"), ("max", "f16"), ("product", "f32")),
    *(("softmax", "f16"), ("normal", "f32"), ("normal", "f16")),
)
AROUND = 256
"""Bytes before and behind a result that no kernel may touch."""

SHAPES = (
    ((5, 197), (1,)),  # rows of odd lengths
    ((37, 768), (1,)),
    ((1, 40000), (1,)),  # one row
    ((4096, 7), (1,)),  # short rows
    ((300, 1), (0,)),  # one column
    ((1000, 5), (0,)),
    ((3, 130, 40), (1,)),  # columns
    ((2, 4099, 96), (1,)),  # columns that blocks share
    ((2, 333, 8, 4), (1, 3)),  # groups of a few channels
    ((2, 70, 3, 12), (1, 3)),
    ((2, 50, 4, 3), (1, 3)),  # groups across vectors
    ((4, 3, 1000), (0, 2)),  # a row that lies in pieces
    ((2, 3, 5, 7, 16), (2, 3, 4)),
)


@pytest.fixture(autouse=True, scope="module")
def rows_are_planned() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """Whatever a program gets, these tests are of the family."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem, "PLANS_ROWS", True)
        yield


def rows_of(text: str) -> Rows:
    """What the only kernel of a function is to the family."""
    module = read_module(text)
    for each in lowering_passes("cuda"):
        each.apply(new_context(), module)
    (body,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    rows = read(body)
    assert not isinstance(rows, Refusal), rows.reason
    return rows


def configs_of(rows: Rows) -> list[ReductionConfig]:
    """Of each way to compute rows the fastest config, by predicted time."""
    found = REDUCTION.candidates(rows, DEFAULT_TARGET)
    assert not isinstance(found, Refusal), found.reason
    ranked = sorted(found, key=lambda each: REDUCTION.predict(rows, each, DEFAULT_TARGET))
    kept = [c for c in ranked if c.held and c.cluster == 1]
    clustered = [c for c in ranked if c.cluster > 1]
    split = [c for c in ranked if c.splits > 1]
    streamed = [c for c in ranked if not c.held and c.splits == 1]
    return [each[0] for each in (kept, clustered, split, streamed) if each]


def plan_of(rows: Rows, config: ReductionConfig) -> KernelPlan:
    plan = REDUCTION.launch(rows, config, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    return plan


def run(plan: KernelPlan, x: Any, shape: Sequence[int], dtype: Any) -> Any:
    """What a plan stores of one array: the same bits every time, and nothing around them."""
    cupy: Any = cupy_or_skip()
    given = cupy.asarray(np.ascontiguousarray(x).reshape(-1).view("u1"))
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    found: list[bytes] = []
    for _ in range(3):
        memory = cupy.full(size + 2 * AROUND, 0x7F, "u1")
        workspace = [cupy.full(nbytes, 0x7F, "u1") for nbytes in plan.workspace]
        memory[AROUND : AROUND + size] = 0xFF  # NaN
        for each in workspace:
            each[:] = 0xFF
        places = {Pointer("input", 0): given.data.ptr, Pointer("output"): memory.data.ptr + AROUND}
        places |= {Pointer("workspace", i): w.data.ptr for i, w in enumerate(workspace)}
        launch_kernels(plan.kernels, places)
        stored: Any = cupy.asnumpy(memory)
        around = np.concatenate([stored[:AROUND], stored[AROUND + size :]])
        assert (around == 0x7F).all(), "something beside the result is written"
        found.append(stored[AROUND : AROUND + size].tobytes())
    assert len(set(found)) == 1, "the bits differ from run to run"
    return np.frombuffer(found[0], dtype).reshape(shape)


def numbers(shape: Sequence[int], kind: str, name: str, seed: int) -> Any:
    """Around one, as an array of that type."""
    dtypes: dict[str, Any] = {"f32": np.float32, "f16": np.float16}
    if kind == "bf16":
        halves: Any = pytest.importorskip("ml_dtypes")
        dtypes[kind] = halves.bfloat16
    random: Any = np.random.default_rng(seed)
    spread = 1e-3 if name == "product" else 1.0
    return (1 + spread * random.standard_normal(shape)).astype(dtypes[kind])


def check(shape: tuple[int, ...], axes: tuple[int, ...], kind: str, name: str, seed: int) -> None:
    """All ways to compute a program are as accurate as pairwise sums."""
    x = numbers(shape, kind, name, seed)
    rows = rows_of(text_of(shape, axes, kind, name))
    exact: Any = x.astype(np.float64)
    wanted: Any = expected(x, axes, name)
    is_stored = name in ("softmax", "normal")
    dtype = x.dtype if is_stored else np.dtype(np.float32)
    stored = {"f32": ULP, "f16": 2.0**-11, "bf16": 2.0**-8}[kind] if is_stored else ULP
    length = int(np.prod([shape[axis] for axis in axes]))
    scale = float(np.abs(exact).sum(axes).max()) if name == "sum" else 0
    scale = max(scale, float(np.abs(wanted).max()), 1e-30)
    if name == "normal":  # The mean is rounded, and what differs little from it is divided by that.
        deviation = np.sqrt(exact.var(axes).min() + 1e-5)
        scale = max(scale, float(np.abs(exact).max() / deviation))
    steps = {"product": length, "softmax": 8, "normal": 16}.get(name, 4)
    tolerance = (stored + steps * ULP) * scale
    for config in configs_of(rows):
        found = run(plan_of(rows, config), x, wanted.shape, dtype)
        np.testing.assert_allclose(
            found.astype(np.float64), wanted, rtol=0, atol=tolerance, err_msg=str(config)
        )


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "kind"), PAIRS)
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_rows_are_as_accurate_as_pairwise_sums(
    shape: tuple[int, ...], axes: tuple[int, ...], name: str, kind: str
) -> None:
    cupy_or_skip()
    check(shape, axes, kind, name, 0)


@st.composite
def shapes(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of up to four dimensions, and some that are reduced."""
    sizes = st.sampled_from((2, 3, 5, 8, 16, 31, 32, 33, 64, 100))
    shape = tuple(draw(st.lists(sizes, min_size=1, max_size=4)))
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    return shape, tuple(sorted(axes))


@pytest.mark.gpu
@settings(max_examples=20, deadline=None)
@given(
    case=shapes(),
    kind=st.sampled_from(KINDS),
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 9),
)
def test_any_rows_are_as_accurate_as_pairwise_sums(
    case: Any, kind: str, name: str, seed: int
) -> None:
    cupy_or_skip()
    shape, axes = case
    if np.prod(shape) > 1 << 22:
        shape = shape[:3]
        axes = tuple(axis for axis in axes if axis < len(shape)) or (0,)
    check(shape, axes, kind, name, seed)


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["max", "min", "sum"])
def test_nan_and_infinities_reach_their_row_alone(name: str, axis: int) -> None:
    cupy_or_skip()
    x = np.ones((100, 640), np.float32)
    x[2, 5], x[0, 7], x[1, 9] = np.nan, np.inf, -np.inf
    rows = rows_of(text_of(x.shape, (axis,), "f32", name))
    wanted: Any = expected(x, (axis,), name).astype(np.float32)
    for config in configs_of(rows):
        found = run(plan_of(rows, config), x, wanted.shape, np.dtype(np.float32))
        np.testing.assert_array_equal(found, wanted, str(config))


@pytest.mark.gpu
def test_a_sum_keeps_what_large_numbers_would_hide() -> None:
    cupy_or_skip()
    x = np.ones((1, 1 << 20), np.float32)
    x[0, 0], x[0, -1] = 2.0**25, -(2.0**25)
    rows = rows_of(text_of(x.shape, (1,), "f32", "sum"))
    for config in configs_of(rows):
        found = run(plan_of(rows, config), x, (1,), np.dtype(np.float32))
        np.testing.assert_allclose(found, (1 << 20) - 2, rtol=1e-5, err_msg=str(config))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["sum", "normal"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4096, 768), (1,)),
        ((64, 197), (1,)),
        ((64, 300000), (1,)),
        ((8, 4096, 32, 4), (1, 3)),
        ((2, 70000, 32), (1,)),
        ((32, 49, 1280), (1,)),
    ],
)
def test_configs_compile_and_spill_little(
    shape: tuple[int, ...], axes: tuple[int, ...], name: str, kind: str
) -> None:
    nvrtc_or_skip()
    rows = rows_of(text_of(shape, axes, kind, name))
    for config in configs_of(rows):
        assert REDUCTION.parse(str(config)) == config
        assert REDUCTION.refusal(rows, config, DEFAULT_TARGET) is None
        for each in plan_of(rows, config).kernels:
            assert compile_cubin(each.source, DEFAULT_TARGET.arch)
            usage = kernel_usage(each.source, DEFAULT_TARGET.arch)[each.symbol]
            assert usage.spill_bytes <= each.spill_bytes, f"{config}: {usage}"


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((7, 197, 64), (2,)),
        ((7, 32, 4, 100), (2, 3)),
        ((7, 100, 8, 4), (1, 3)),
        ((7, 49, 64), (1,)),
    ],
)
def test_one_code_computes_every_batch(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    batches = (7, 8, 9)
    rows = [rows_of(text_of((n, *shape[1:]), axes, "f16", "normal")) for n in batches]
    growth = growth_of(rows, batches)
    assert not isinstance(growth, Refusal), growth.reason
    direct = rows_of(text_of((100, *shape[1:]), axes, "f16", "normal"))
    assert growth.at(100) == direct
    config = configs_of(rows[0])[0]
    first, other = plan_of(rows[0], config), plan_of(direct, config)
    assert [k.source for k in first.kernels] == [k.source for k in other.kernels]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("reduction 24x4 held=8", "do not meet in pairs"),
        ("reduction 32x4 held=2", "vectors of 96 are kept"),
        ("reduction 32x4 held=3 splits=2", "is read again"),
        ("reduction 8x2 held=12", "no whole warps"),
        ("reduction 128x1 splits=2", "do not share"),
        ("reduction 32x4 cluster=2", "keep what they share"),
        ("reduction 8x16 held=2 cluster=4", "vectors of 96 are kept"),
    ],
)
def test_a_config_that_is_none_says_why(config: str, reason: str) -> None:
    rows = rows_of(text_of((50, 768), (1,), "f16", "normal"))
    refused = REDUCTION.refusal(rows, REDUCTION.parse(config), DEFAULT_TARGET)
    assert refused is not None
    assert reason in refused.reason


def test_a_normalisation_reads_once_or_twice() -> None:
    rows = rows_of(text_of((64, 768), (1,), "f16", "normal"))
    assert rows.program.passes == 3
    assert rows.one_pass.program.passes == 2
    assert rows.width == 8
