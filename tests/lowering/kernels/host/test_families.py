"""Every family of the host keeps the protocol: what it considers parses, predicts and launches."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING

import pytest
from host_kernels import TARGETS
from xdsl.passes import PassPipeline

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import module_of_line
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.host.launch import HostLaunch
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.registry import (
    CONTRACTIONS,
    FAMILIES,
    ON_TILES,
    families_of,
    plan_kernel,
)
from convir.lowering.kernels.host.target import named, target
from convir.lowering.pipeline import lowering_passes
from convir.passes import run

if TYPE_CHECKING:
    from convir.lowering.kernels.host.family import HostFamily

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
LINES = {
    "fprop": f"conv -n 2 -c 20 -H 9 -W 9 -k 24 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}",
    "dgrad": f"conv -n 2 -c 20 -H 9 -W 9 -k 24 -y 1 -x 1 -p 0 -q 0 -u 2 -v 2 -F 2 {NHWC}",
    "wgrad": f"conv -n 2 -c 20 -H 9 -W 9 -k 24 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}",
    "depthwise": "conv -n 2 -c 20 -H 9 -W 19 -k 20 -y 3 -x 3 -p 1 -q 1 -g 20 -F 1",
    "depthwise, channels last": (
        f"conv -n 2 -c 20 -H 9 -W 19 -k 20 -y 3 -x 3 -p 1 -q 1 -g 20 -F 1 {NHWC}"
    ),
    "narrow planes": "conv -n 2 -c 20 -H 9 -W 5 -k 20 -y 3 -x 3 -p 1 -q 1 -g 20 -F 1",
    "fprop of bf16": f"convbfp16 -n 2 -c 20 -H 9 -W 9 -k 24 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}",
    "wgrad of bf16": f"convbfp16 -n 4 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}",
    "chain": "conv --spatial_dim 1 -n 1 -c 8 -W 64 -k 8 -x 3 -q 1 -F 1",
}


AMX, VECTORS = target("x86-64-v4-amx"), target("x86-64-v3")


def bodies(name: str) -> list[KernelBody]:
    """The kernels of a line for the host."""
    module = run(module_of_line(parse_line(LINES[name])), "default").module
    PassPipeline(lowering_passes("host")).apply(new_context(), module)
    return [KernelBody(op) for op in module.walk() if isinstance(op, kernel.FuncOp)]


@pytest.mark.parametrize("cpu", [*TARGETS, "x86-64-v4-amx"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_what_a_family_takes_it_predicts_and_launches(family: HostFamily, cpu: str) -> None:
    taken = 0
    for name in LINES:
        for body in bodies(name):
            problem = family.problem(body, target(cpu))
            if isinstance(problem, Refusal):
                assert problem.reason
                continue
            configs = family.candidates(problem, target(cpu))
            assert not isinstance(configs, Refusal)
            for config in configs:
                assert family.parse(str(config)) == config
                assert str(config).partition(" ")[0] == family.name
                assert 0 < family.predict(problem, config, target(cpu)) < inf
                assert family.refusal(problem, config, target(cpu)) is None
                launch = family.launch(problem, config, target(cpu))
                if isinstance(launch, HostLaunch):
                    assert all(
                        f"@{entry}" in launch.ir.replace('"', "") for entry in launch.entries
                    )
                taken += 1
    takes_others = family.name in ("attention", "gemm", "pooling", "reduction", "scatter")
    assert taken or takes_others or (family in ON_TILES and not target(cpu).tiles)


@pytest.mark.parametrize("line", ["fprop of bf16", "wgrad of bf16"])
def test_a_config_for_tile_registers_stands_for_vectors_elsewhere(line: str) -> None:
    found = [
        (body, family.name)
        for body in bodies(line)
        for family in ON_TILES
        if not isinstance(family.problem(body, AMX), Refusal)
    ]
    ((body, config),) = found
    on_tiles, on_vectors = (plan_kernel(body, config, cpu) for cpu in (AMX, VECTORS))
    assert isinstance(on_tiles, HostLaunch)
    assert isinstance(on_vectors, HostLaunch)
    assert "ldtilecfg" in on_tiles.ir
    assert "ldtilecfg" not in on_vectors.ir


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("text", ["", "nothing", "loops 1", "planar vectors=4", "wgrad x=1"])
def test_what_is_no_config_is_refused(family: HostFamily, text: str) -> None:
    with pytest.raises(ValueError, match=r"config"):
        family.parse(text)


def test_another_family_stands_in_on_another_cpu(caplog: pytest.LogCaptureFixture) -> None:
    (body,) = bodies("narrow planes")
    narrow, wide = target("x86-64"), target("x86-64-v4")
    with caplog.at_level(logging.INFO):
        on_narrow = plan_kernel(body, "direct-depthwise", narrow)
        assert not caplog.records
        on_wide = plan_kernel(body, "direct-depthwise", wide)
    assert "implicit-gemm instead of direct-depthwise" in caplog.text
    assert isinstance(on_narrow, HostLaunch)
    assert isinstance(on_wide, HostLaunch)
    assert not on_narrow.workspace
    assert on_wide.workspace


@pytest.mark.parametrize(("line", "family"), [("fprop", 1), ("wgrad", 2), ("depthwise", 0)])
def test_the_config_of_all_contractions_still_parses(line: str, family: int) -> None:
    assert families_of("contraction") == CONTRACTIONS
    for body in bodies(line):
        if isinstance(body.contraction, Refusal):
            continue
        cpu = target("x86-64-v3")
        assert plan_kernel(body, "contraction", cpu) == plan_kernel(
            body, CONTRACTIONS[family].name, cpu
        )


def test_an_unknown_config_is_refused_with_its_name() -> None:
    (body, *_) = bodies("fprop")
    refusal = plan_kernel(body, "template", target())
    assert isinstance(refusal, Refusal)
    assert "'template'" in refusal.reason


@pytest.mark.parametrize(
    "name", ["x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx", "arm64"]
)
def test_every_cpu_has_its_rates(name: str) -> None:
    cpu = named(name)
    assert cpu.l1_bytes < cpu.l2_bytes < cpu.l3_bytes
    assert cpu.traffic_us(cpu.l2_bytes) < cpu.traffic_us(2 * cpu.l2_bytes)
    assert cpu.traffic_us(cpu.l3_bytes) < cpu.traffic_us(2 * cpu.l3_bytes)
