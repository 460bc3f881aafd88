"""What is selected on the host is what is predicted to take least, of all families and configs."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import module_of_line
from convir.frontends.miopen import parse_line
from convir.lowering.buffers.convert_to_rt import ConvertToRtPass
from convir.lowering.kernels.host.family import OnlyConfig
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.registry import FAMILIES, choose, rank
from convir.lowering.kernels.host.target import NAMES, named, register_files, target
from convir.lowering.kernels.ranking import Prediction, Ranking
from convir.lowering.kernels.target import DEFAULT_TARGET, names
from convir.lowering.kernels.target import named as gpu_named
from convir.lowering.pipeline import lowering_passes
from convir.lowering.selection import gpu_option
from convir.lowering.selection.gpu_option import target_of, todays_option
from convir.lowering.selection.select_kernels import SelectKernelsPass
from convir.passes import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.passes import ModulePass

    from convir.lowering.kernels.host.target import CpuTarget

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
PRODUCT = f"conv -n 1 -c 64 -H 14 -W 14 -k 64 -y 1 -x 1 -F 1 {NHWC}"
GROUPED = f"conv -n 1 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -g 16 -F 1 {NHWC}"
CHANNELS_LAST = f"conv -n 1 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -g 64 -F 1 {NHWC}"
DEPTHWISE = "conv -n 1 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -g 64 -F 1"
TINY = "conv -n 2 -c 1 -H 16 -W 16 -k 1 -y 1 -x 1 -u 2 -v 2 -F 4"
LINES = (PRODUCT, GROUPED, CHANNELS_LAST, DEPTHWISE, TINY)
CPU = target("x86-64-v3")


def body(line: str) -> KernelBody:
    """The only kernel of a line."""
    module = run(module_of_line(parse_line(line)), "default").module
    PassPipeline(lowering_passes("host")).apply(new_context(), module)
    (function,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    return KernelBody(function)


@pytest.mark.parametrize(
    "cpu", ["x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx"]
)
@pytest.mark.parametrize("line", LINES)
def test_the_least_prediction_is_chosen(line: str, cpu: str) -> None:
    given = body(line)
    best: dict[str, float] = {}
    for family in FAMILIES:
        problem = family.problem(given, target(cpu))
        if isinstance(problem, Refusal):
            continue
        configs = family.candidates(problem, target(cpu))
        assert not isinstance(configs, Refusal)
        best[family.name] = min(family.predict(problem, c, target(cpu)) for c in configs)
    choice = choose(given, target(cpu))
    assert not isinstance(choice, Refusal)
    assert choice.us == min(best.values())
    assert choice.runner_up is not None
    own = str(choice.config).partition(" ")[0]
    assert choice.runner_up.us == min(us for name, us in best.items() if name != own)


@pytest.mark.parametrize(
    ("line", "family"),
    [
        (PRODUCT, "implicit-gemm"),
        (GROUPED, "implicit-gemm"),
        (CHANNELS_LAST, "depthwise-channels-last"),
        (DEPTHWISE, "direct-depthwise"),
        (TINY, "loops"),
    ],
)
def test_what_was_measured_to_be_fastest_is_chosen(line: str, family: str) -> None:
    choice = choose(body(line), CPU)
    assert not isinstance(choice, Refusal)
    assert str(choice.config) == family


def test_loops_and_libraries_are_compared_like_families() -> None:
    ranked = rank(body(PRODUCT), CPU)
    assert {each.family for each in ranked.predictions} == {"implicit-gemm", "gemm", "loops"}
    assert [each.us for each in ranked.predictions] == sorted(e.us for e in ranked.predictions)


def test_families_that_may_not_be_used_say_so() -> None:
    given = body(PRODUCT)
    choice = choose(given, CPU, ["implicit-gemm"])
    assert not isinstance(choice, Refusal)
    assert str(choice.config) == "gemm"
    assert "not implicit-gemm: it is not to be used" in choice.refused
    nothing = choose(given, CPU, [family.name for family in FAMILIES])
    assert isinstance(nothing, Refusal)
    assert "not loops: it is not to be used" in nothing.reason


def test_the_next_config_stands_in_for_one_that_is_not_legal() -> None:
    predictions = [Prediction(name, OnlyConfig(name), us) for name, us in (("a", 2.0), ("b", 1.0))]
    ranking = Ranking.of(predictions, ["not c: it is red"])
    choice = ranking.choice(lambda best: Refusal("no room") if best.family == "b" else None)
    assert not isinstance(choice, Refusal)
    assert str(choice.config) == "a"
    assert choice.refused == ("not c: it is red", "not 'b': no room")
    assert choice.runner_up is not None
    refused = ranking.choice(lambda best: Refusal("no room"))
    assert isinstance(refused, Refusal)
    assert refused.reason == "not c: it is red; not 'b': no room; not 'a': no room"


def test_constant_weights_are_packed_once() -> None:
    given = body(f"conv -n 1 -c 500 -H 1 -W 4 -k 500 -y 1 -x 1 -F 1 {NHWC}")
    constant = replace(given, constants=(0, 1))
    times = [
        next(e.us for e in rank(each, CPU).predictions if e.family == "implicit-gemm")
        for each in (given, constant)
    ]
    assert times[1] < times[0]


def test_register_files_are_those_of_every_target() -> None:
    """A program's workspace is planned for these: what readings and tiles depend on is in them."""

    def file(cpu: CpuTarget) -> tuple[object, ...]:
        registers = cpu.vector_bits, cpu.vector_registers, cpu.fma
        return *registers, cpu.bf16_dot, cpu.tiles, cpu.multiply_adds

    files = {file(cpu) for cpu in register_files()}
    for name in (*NAMES, "arm64"):
        assert file(named(name)) in files


@pytest.mark.parametrize("step", [SelectKernelsPass, ConvertToRtPass])
@pytest.mark.parametrize("given", [None, "x86-64-v3", str(DEFAULT_TARGET)])
def test_printed_options_parse_again(
    step: type[SelectKernelsPass | ConvertToRtPass], given: str | None
) -> None:
    made = step(target=given)
    known: dict[str, Callable[[], type[ModulePass]]] = {step.name: lambda: step}
    text = str(made.pipeline_pass_spec(include_default=True))
    assert PassPipeline.parse_spec(known, text).passes == (made,)


def test_a_target_is_a_cpu_or_a_gpu() -> None:
    assert target_of("host", None) == target("host")
    assert target_of("host", "x86-64") == target("x86-64")
    assert target_of("cuda", None) == DEFAULT_TARGET
    for name in names():
        assert target_of("cuda", name) == gpu_named(name)
        assert target_of("cuda", str(gpu_named(name))) == gpu_named(name)
    with pytest.raises(PassFailedException, match="unknown GPU target 'host': one of h200"):
        target_of("cuda", "host")
    with pytest.raises(PassFailedException, match="unknown CPU target 'h200': one of x86-64"):
        target_of("host", "h200")


def test_the_older_spelling_of_a_target_is_noted_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_option, "_noted", set[str]())
    with caplog.at_level(logging.WARNING):
        assert todays_option("cuda", None, "h200") == "h200"
        assert todays_option("cuda", "a100", "h200") == "a100"
        assert todays_option("host", None, str(DEFAULT_TARGET)) is None
        assert todays_option("host", "x86-64", None) == "x86-64"
    assert caplog.messages == ["option 'gpu=...' is an older spelling of 'target=...'"]
