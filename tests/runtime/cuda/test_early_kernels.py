"""Kernels that are compiled while their program is lowered: the same plan, each compiled once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from gpu import compiled_sources, nvrtc_or_skip
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.structural_keys import forget_bodies
from convir.api.build import Build, Early
from convir.api.sources import source_of
from convir.dialects.kernel.ops import FuncOp, RegionOp
from convir.lowering.implementations import LOOPS, config_of
from convir.lowering.kernels import registry
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cache import object_cache
from convir.runtime.compile_error import CompileError
from convir.runtime.cuda import planner
from convir.runtime.cuda.early_kernels import EarlyKernels
from convir.runtime.cuda.planner import plan_program
from convir.runtime.cuda.toolchain import compile as toolchain
from convir.runtime.devices import CUDA, Device

if TYPE_CHECKING:
    from pathlib import Path

    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target
    from convir.runtime.program import Program

TWICE = """
func.func @main(%x: tensor<1x9x9x64xf16>, %w: tensor<64x3x3x64xf16>, %v: tensor<64x3x3x64xf16>)
    -> (tensor<1x9x9x64xf16>, tensor<1x9x9x64xf16>) {
  %i = arith.constant dense<0.0> : tensor<1x9x9x64xf16>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32)
    ins(%x, %w : tensor<1x9x9x64xf16>, tensor<64x3x3x64xf16>) outs(%i : tensor<1x9x9x64xf16>)
  %z = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32)
    ins(%y, %v : tensor<1x9x9x64xf16>, tensor<64x3x3x64xf16>) outs(%i : tensor<1x9x9x64xf16>)
  %s = math.sqrt %x : tensor<1x9x9x64xf16>
  func.return %z, %s : tensor<1x9x9x64xf16>, tensor<1x9x9x64xf16>
}"""
"""One kernel for two convolutions, and loops."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc_or_skip()
    monkeypatch.setenv(object_cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    forget_bodies()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that NVRTC gets from now on."""
    return compiled_sources(monkeypatch)


def lowered(early: Early | None = None) -> Program:
    device = Device(CUDA, 0, DEFAULT_TARGET)
    build = Build(source_of(TWICE, (), 1.0), None, "default", device, None)
    return build.program(early=early)


def test_kernels_are_compiled_while_their_program_is_lowered(compiled: list[str]) -> None:
    told: list[tuple[int, int]] = []

    def tell(done: int, count: int) -> None:
        told.append((done, count))

    with EarlyKernels(DEFAULT_TARGET) as early:
        plan = early.plan(lowered(early), tell)
    late = plan_program(lowered(), DEFAULT_TARGET)
    assert (plan.steps, plan.sources) == (late.steps, late.sources)
    convolution, loops = plan.sources
    assert compiled == [convolution, loops]
    assert set(plan.cubins) == {convolution, loops}
    assert told == [(1, 2), (2, 2)]


def test_no_kernel_waits_for_the_plan(compiled: list[str]) -> None:
    with EarlyKernels(DEFAULT_TARGET) as early:
        program = lowered(early)
    assert set(compiled) == set(plan_program(program, DEFAULT_TARGET).sources)


def test_loops_without_code_are_an_error_of_the_plan_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> KernelPlan:
        raise PassFailedException("no loops")

    monkeypatch.setattr(planner, "plan_loops", refused)
    with EarlyKernels(DEFAULT_TARGET) as early:
        program = lowered(early)
        with pytest.raises(PassFailedException, match="no loops"):
            early.plan(program)


def test_each_region_is_told_as_soon_as_it_has_its_config() -> None:
    class Told:
        def __init__(self) -> None:
            self.configs: list[str | None] = []

        def chosen(self, region: RegionOp) -> None:
            self.configs.append(config_of(region, CUDA))

        def outlined(self, module: ModuleOp) -> None:
            functions = [op for op in module.ops if isinstance(op, FuncOp)]
            assert {config_of(op, CUDA) for op in functions} == set(self.configs)

    told = Told()
    lowered(told)
    assert len(told.configs) == 3
    assert told.configs[0] == told.configs[1] != told.configs[2] == LOOPS


def test_what_nvrtc_refuses_is_an_error_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def flags(*_: Any) -> tuple[str, ...]:
        return ("--no-such-option",)

    monkeypatch.setattr(toolchain, "_flags", flags)
    with EarlyKernels(DEFAULT_TARGET) as early:
        program = lowered(early)
        with pytest.raises(CompileError, match="NVRTC refuses"):
            early.plan(program)


def test_what_is_launched_again_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program = lowered()
    forget_bodies()
    planned: list[str] = []
    launches = registry.launches_of

    def counted(config: str, gpu: Target) -> Any:
        planned.append(config)
        return launches(config, gpu)

    monkeypatch.setattr(registry, "launches_of", counted)
    assert len(plan_program(program, DEFAULT_TARGET).steps) == 3
    assert len(planned) == 1
