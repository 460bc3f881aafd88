"""The host's pools against NumPy: any windows, padding, strides, layouts, and what follows them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from host_kernels import TARGETS, assert_same, poisoned, runnable
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.host.pooling.family import POOL
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.target import target
from convir.lowering.pipeline import lowering_passes
from convir.runtime.executable import Executable
from convir.runtime.host.device import HostProgram
from convir.runtime.read_program import read_program

NUMPY: dict[str, tuple[str, str, Any]] = {
    "max": ("arith.maximumf", "0xFF800000", np.maximum),
    "min": ("arith.minimumf", "0x7F800000", np.minimum),
    "sum": ("arith.addf", "0.0", np.add),
}


@st.composite
def dimensions(draw: Any) -> tuple[int, int, int, int, int, int]:
    """Size, taps, stride, dilation and padding before and behind of one dimension."""
    taps, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    extent = (taps - 1) * dilation + 1
    low, high = draw(st.integers(0, extent + 1)), draw(st.integers(0, extent + 1))
    size = draw(st.sampled_from((1, 2, 5, 7, 15, 16, 17, 33, 40)))
    size = max(size, extent - low - high)
    return size, taps, draw(st.integers(1, 4)), dilation, low, high


def outputs_of(dimension: tuple[int, ...]) -> int:
    size, taps, stride, dilation, low, high = dimension
    return (size + low + high - (taps - 1) * dilation - 1) // stride + 1


def text_of(
    planes: int, dims: list[tuple[int, ...]], inner: int, name: str, *, follows: bool
) -> str:
    """A pool of `planes x dims x inner`, and, if something `follows`, a half of it plus a table."""
    rank = 2 + len(dims)
    outputs = [outputs_of(dim) for dim in dims]
    shape = [planes, *(dim[0] for dim in dims), inner]
    padded = [planes, *(dim[0] + dim[4] + dim[5] for dim in dims), inner]
    result = [planes, *outputs, inner]
    op, start, _ = NUMPY[name]

    def tensor(sizes: list[int]) -> str:
        return f"tensor<{'x'.join(map(str, sizes))}xf32>"

    x, p, y = tensor(shape), tensor(padded), tensor(result)
    taps = tensor([dim[1] for dim in dims])
    table = tensor(outputs)
    names = [f"d{i}" for i in range(rank + len(dims))]
    walked = [f"d{1 + i} * {dim[2]} + d{rank + i} * {dim[3]}" for i, dim in enumerate(dims)]
    loops = ", ".join(names)
    low = ", ".join(map(str, [0, *(dim[4] for dim in dims), 0]))
    high = ", ".join(map(str, [0, *(dim[5] for dim in dims), 0]))
    places = ", ".join(f"%i{i} : index" for i in range(rank)).replace(" :", ":")
    kinds = ", ".join(['"parallel"'] * rank + ['"reduction"'] * len(dims))
    parallel = ", ".join(['"parallel"'] * rank)
    own = ", ".join(names[:rank])
    pooled = f"""
  %start = arith.constant {start} : f32
  %taps = tensor.empty() : {taps}
  %empty = tensor.empty() : {y}
  %init = linalg.fill ins(%start : f32) outs(%empty : {y}) -> {y}
  %p = tensor.pad %x low[{low}] high[{high}] {{
  ^bb0({places}):
    tensor.yield %start : f32
  }} : {x} to {p}
  %r = linalg.generic {{indexing_maps = [
      affine_map<({loops}) -> (d0, {", ".join(walked)}, d{rank - 1})>,
      affine_map<({loops}) -> ({", ".join(names[rank:])})>,
      affine_map<({loops}) -> ({own})>], iterator_types = [{kinds}]}}
    ins(%p, %taps : {p}, {taps}) outs(%init : {y}) {{
  ^bb0(%a: f32, %b: f32, %t: f32):
    %n = {op} %t, %a : f32
    linalg.yield %n : f32
  }} -> {y}"""
    if not follows:
        return f"func.func @main(%x: {x}) -> {y} {{{pooled}\n  return %r : {y}\n}}"
    return f"""func.func @main(%x: {x}, %table: {table}) -> {y} {{{pooled}
  %half = arith.constant 0.5 : f32
  %f = linalg.generic {{indexing_maps = [
      affine_map<({own}) -> ({own})>,
      affine_map<({own}) -> ({", ".join(names[1 : rank - 1])})>,
      affine_map<({own}) -> ({own})>], iterator_types = [{parallel}]}}
    ins(%r, %table : {y}, {table}) outs(%empty : {y}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %h = arith.mulf %a, %half : f32
    %n = arith.addf %h, %b : f32
    linalg.yield %n : f32
  }} -> {y}
  return %f : {y}
}}"""


def pooled(x: Any, dims: list[tuple[int, ...]], name: str) -> Any:
    """The same, a dimension after the other."""
    _, start, combine = NUMPY[name]
    fill = {"0xFF800000": -np.inf, "0x7F800000": np.inf, "0.0": 0.0}[start]
    for axis, (_, taps, stride, dilation, low, high) in enumerate(dims, 1):
        widths = [(0, 0)] * x.ndim
        widths[axis] = (low, high)
        x = cast("Any", np.pad(x, widths, constant_values=fill))
        count = (x.shape[axis] - (taps - 1) * dilation - 1) // stride + 1
        parts = [x.take(tap * dilation + stride * np.arange(count), axis) for tap in range(taps)]
        x = parts[0]
        for part in parts[1:]:
            x = combine(x, part)
    return x


def run(text: str, inputs: list[Any], cpu: str) -> Any:
    """The result on a CPU, its memory poisoned before; one kernel, of this family."""
    module = read_module(text)
    for each in lowering_passes():
        each.apply(new_context(), module)
    (body,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    host = target(cpu)
    found = POOL.problem(KernelBody(body), host)
    assert not isinstance(found, Refusal), found.reason
    body.configs = DictionaryAttr({"host": StringAttr("pooling")})
    executable = Executable(HostProgram(read_program(module), cpu=host))
    (spec,) = executable.outputs
    out = poisoned(spec.shape, spec.dtype)
    executable(*inputs, out=[out])
    return out


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("inner", [1, 3, 40])
@settings(max_examples=6, deadline=None)
@given(data=st.data(), cpu=st.sampled_from(TARGETS), seed=st.integers(0, 9))
def test_a_pool_is_what_numpy_computes(
    name: str, rank: int, inner: int, data: Any, cpu: str, seed: int
) -> None:
    cpu = cpu if runnable(cpu) is not None else "x86-64"
    dims: list[tuple[int, ...]] = [data.draw(dimensions()) for _ in range(rank)]
    if all(
        taps == 1 and (stride == 1 or size == 1) and not low + high
        for size, taps, stride, _, low, high in dims
    ):
        return  # No windows.
    random: Any = np.random.default_rng(seed)
    planes = data.draw(st.sampled_from((1, 3)))
    shape = (planes, *(dim[0] for dim in dims), inner)
    x: Any = random.integers(-50, 50, shape).astype(np.float32)  # Sums are exact.
    follows = inner == 1 and data.draw(st.booleans())
    text = text_of(planes, dims, inner, name, follows=follows)
    wanted: Any = pooled(x, dims, name)
    inputs = [x]
    if follows:
        inputs.append(random.integers(-9, 9, wanted.shape[1:-1]).astype(np.float32))
        wanted = wanted * np.float32(0.5) + inputs[1][None, ..., None]
    assert_same(run(text, inputs, cpu), wanted.astype(np.float32))


def test_nan_reaches_the_windows_that_hold_it() -> None:
    x: Any = np.zeros((2, 20, 40, 1), np.float32)
    x[1, 7, 33] = np.nan
    dims: list[tuple[int, ...]] = [(20, 3, 1, 1, 1, 1), (40, 3, 2, 1, 1, 1)]
    text = text_of(2, dims, 1, "max", follows=False)
    assert_same(run(text, [x], "host"), pooled(x, dims, "max"))
