"""What compiling one convolution for the host imports; each test is a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from gpu import nvrtc_or_skip

if TYPE_CHECKING:
    from pathlib import Path

NOT_FOR_THE_HOST = (
    "convir.cli",
    "convir.lowering.kernels.registry",
    "convir.runtime.bench",
    "convir.reference.checking.check",
    "convir.runtime.cuda",
    "convir.reference.interpreter",
    "cupy",
    "hypothesis",
    "onnx",
    "onnxruntime",
    "rich",
    "torch",
    "xdsl.interpreter",
    "xdsl.transforms.canonicalization_patterns",
)

NOT_FOR_A_GPU = (
    "convir.cli",
    "convir.lowering.kernels.host.loops",
    "convir.lowering.kernels.host.registry",
    "convir.lowering.loops.llvm",
    "convir.runtime.host.jit",
    "hypothesis",
    "llvmlite",
    "onnx",
    "rich",
    "torch",
)

COMPILE = """
import gc, sys
from convir.api.compile import compile
text = '''
func.func @main(%x: tensor<1x6x6x8xf32>, %w: tensor<8x3x3x8xf32>) -> tensor<1x4x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<1x4x4x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC)
    ins(%x, %w : tensor<1x6x6x8xf32>, tensor<8x3x3x8xf32>) outs(%init : tensor<1x4x4x8xf32>)
  func.return %y : tensor<1x4x4x8xf32>
}'''
"""


def run(text: str, cache: Path) -> str:
    """What the process prints that has compiled a convolution and then runs `text`."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", COMPILE + text],
        capture_output=True,
        text=True,
        env={**os.environ, "CONVIR_CACHE_DIR": str(cache)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_cold_compile_imports_nothing_of_what_it_does_not_run(tmp_path: Path) -> None:
    report = f"print([name for name in {NOT_FOR_THE_HOST!r} if name in sys.modules])"
    assert run('compile(text, device="host")\n' + report, tmp_path) == "[]\n"


def test_a_cold_compile_for_a_gpu_imports_nothing_of_the_host(tmp_path: Path) -> None:
    nvrtc_or_skip()
    plan = """
from convir.api.compile import Job
from convir.api.sources import source_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.devices import CUDA, Device
Job(source_of(text, (), 1.0), None, "default", Device(CUDA, 0, DEFAULT_TARGET)).plan()
"""
    report = f"print([name for name in {NOT_FOR_A_GPU!r} if name in sys.modules])"
    assert run(plan + report, tmp_path) == "[]\n"


def test_methods_that_nothing_called_are_not_made(tmp_path: Path) -> None:
    report = """
compile(text, device="host")
import dataclasses
from convir.dialects.compat import startup
def waits(owner):
    return owner.__init__.__code__.co_filename == startup.__file__
from convir.passes.manager.remarks import Remark
assert waits(Remark) or sys.version_info >= (3, 13)
@dataclasses.dataclass
class Mine:
    x: int
assert not waits(Mine)
"""
    run(report, tmp_path)


def test_garbage_is_collected_as_before(tmp_path: Path) -> None:
    report = """
assert gc.isenabled()
compile(text, device="host")
assert gc.isenabled() and not gc.get_freeze_count()
"""
    run(report, tmp_path)
    report = """
gc.disable()
gc.freeze()
compile(text, device="host")
assert not gc.isenabled() and gc.get_freeze_count()
"""
    run(report, tmp_path / "other")


def test_garbage_is_bounded(tmp_path: Path) -> None:
    report = """
import convir.api.compile as module
collected = []
gc.callbacks.append(lambda phase, info: collected.append((phase, info["generation"])))
collected.clear()
module._GARBAGE.leave()
assert not collected
module.MOST_GARBAGE = 0
kept = [[] for _ in range(10)]
module._GARBAGE.leave()
assert collected == [("start", 2), ("stop", 2)], collected
"""
    run("gc.disable()\n" + report, tmp_path)
