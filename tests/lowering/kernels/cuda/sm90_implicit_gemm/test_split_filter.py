"""f32 in IEEE arithmetic as three products of TF32 by wgmma: which problems and configs, and its
code."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contraction_readings import reading
from conv_lines import NCHW, NHWC
from gpu import nvrtc_or_skip

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import Im2colMap, Pointer, Scalar, TensorMap
from convir.lowering.kernels.cuda.layout_conversion.copies import copied
from convir.lowering.kernels.cuda.sm90_implicit_gemm import candidates, launch
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import Sm90ImplicitGemmConfig
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import problem_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.toolchain.compile import kernel_usage

WINDOW = "conv -n 4 -c 64 -H 28 -W 28 -k 96 -y 3 -x 3 -p 1 -q 1 -F 1"
POINTS = "conv -n 4 -c 128 -H 28 -W 28 -k 96 -y 1 -x 1 -F 1"


def config_of(text: str) -> Sm90ImplicitGemmConfig:
    """The config of `TILE STAGES STORE`."""
    tile, stages, store = text.split()
    return Sm90ImplicitGemmConfig.parse(
        f"sm90_implicit_gemm {tile} stages={stages} schedule=cooperative store={store} blocks=132 "
        "products=3"
    )


def test_the_filter_is_split_before_and_a_stage_has_both_halves() -> None:
    found = reading(f"{WINDOW} {NHWC}")
    plan = launch.kernels(
        found.contraction, found.epilogue, config_of("128x64 6 32"), DEFAULT_TARGET
    )
    assert not isinstance(plan, Refusal), plan.reason
    split, multiply = plan.kernels
    elements = 96 * 9 * 64
    assert plan.workspace == (2 * elements * 4,)
    assert split.arguments == (Pointer("b"), Pointer("workspace"))
    assert split.grid[0] * split.block[0] >= elements
    b, a = (each for each in multiply.arguments if isinstance(each, TensorMap | Im2colMap))
    assert isinstance(b, TensorMap)
    assert (b.buffer, b.sizes[-1], b.strides[-1]) == (Pointer("workspace"), 2, elements * 4)
    assert b.box == (32, 1, 64, 1)
    assert not a.is_tf32
    assert not b.is_tf32
    # Results that are not finite are computed again from the operands.
    assert {Pointer("a"), Pointer("b")} <= {x for x in multiply.arguments if isinstance(x, Pointer)}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{WINDOW} {NCHW}", "channels are not innermost"),
        (f"{WINDOW.replace('-F 1', '-F 2')} {NHWC}", "input channels of B are not contiguous"),
        (f"{POINTS.replace('-c 128', '-c 64')} {NHWC}", "of 64 is shorter than 96"),
        (f"{WINDOW.replace('-c 64', '-c 40')} {NHWC}", "no multiples of 32"),
        (f"{WINDOW} -g 2 {NHWC}", "it has groups"),
    ],
)
def test_refusals(line: str, reason: str) -> None:
    found = reading(line)
    refused = candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"schedule": "pingpong"}, "cooperative whole tiles of 128 rows"),
        ({"splits": 2}, "cooperative whole tiles of 128 rows"),
        ({"block_m": 256}, "cooperative whole tiles of 128 rows"),
        ({"block_n": 160}, "kept twice, exceed the registers"),
    ],
)
def test_illegal_configs(changed: dict[str, int | str], reason: str) -> None:
    refused = replace(config_of("128x64 6 32"), **changed).refusal()  # pyright: ignore[reportArgumentType]
    assert refused is not None
    assert reason in refused.reason


def test_three_products_are_those_of_ieee_f32() -> None:
    found = reading(f"{WINDOW} {NHWC}")
    for spec, products in ((found.contraction, 3), (replace(found.contraction, tf32=True), 1)):
        right, wrong = (
            launch.kernels(
                spec,
                found.epilogue,
                replace(config_of("128x64 5 32"), products=each),
                DEFAULT_TARGET,
            )
            for each in (products, 4 - products)
        )
        assert not isinstance(right, Refusal), right.reason
        assert isinstance(wrong, Refusal)
        assert "three products are those of f32" in wrong.reason


def test_the_batch_is_an_argument() -> None:
    for line in (f"{WINDOW} {NHWC}", f"{POINTS} {NHWC}"):
        sources, scalars = set[str](), set[tuple[int, ...]]()
        for batch in (4, 9):
            found = reading(line.replace("-n 4", f"-n {batch}"))
            plan = launch.kernels(
                found.contraction, found.epilogue, config_of("128x64 6 32"), DEFAULT_TARGET
            )
            assert not isinstance(plan, Refusal), plan.reason
            kernel = plan.kernels[-1]
            sources.add(kernel.source)
            scalars.add(tuple(x.value for x in kernel.arguments if isinstance(x, Scalar)))
        assert len(sources) == 1
        assert len(scalars) == 2


def test_phases_are_in_the_order_of_the_tables() -> None:
    line = "conv -n 3 -c 64 -H 14 -W 12 -k 128 -y 4 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2"
    found = reading(f"{line} {NHWC}")
    spec, _ = copied(found.contraction, "b")
    problem = problem_of(spec)
    assert not isinstance(problem, Refusal), problem.reason
    plan = launch.kernels(spec, found.epilogue, config_of("128x64 6 32"), DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    _, _, elements = plan.kernels[-1].source.partition("struct Elements {")
    table = elements.partition("kPhase[] = {")[2].partition("kEpilogue")[0]
    taps = [int(row.split(", ")[1]) for row in table.strip().splitlines() if "{" in row]
    assert taps == [len(phase.taps) for phase in problem.phases]
    assert len(set(taps)) > 1


@pytest.mark.parametrize("line", [f"{WINDOW} {NHWC}", f"{POINTS} {NHWC}"])
@pytest.mark.parametrize("config", ["128x128 4 32", "128x96 5 32", "128x64 6 32", "128x32 8 32"])
def test_kernels_compile_without_spills_or_waits_between_products(line: str, config: str) -> None:
    nvrtc_or_skip()
    found = reading(line)
    plan = launch.kernels(found.contraction, found.epilogue, config_of(config), DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    for kernel in plan.kernels:
        usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
        assert not usage.spill_bytes
        assert not usage.is_serial
