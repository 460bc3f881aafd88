"""Kernels of one program that differ in sizes alone share their code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from convir.api.build import Build
from convir.api.compile import compile as convir_compile
from convir.api.sources import source_of
from convir.lowering.kernels.host.launch import HostLaunch, Stage
from convir.lowering.kernels.host.loops.launch import LoopCode
from convir.lowering.kernels.host.target import target
from convir.runtime.compile_threads import SWITCH_SECONDS
from convir.runtime.devices import HOST, Device
from convir.runtime.host.device import HostProgram
from convir.runtime.host.kernel_codes import KernelCodes
from convir.runtime.host.plan import KernelLaunch
from convir.runtime.host.planner import EarlyKernels, plan_program

if TYPE_CHECKING:
    from pathlib import Path

    from convir.runtime.executable import Executable

CONV = """
func.func @main({arguments}) -> ({results}) {{
{body}
  func.return {values} : {results}
}}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path))


def text(channels: list[int]) -> str:
    """A 1x1 convolution for each number of input channels, to 48 channels each."""
    arguments: list[str] = []
    body: list[str] = []
    out = "tensor<1x9x9x48xf32>"
    for i, c in enumerate(channels):
        x, w = f"tensor<1x9x9x{c}xf32>", f"tensor<1x1x{c}x48xf32>"
        arguments += [f"%x{i}: {x}", f"%w{i}: {w}"]
        body += [
            f"  %z{i} = arith.constant dense<0.0> : {out}",
            (
                f"  %y{i} = linalg.conv_2d_nhwc_hwcf {{dilations = dense<1> : tensor<2xi64>, "
                f"strides = dense<1> : tensor<2xi64>}} "
                f"ins(%x{i}, %w{i} : {x}, {w}) outs(%z{i} : {out}) -> {out}"
            ),
        ]
    return CONV.format(
        arguments=", ".join(arguments),
        results=", ".join([out] * len(channels)),
        body="\n".join(body),
        values=", ".join(f"%y{i}" for i in range(len(channels))),
    )


def launches(executable: Executable) -> list[KernelLaunch]:
    program = executable._compiled  # pyright: ignore[reportPrivateUsage]
    assert isinstance(program, HostProgram)
    return [step for step in program.plan.steps if isinstance(step, KernelLaunch)]


def test_layers_of_many_sizes_share_code_and_compute_their_own():
    channels = [64, 96, 160, 224]
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(-4, 5, shape).astype(np.float32)
        for c in channels
        for shape in ((1, 9, 9, c), (1, 1, c, 48))
    ]
    source = text(channels)
    for executable in (  # compiled, and from the cache
        convir_compile(source, device="host"),
        convir_compile(source, device="host"),
    ):
        found = launches(executable)
        assert len(found) >= len(channels)
        assert len({each.code for each in found}) < len(channels)
        for i, result in enumerate(executable(*inputs)):
            x, w = inputs[2 * i], inputs[2 * i + 1]
            np.testing.assert_array_equal(result, x @ w[0, 0])


def test_packing_is_shared_by_kernels_that_compute_otherwise():
    source = """
func.func @main(
    %x: tensor<1x9x9x64xf32>, %v: tensor<48x64x1x1xf32>, %w: tensor<80x48x1x1xf32>
) -> tensor<1x9x9x80xf32> {
  %zero = arith.constant dense<0.0> : tensor<1x9x9x48xf32>
  %y = conv.fprop layouts(NHWC, KCRS, NHWC)
    ins(%x, %v : tensor<1x9x9x64xf32>, tensor<48x64x1x1xf32>) outs(%zero : tensor<1x9x9x48xf32>)
  %r = arith.maximumf %y, %zero : tensor<1x9x9x48xf32>
  %init = arith.constant dense<0.0> : tensor<1x9x9x80xf32>
  %z = conv.fprop layouts(NHWC, KCRS, NHWC)
    ins(%r, %w : tensor<1x9x9x48xf32>, tensor<80x48x1x1xf32>) outs(%init : tensor<1x9x9x80xf32>)
  func.return %z : tensor<1x9x9x80xf32>
}"""
    rng = np.random.default_rng(0)
    shapes = ((1, 9, 9, 64), (48, 64, 1, 1), (80, 48, 1, 1))
    x, v, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
    executable = convir_compile(source, pipeline="convert-conv-to-linalg", device="host")
    np.testing.assert_array_equal(
        executable(x, v, w), np.maximum(x @ v[..., 0, 0].T, 0) @ w[..., 0, 0].T
    )
    packing, first, packing_too, second = launches(executable)
    assert packing.code == packing_too.code
    assert len({packing.code, first.code, second.code}) == 3


def test_contractions_are_compiled_while_their_program_is_lowered():
    build = Build(source_of(text([64, 96, 160]), (), 1.0), None, "default", Device(HOST), None)
    with EarlyKernels(target()) as early:
        program = build.program(early=early)
        assert len(early.launches) == len(early.placed) == 3
        plan = plan_program(program, target(), early)
    late = plan_program(build.program(), target())
    assert (plan.codes, plan.steps, plan.numbers) == (late.codes, late.steps, late.numbers)


def test_kernels_without_different_numbers_get_no_pointer():
    codes = KernelCodes(target())
    ir = """define void @{}(ptr %args, i64 %begin, i64 %end, i64 %worker) {{
  ret void
}}
"""
    launches = [HostLaunch(LoopCode(ir.format(name)), (Stage(name, 1, ()),)) for name in ("f", "g")]
    with codes:
        placed = codes.add_kernels(launches)
        (code,) = codes.compiled()
    assert [each.numbers for each in placed] == [None, None]
    assert [each.entries for each in placed] == [{"f": code.exports[0]}, {"g": code.exports[0]}]
    assert codes.numbers == []


def test_the_switch_interval_comes_back_with_the_last_that_compiles():
    before = sys.getswitchinterval()
    first, second = KernelCodes(target()), KernelCodes(target())
    with first:
        with second:
            assert sys.getswitchinterval() <= before
        assert sys.getswitchinterval() == pytest.approx(min(before, SWITCH_SECONDS))
    assert sys.getswitchinterval() == pytest.approx(before)
