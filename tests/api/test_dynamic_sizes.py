# pyright: reportUnknownMemberType=false
"""Executables whose sizes are bound at the call: one specialisation for each set of shapes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from convir.api.compile import Job
from convir.api.compile import compile as convir_compile
from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.passes.manager.pipeline_text import PipelineError
from convir.reference import evaluate
from convir.runtime.dynamic import CAPACITY, DynamicExecutable

Array = npt.NDArray[Any]

# Weights are static; the batch and both spatial sizes are what the call brings. The output is
# (size + 2 - 3) / 2 + 1 in affine arithmetic along H, in arith along W.
STRIDED = """
func.func @main(%x: tensor<?x?x?x4xf32>, %w: tensor<6x3x3x4xf32>) -> tensor<?x?x?x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c0 : tensor<?x?x?x4xf32>
  %h = tensor.dim %x, %c1 : tensor<?x?x?x4xf32>
  %width = tensor.dim %x, %c2 : tensor<?x?x?x4xf32>
  %p = affine.apply affine_map<(d0) -> ((d0 + 2 - 3) floordiv 2 + 1)> (%h)
  %reach = arith.subi %width, %c1 : index
  %steps = arith.divui %reach, %c2 : index
  %q = arith.addi %steps, %c1 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n, %p, %q) : tensor<?x?x?x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?x?x6xf32>) -> tensor<?x?x?x6xf32>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1)
         ins(%x, %w : tensor<?x?x?x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<?x?x?x6xf32>)
  return %y : tensor<?x?x?x6xf32>
}
"""

TRANSPOSED = """
func.func @main(%dy: tensor<?x5x5x6xf32>, %w: tensor<6x3x3x4xf32>) -> tensor<?x10x10x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %dy, %c0 : tensor<?x5x5x6xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x10x10x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x10x10x4xf32>) -> tensor<?x10x10x4xf32>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1)
          ins(%dy, %w : tensor<?x5x5x6xf32>, tensor<6x3x3x4xf32>)
          outs(%init : tensor<?x10x10x4xf32>)
  return %dx : tensor<?x10x10x4xf32>
}
"""

SUM = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x?xf32>) -> tensor<?x4xf32> {
  %0 = tensor.cast %y : tensor<?x?xf32> to tensor<?x4xf32>
  %1 = arith.addf %x, %0 : tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
"""


def host(text: str, **options: Any) -> DynamicExecutable:
    executable = convir_compile(text, device="host", **options)
    assert isinstance(executable, DynamicExecutable)
    return executable


def integers(*shape: int) -> Array:
    return np.random.default_rng(0).integers(-2, 3, shape).astype(np.float32)


def pair(rows: int) -> list[Array]:
    return [integers(rows, 4), integers(rows, 4)]


def test_batch_and_spatial_sizes() -> None:
    executable = host(STRIDED)
    w = integers(6, 3, 3, 4)
    module = read_module(STRIDED)
    for shape in [(2, 9, 9, 4), (1, 10, 7, 4), (2, 9, 9, 4), (3, 1, 2, 4)]:
        x = integers(*shape)
        (expected,) = evaluate(module, "main", (x, w))
        np.testing.assert_array_equal(executable(x, w), expected)
        windows = torch.nn.functional.conv2d(
            torch.from_numpy(x).permute(0, 3, 1, 2),
            torch.from_numpy(w).permute(0, 3, 1, 2),
            stride=2,
            padding=1,
        )
        np.testing.assert_array_equal(expected, windows.permute(0, 2, 3, 1).numpy())
    assert [shapes[0] for shapes in executable.specialisations] == [
        (1, 10, 7, 4),
        (2, 9, 9, 4),
        (3, 1, 2, 4),
    ]


def test_a_strided_backward_data_of_any_batch_meets_no_hole() -> None:
    executable = host(TRANSPOSED)
    w = integers(6, 3, 3, 4)
    for batch in (1, 4):
        dy = integers(batch, 5, 5, 6)
        (expected,) = evaluate(read_module(TRANSPOSED), "main", (dy, w))
        np.testing.assert_array_equal(executable(dy, w), expected)
        static = TRANSPOSED.replace("%n = tensor.dim %dy, %c0 : tensor<?x5x5x6xf32>", "")
        static = static.replace("tensor.empty(%n)", "tensor.empty()").replace("?", str(batch))
        calls = convir_compile(static, device="host").program.summary("host")
        assert executable.specialised(dy.shape, w.shape).program.summary("host") == calls


