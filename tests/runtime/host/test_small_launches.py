"""A launch that is done before another thread would have begun stays on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from convir.api.compile import compile as convir_compile
from convir.runtime.host import planner
from convir.runtime.host.device import HostProgram
from convir.runtime.host.plan import KernelLaunch
from convir.runtime.host.planner import is_done_at_once

if TYPE_CHECKING:
    from convir.lowering.kernels.host.launch import Stage
    from convir.lowering.kernels.host.target import CpuTarget

pytestmark = pytest.mark.fast

ADD = """
func.func @main(%x: tensor<NxMxf32>) -> tensor<NxMxf32> {
  %0 = arith.addf %x, %x : tensor<NxMxf32>
  func.return %0 : tensor<NxMxf32>
}"""


def text(template: str, m: int, n: int) -> str:
    pairs = {"Mx": f"{m}x", "Nx": f"{n}x"}
    for letter, size in pairs.items():
        template = template.replace(letter, size)
    return template


def launches(source: str) -> list[KernelLaunch]:
    program = convir_compile(source, pipeline="", device="host")._compiled  # pyright: ignore[reportPrivateUsage]
    assert isinstance(program, HostProgram)
    return [step for step in program.plan.steps if isinstance(step, KernelLaunch)]


def never(stage: Stage, cpu: CpuTarget) -> bool:
    del stage, cpu
    return False


@pytest.fixture(autouse=True)
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "is_done_at_once", is_done_at_once)


@pytest.mark.parametrize(("m", "n", "alone"), [(4, 4, True), (0, 9, True), (400, 400, False)])
def test_elementwise(m: int, n: int, alone: bool) -> None:
    source = text(ADD, m, n)
    assert [launch.alone for launch in launches(source)] == [alone]
    x = np.ones((n, m), np.float32)
    np.testing.assert_array_equal(convir_compile(source, device="host")(x), x + x)


def test_the_count_is_of_all_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (launches(text(ADD, 4, size)) for size in (4, 40_000))
    assert short[0].alone
    assert not long[0].alone
    monkeypatch.setattr(planner, "is_done_at_once", never)
    assert not launches(text(ADD, 4, 4))[0].alone
