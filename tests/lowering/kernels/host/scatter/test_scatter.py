"""The host's scatter kernel against NumPy: any strides and alignment, around caches or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.passes import PassPipeline

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.host.scatter import problem as scatter_problem
from convir.lowering.kernels.host.scatter.problem import read_scatter
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.runtime.executable import Executable
from convir.runtime.host.device import HostProgram
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from collections.abc import Sequence

from host_kernels import TARGETS, runnable

GUARD = 64
GENERIC = "convert-strided-insert-slice-to-generic"


@dataclass(frozen=True)
class Case:
    sizes: tuple[int, ...]
    offsets: tuple[int, ...]
    strides: tuple[int, ...]
    behind: tuple[int, ...]
    """Positions behind the last one that is written."""
    dtype: str = "f32"

    @property
    def result(self) -> tuple[int, ...]:
        lines = zip(self.sizes, self.offsets, self.strides, self.behind, strict=True)
        return tuple(o + (n - 1) * s + 1 + b for n, o, s, b in lines)

    @property
    def text(self) -> str:
        def joined(numbers: Sequence[int]) -> str:
            return ", ".join(map(str, numbers))

        source = f"tensor<{'x'.join(map(str, self.sizes))}x{self.dtype}>"
        result = f"tensor<{'x'.join(map(str, self.result))}x{self.dtype}>"
        return f"""func.func @main(%x: {source}) -> {result} {{
  %zeros = arith.constant dense<0.0> : {result}
  %s = tensor.insert_slice %x into %zeros[{joined(self.offsets)}] [{joined(self.sizes)}]
    [{joined(self.strides)}] : {source} into {result}
  return %s : {result}
}}"""

    @property
    def slices(self) -> tuple[slice, ...]:
        lines = zip(self.sizes, self.offsets, self.strides, strict=True)
        return tuple(slice(o, o + (n - 1) * s + 1, s) for n, o, s in lines)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    outer = draw(st.integers(1, 3))
    # Runs of a few vectors, and tails that are no whole vector of any CPU.
    run = draw(st.sampled_from([16, 17, 33, 64, 320]))
    sizes = (*(draw(st.integers(1, 4)) for _ in range(outer)), run)
    offsets = (*(draw(st.integers(0, 2)) for _ in range(outer)), 0)
    strides = (*(draw(st.integers(1, 3)) for _ in range(outer)), 1)
    behind = (*(draw(st.integers(0, 2)) for _ in range(outer)), 0)
    return Case(sizes, offsets, strides, behind, draw(st.sampled_from(["f32", "f64"])))


def run_case(case: Case, cpu: str, pipeline: str, shift: int, stream_bytes: int) -> bool:
    """Compare with NumPy; returns whether the scatter kernel was used."""
    wanted_cpu = runnable(cpu)
    if wanted_cpu is None:
        return False
    module = run(read_module(case.text), pipeline).module
    PassPipeline(lowering_passes("host")).apply(new_context(), module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scatter_problem, "STREAM_BYTES", stream_bytes)
        program = read_program(module)
        executable = Executable(HostProgram(program, cpu=wanted_cpu))
    dtype = np.dtype({"f32": np.float32, "f64": np.float64}[case.dtype])
    x = np.random.default_rng(0).standard_normal(case.sizes).astype(dtype)
    nbytes = int(np.prod(case.result)) * dtype.itemsize
    memory = np.full(nbytes + 4 * GUARD, 0xFF, np.uint8)
    start = -memory.__array_interface__["data"][0] % GUARD + GUARD + shift
    out: Any = memory[start : start + nbytes].view(dtype).reshape(case.result)
    executable(x, out=out)
    expected = np.zeros(case.result, dtype)
    expected[case.slices] = x
    assert np.array_equal(out, expected)
    assert (memory[:start] == 0xFF).all()
    assert (memory[start + nbytes :] == 0xFF).all()
    return "scatter" in program.summary("host")


STRIDED = Case((2, 3, 3, 64), (0, 1, 0, 0), (1, 2, 2, 1), (0, 0, 1, 0))


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("pipeline", ["", GENERIC])
@pytest.mark.parametrize("shift", [0, 16])
@pytest.mark.parametrize("stream_bytes", [0, 1 << 40])
def test_both_spellings(cpu: str, pipeline: str, shift: int, stream_bytes: int):
    if runnable(cpu) is None:
        pytest.skip("this machine has no multiply-add instruction")
    assert run_case(STRIDED, cpu, pipeline, shift, stream_bytes)


@example(case=Case((1, 2, 320), (0, 0, 0), (1, 3, 1), (0, 2, 0)), cpu="host", shift=0, streams=True)
@given(
    case=cases(),
    cpu=st.sampled_from(TARGETS),
    shift=st.sampled_from([0, 8, 16]),
    streams=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_any_scatter(case: Case, cpu: str, shift: int, streams: bool):
    run_case(case, cpu, "", shift, 0 if streams else 1 << 40)


def refusal_of(body: str, arguments: str = "%x: tensor<2x32xf32>", size: str = "4x32") -> str:
    text = f"kernel.func @k({arguments}) -> tensor<{size}xf32> {{\n{body}\n}}"
    (function,) = read_module(text).ops
    assert isinstance(function, kernel.FuncOp)
    found = read_scatter(function)
    assert isinstance(found, Refusal)
    return found.reason


INSERT = (
    "%s = tensor.insert_slice %x into %z[0, 0] [2, 32] [2, 1]"
    " : tensor<2x32xf32> into tensor<4x32xf32>\n kernel.return %s : tensor<4x32xf32>"
)


def test_what_is_no_scatter_into_zeros():
    ones = "%z = arith.constant dense<1.0> : tensor<4x32xf32>\n" + INSERT
    assert refusal_of(ones) == "its holes are no zeros"
    both = "%x: tensor<2x32xf32>, %z: tensor<4x32xf32>"
    assert refusal_of(INSERT, both) == "its holes are no zeros"
    computed = (
        "%z = arith.constant dense<0.0> : tensor<4x32xf32>\n"
        "%n = arith.negf %x : tensor<2x32xf32>\n" + INSERT.replace("%x", "%n")
    )
    assert refusal_of(computed) == "its source is computed"
    narrow = INSERT.replace("2x32", "2x3").replace("4x32", "4x3").replace("2, 32", "2, 3")
    text = "%z = arith.constant dense<0.0> : tensor<4x3xf32>\n" + narrow
    reason = refusal_of(text, "%x: tensor<2x3xf32>", "4x3")
    assert reason == "its runs are of 12 bytes"