def test_no_elements() -> None:
    assert host(SUM)(*pair(0)).shape == (0, 4)


def test_signatures_say_which_sizes_are_bound() -> None:
    executable = host(SUM)
    assert [str(spec) for spec in executable.inputs] == ["?x4 float32", "?x? float32"]
    assert [str(spec) for spec in executable.outputs] == ["?x4 float32"]
    assert executable.inputs[0].shape == (-1, 4)
    with pytest.raises(ValueError, match=r"\?x4 float32, \?x\? float32\) has no program"):
        _ = executable.program
    with pytest.raises(ValueError, match="call `specialised` first"):
        executable.empty(executable.inputs[0])
    assert executable.specialised((2, 4), [2, 4]).outputs[0].shape == (2, 4)
    assert executable.specialisations == (((2, 4), (2, 4)),)


def test_results_are_written_in_place() -> None:
    x, y = pair(3)
    out = np.full((3, 4), np.nan, np.float32)
    assert host(SUM)(x, y, out=out) is out
    np.testing.assert_array_equal(out, x + y)
    with pytest.raises(ValueError, match=r"out 0 has shape \(2, 4\), the program's is \(3, 4\)"):
        host(SUM)(x, y, out=out[:2])


def test_other_libraries_arrays_bind_sizes() -> None:
    x, y = pair(3)
    result = host(SUM)(torch.from_numpy(x), torch.from_numpy(y))
    np.testing.assert_array_equal(result, x + y)


def test_the_least_recently_used_specialisation_goes() -> None:
    executable = host(SUM, specialisations=2)
    for rows in (1, 2, 1, 3):
        executable(*pair(rows))
    assert [shapes[0] for shapes in executable.specialisations] == [(1, 4), (3, 4)]
    executable.clear()
    assert executable.specialisations == ()
    assert executable.capacity == 2
    assert host(SUM).capacity == CAPACITY


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([integers(3, 5)] * 2, ValueError, r"argument 0 has shape \(3, 5\), the program's is \?x4"),
        ([integers(4)] * 2, ValueError, r"argument 0 has shape \(4,\), the program's is \?x4"),
        ([integers(3, 4)], ValueError, "the program takes 2 arrays, not 1"),
        (["x", "y"], TypeError, "argument 0 is a str, not an array"),
        ([1.0, 2.0], ValueError, r"argument 0 has shape \(\), the program's is \?x4"),
        ([integers(3, 4), integers(3, 4).astype(int)], TypeError, "argument 1 holds int64"),
        ([integers(3, 4), integers(2, 4)], DiagnosticError, r"<string>:4:8: error: 'arith.addf'"),
        ([integers(3, 4), integers(3, 5)], DiagnosticError, r"<string>:3:8: error: 'tensor.cast'"),
    ],
)
def test_what_does_not_fit_is_one_error(
    arguments: list[Any], error: type[Exception], message: str
) -> None:
    executable = host(SUM)
    for _ in range(2):
        with pytest.raises(error, match=message):
            executable(*arguments)


def test_static_arguments_bind_what_is_dynamic_inside() -> None:
    text = SUM.replace("%x: tensor<?x4xf32>, %y: tensor<?x?xf32>", "%s: tensor<3x4xf32>").replace(
        "{\n  %0",
        "{\n  %x = tensor.cast %s : tensor<3x4xf32> to tensor<?x4xf32>"
        "\n  %y = tensor.cast %s : tensor<3x4xf32> to tensor<?x?xf32>\n  %0",
    )
    executable = convir_compile(text, device="host")
    assert not isinstance(executable, DynamicExecutable)
    x = integers(3, 4)
    np.testing.assert_array_equal(executable(x), 2 * x)


def test_mistakes_are_found_when_compiling_not_when_calling() -> None:
    with pytest.raises(PipelineError, match="no-such-pass"):
        host(SUM, pipeline="no-such-pass")
    with pytest.raises(ValueError, match="specialisations is 0, not at least 1"):
        host(SUM, specialisations=0)
    with pytest.raises(ValueError, match="unknown device"):
        convir_compile(SUM, device="nowhere")


def test_threads_share_their_specialisations(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    specialise = Job.specialise

    def counted(job: Job, shapes: Any) -> Any:
        compiled.append(shapes)
        return specialise(job, shapes)

    monkeypatch.setattr(Job, "specialise", counted)
    executable = host(SUM)

    def call(number: int) -> bool:
        x, y = pair(1 + number % 3)
        return bool(np.array_equal(executable(x, y), x + y))

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(call, range(30)))
    assert len(compiled) == 3
