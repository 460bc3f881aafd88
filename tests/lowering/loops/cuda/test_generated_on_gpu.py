"""Generated kernels on a GPU: long rows, arrays that begin anywhere, teams, tiles."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpu import cupy_or_skip
from host_kernels import assert_same, poisoned, program_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs.kernels import random_kernels

from convir.api.compile import compile as convir_compile
from convir.dialects.context import read_module
from convir.reference import evaluate
from convir.runtime.executable import Executable
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from random_programs.function import RandomFunction

pytestmark = pytest.mark.gpu


# Each example compiles a kernel: parts, so that several processes share them.
@pytest.mark.parametrize("part", range(8))
@given(drawn=random_kernels(vectors=True), seed=st.integers(0, 1 << 16))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_kernels_are_their_bodies(part: int, drawn: RandomFunction, seed: int) -> None:
    cupy = cupy_or_skip()
    from convir.runtime.cuda.device import CudaProgram  # noqa: PLC0415  (needs a GPU)

    text = program_text(
        drawn.text("kernel.func", "k"),
        [v.buffer for v in drawn.inputs],
        [v.buffer for v in drawn.results],
    )
    module = read_module(text)
    arguments = drawn.arguments(seed)
    with np.errstate(all="ignore"):
        expected = evaluate(module, "main", arguments)
    executable = Executable(CudaProgram(read_program(module)))
    outputs = [cupy.asarray(poisoned(spec.shape, spec.dtype)) for spec in executable.outputs]
    executable(*map(cupy.asarray, arguments), out=outputs)
    for i, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        assert_same(cupy.asnumpy(got), wanted, f"result {i} of\n{drawn.text('kernel.func', 'k')}")


DOUBLED = """
kernel.func @double(%x: tensor<6x64xf16>) -> tensor<6x64xf16> {
  %0 = arith.addf %x, %x : tensor<6x64xf16>
  kernel.return %0 : tensor<6x64xf16>
}
func.func @main(%raw: memref<392xf16>, %y: memref<6x64xf16>) attributes {rt.program} {
  %x = rt.view %raw[START] : memref<392xf16> to memref<6x64xf16>
  rt.launch @double ins(%x : memref<6x64xf16>) outs(%y : memref<6x64xf16>)
  func.return
}"""


@pytest.mark.parametrize("start", [0, 1, 4, 8])
def test_views_that_begin_anywhere(start: int, caplog: pytest.LogCaptureFixture) -> None:
    cupy: Any = cupy_or_skip()
    text = DOUBLED.replace("START", str(2 * start))
    executable = convir_compile(text, pipeline="", device="cuda")
    raw = cupy.arange(6 * 64 + 8, dtype="f2") % 50
    out = cupy.full((6, 64), cupy.nan, "f2")
    with caplog.at_level(logging.WARNING):
        executable(raw, out=out)
    x = raw[start : start + 6 * 64].reshape(6, 64)
    assert bool((out == x + x).all())
    is_slow = "does not begin at a multiple of 16 bytes" in caplog.text
    assert is_slow == (start % 8 != 0)


@pytest.mark.parametrize(
    ("shape", "kept"),
    [((37, 1024), (0,)), ((9, 24576), (0,)), ((1 << 17,), ()), ((65536, 24), (1,))],
)
def test_sums_by_teams(shape: tuple[int, ...], kept: tuple[int, ...]) -> None:
    cupy: Any = cupy_or_skip()
    loops = [f"d{i}" for i in range(len(shape))]
    source = f"tensor<{''.join(f'{size}x' for size in shape)}f32>"
    result = f"tensor<{''.join(f'{shape[i]}x' for i in kept)}f32>"
    kinds = ", ".join('"parallel"' if i in kept else '"reduction"' for i in range(len(shape)))
    text = f"""
func.func @main(%x: {source}) -> {result} {{
  %z = arith.constant dense<1.0> : {result}
  %0 = linalg.generic {{indexing_maps = [
      affine_map<({", ".join(loops)}) -> ({", ".join(loops)})>,
      affine_map<({", ".join(loops)}) -> ({", ".join(loops[i] for i in kept)})>],
      iterator_types = [{kinds}]}} ins(%x : {source}) outs(%z : {result}) {{
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %o, %a : f32
    linalg.yield %1 : f32
  }} -> {result}
  return %0 : {result}
}}"""
    x = np.random.default_rng(0).integers(-3, 4, shape).astype("f4")
    out = cupy.full(tuple(shape[i] for i in kept), cupy.nan, "f4")
    convir_compile(text, pipeline="", device="cuda")(cupy.asarray(x), out=out)
    expected = 1 + x.sum(tuple(i for i in range(len(shape)) if i not in kept))
    assert np.array_equal(cupy.asnumpy(out), expected)
