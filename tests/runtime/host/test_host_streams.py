"""Streams on the host: states that are updated in place, in windows that move along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.api.compile import compile as convir_compile
from convir.runtime.host.stream import HostStream

if TYPE_CHECKING:
    import numpy.typing as npt

    from convir.runtime.host.device import HostProgram

    Array = npt.NDArray[Any]

ROOM = 40

# y(t) = x(t) + 2 * x(t - 5) of both rows, and z(t) = y(t) - y(t - 1), through two windows.
PROGRAM = """
#seen5 = affine_map<(a, b, c, k) -> (a, b, c + 5 * k)>
#seen1 = affine_map<(a, b, c, k) -> (a, b, c + k)>
#tap = affine_map<(a, b, c, k) -> (k)>
#out = affine_map<(a, b, c, k) -> (a, b, c)>
func.func @main(%x: tensor<1x2xFxf32>, %v: tensor<1x2xVxf32>, %w: tensor<1x2xWxf32>)
    -> (tensor<1x2xFxf32>, tensor<1x2xVxf32>, tensor<1x2xWxf32>)
    attributes {convir.states = 2 : i64, convir.sample_rate = 8000.0 : f64} {
  %zeros = arith.constant dense<0.0> : tensor<1x2xFxf32>
  %two_one = arith.constant dense<[2.0, 1.0]> : tensor<2xf32>
  %less_one = arith.constant dense<[-1.0, 1.0]> : tensor<2xf32>
  %v1 = tensor.insert_slice %x into %v[0, 0, 5] [1, 2, F] [1, 1, 1]
      : tensor<1x2xFxf32> into tensor<1x2xVxf32>
  %y = linalg.generic {indexing_maps = [#seen5, #tap, #out],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%v1, %two_one : tensor<1x2xVxf32>, tensor<2xf32>) outs(%zeros : tensor<1x2xFxf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %c, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<1x2xFxf32>
  %w1 = tensor.insert_slice %y into %w[0, 0, 1] [1, 2, F] [1, 1, 1]
      : tensor<1x2xFxf32> into tensor<1x2xWxf32>
  %z = linalg.generic {indexing_maps = [#seen1, #tap, #out],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%w1, %less_one : tensor<1x2xWxf32>, tensor<2xf32>) outs(%zeros : tensor<1x2xFxf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %c, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<1x2xFxf32>
  return %z, %v1, %w1 : tensor<1x2xFxf32>, tensor<1x2xVxf32>, tensor<1x2xWxf32>
}"""

INSERT = """
func.func @main(%x: tensor<AxBxf32>, %w: tensor<MxNxf32>) -> (tensor<AxBxf32>, tensor<MxNxf32>)
    attributes {convir.states = 1 : i64} {
  %y = arith.negf %x : tensor<AxBxf32>
  %0 = tensor.insert_slice %x into %w[I, J] [A, B] [S, T]
      : tensor<AxBxf32> into tensor<MxNxf32>
  return %y, %0 : tensor<AxBxf32>, tensor<MxNxf32>
}"""

# What it reads of the state depends on whether it has been written.
READS_AGAIN = """
func.func @main(%x: tensor<1x1x4xf32>, %w: tensor<1x1x44xf32>)
    -> (tensor<1x1x4xf32>, tensor<1x1x44xf32>) attributes {convir.states = 1 : i64} {
  %0 = tensor.insert_slice %x into %w[0, 0, 4] [1, 1, 4] [1, 1, 1]
      : tensor<1x1x4xf32> into tensor<1x1x44xf32>
  %1 = tensor.extract_slice %w[0, 0, 4] [1, 1, 4] [1, 1, 1]
      : tensor<1x1x44xf32> to tensor<1x1x4xf32>
  %2 = arith.addf %1, %x : tensor<1x1x4xf32>
  return %2, %0 : tensor<1x1x4xf32>, tensor<1x1x44xf32>
}"""


def compiled(text: str, threads: int | None = 1) -> HostProgram:
    return cast("HostProgram", convir_compile(text, device="host", threads=threads).loaded)


def sized(frames: int, v: int, w: int) -> str:
    text = PROGRAM
    for letter, size in {"F": frames, "V": v, "W": w}.items():
        text = text.replace(f"x{letter}xf32", f"x{size}xf32").replace(f" {letter}]", f" {size}]")
    return text


def program(frames: int, threads: int | None) -> HostProgram:
    return compiled(sized(frames, 5 + ROOM, 1 + ROOM), threads)


def expected(x: Array) -> Array:
    """Of f32[2, n]."""
    y = x + 2 * np.pad(x, ((0, 0), (5, 0)))[:, : x.shape[1]]
    return y - np.pad(y, ((0, 0), (1, 0)))[:, : x.shape[1]]


@pytest.mark.parametrize("threads", [1, None])
@pytest.mark.parametrize("frames", [1, 3, 8, 40])
def test_blocks_of_any_mix(frames: int, threads: int | None) -> None:
    """Blocks of two channels; windows begin anew many times."""
    stream = HostStream(program(frames, threads), ROOM)
    rng = np.random.default_rng(frames)
    for _ in range(3):
        stream.forget()
        sizes = rng.choice([0, 1, 2, 3, 8, 13, 100], 120)
        x = rng.integers(-9, 10, (2, sizes.sum())).astype(np.float32)
        y, begin = np.full_like(x, np.nan), 0
        for size in map(int, sizes):
            block = np.ascontiguousarray(x[:, begin : begin + size])
            memory = np.full(2 * size + 1, np.nan, np.float32)
            out = memory[: 2 * size].reshape(2, size)
            stream.run(block, out)
            y[:, begin : begin + size] = out
            assert np.isnan(memory[-1])
            begin += size
        np.testing.assert_array_equal(y, expected(x))


def test_the_program_says_what_it_is() -> None:
    spec = program(3, 1).plan.stream
    assert (spec.states, spec.sample_rate) == (2, 8000.0)


def test_states_in_memory_of_their_own() -> None:
    """A call that is not a stream's leaves its arguments as they are."""
    executable = convir_compile(sized(8, 13, 9))
    x, v, w = (np.ones((1, 2, n), np.float32) for n in (8, 13, 9))
    z, v1, w1 = executable(x + 1, v, w)
    assert (v == 1).all()
    assert (w == 1).all()
    np.testing.assert_array_equal(v1[0, :, 5:], x[0] + 1)
    assert (w1[..., 0] == 1).all()
    assert z.shape == x.shape


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_only_the_slice_is_written(data: st.DataObject) -> None:
    sides: list[tuple[int, int, int, int]] = []
    for _ in range(2):
        size, step = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))
        begin, behind = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))
        sides.append((size, step, begin, begin + (size - 1) * step + 1 + behind))
    (a, s, i, m), (b, t, j, n) = sides
    text = INSERT
    for letter, size in {"A": a, "B": b, "M": m, "N": n}.items():
        text = text.replace(f"<{letter}x", f"<{size}x").replace(f"x{letter}x", f"x{size}x")
    text = text.replace("[I, J] [A, B] [S, T]", f"[{i}, {j}] [{a}, {b}] [{s}, {t}]")
    loaded = compiled(text)
    x = np.arange(a * b, dtype=np.float32).reshape(a, b)
    w = np.full((m, n), np.nan, np.float32)
    y, wanted = np.empty_like(x), w.copy()
    wanted[i : i + (a - 1) * s + 1 : s, j : j + (b - 1) * t + 1 : t] = x
    loaded.run([x, w], [y, w])
    np.testing.assert_array_equal(w, wanted)
    np.testing.assert_array_equal(y, -x)


def test_what_reads_a_state_again_is_refused() -> None:
    with pytest.raises(ValueError, match="state 0 of a stream's program is read after a write"):
        HostStream(compiled(READS_AGAIN), ROOM)


def test_what_is_no_stream_is_refused() -> None:
    loaded = compiled(READS_AGAIN.replace("convir.states = 1", "convir.states = 0"))
    with pytest.raises(ValueError, match="all else are states"):
        HostStream(loaded, ROOM)
