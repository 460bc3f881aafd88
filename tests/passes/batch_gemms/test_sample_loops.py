"""Loops over samples: every bound and step, and what a loop's body must not be."""

from __future__ import annotations

import numpy as np
import pytest

from convir.dialects.context import read_module
from convir.passes import run
from convir.reference import evaluate

pytestmark = pytest.mark.fast

LOOP = """
func.func @f(%x: tensor<7x5x4xf32>, %w: tensor<3x5xf32>, %init: tensor<7x3x4xf32>, %k: index)
    -> tensor<7x3x4xf32> {
  %lower = arith.constant LOWER : index
  %upper = arith.constant UPPER : index
  %step = arith.constant STEP : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant dense<0.0> : tensor<3x4xf32>
  %y = scf.for %n = %lower to %upper step %step iter_args(%acc = %init) -> (tensor<7x3x4xf32>) {
    %xs = tensor.extract_slice %x[%n, 0, 0] [1, 5, 4] [1, 1, 1]
        : tensor<7x5x4xf32> to tensor<5x4xf32>
    %p = linalg.matmul ins(%w, %xs : tensor<3x5xf32>, tensor<5x4xf32>)
        outs(%zero : tensor<3x4xf32>) -> tensor<3x4xf32>
    %r = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 3, 4] [1, 1, 1]
        : tensor<3x4xf32> into tensor<7x3x4xf32>
    scf.yield %r : tensor<7x3x4xf32>
  }
  return %y : tensor<7x3x4xf32>
}
"""


def loop(lower: int = 0, upper: int = 7, step: int = 1) -> str:
    text = LOOP.replace("LOWER", str(lower)).replace("UPPER", str(upper))
    return text.replace("STEP", str(step))


def check_the_same(text: str, after: object) -> None:
    rng = np.random.default_rng(0)
    x, w, init = (
        rng.integers(-3, 4, shape).astype(np.float32) for shape in ((7, 5, 4), (3, 5), (7, 3, 4))
    )
    arguments = [x, w, init, np.int64(1)]
    (expected,) = evaluate(read_module(text), "f", arguments)
    (found,) = evaluate(read_module(str(after)), "f", arguments)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("lower", "upper", "step", "count"),
    [
        *((0, 7, 1, 7), (0, 7, 2, 4), (0, 6, 2, 3), (1, 7, 2, 3), (2, 7, 3, 2), (0, 7, 6, 2)),
        *((3, 5, 1, 2), (1, 2, 1, 1), (3, 3, 1, 0), (4, 3, 1, 0), (0, 7, 7, 1), (0, 1, 9, 1)),
    ],
)
def test_bounds_of_loops(lower: int, upper: int, step: int, count: int) -> None:
    text = loop(lower, upper, step)
    result = run(text, "batch-gemms")
    (rewritten,) = [remark for remark in result.remarks if remark.fired]
    assert rewritten.reason.startswith(f"{count} samples at once")
    assert "scf.for" not in str(result.module)
    check_the_same(text, result.module)


REFUSED: dict[str, tuple[str, str, str]] = {
    # What is replaced in the loop, and why the loop stays.
    "a step of 0": ("STEP", "0", "its step is 0, which is not positive"),
    "a step below 0": ("STEP", "-1", "its step is -1, which is not positive"),
    "an open bound": ("%lower to %upper", "%k to %upper", ""),
    "an open step": ("step %step", "step %k", ""),
    "another place in the result": (
        *("%acc[%n, 0, 0]", "%acc[%c2, 0, 0]"),
        "a sample's slice is not one element along one dimension",
    ),
    "two dimensions": (
        *("%x[%n, 0, 0]", "%x[%n, %n, 0]"),
        "a sample's slice is not one element along one dimension",
    ),
    "an open place": (
        *("%x[%n, 0, 0]", "%x[%n, %k, 0]"),
        "a slice has sizes, strides or other offsets that are not constant",
    ),
    "a loop that counts": (
        "%xs = tensor.extract_slice %x[%n,",
        "%m = arith.addi %n, %lower : index\n    %xs = tensor.extract_slice %x[%m,",
        "arith.addi",
    ),
    "a result that is read": (
        "    %xs =",
        "    %e = tensor.extract %acc[%n, %c2, %c2] : tensor<7x3x4xf32>\n    %xs =",
        "tensor.extract reads what other samples wrote: samples depend on each other",
    ),
    "the sample before": (
        "outs(%zero : tensor<3x4xf32>)",
        "outs(%before : tensor<3x4xf32>)",
        "a sample reads what another one wrote: they depend on each other",
    ),
    "nothing stored": (
        *("scf.yield %r", "scf.yield %acc"),
        "what it yields is not the carried tensor with one slice inserted",
    ),
}
BEFORE = """    %before = tensor.extract_slice %acc[0, 0, 0] [1, 3, 4] [1, 1, 1]
        : tensor<7x3x4xf32> to tensor<3x4xf32>
    %p ="""


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_loops_that_stay(case: tuple[str, str, str]) -> None:
    old, new, reason = case
    text = LOOP.replace(old, new)
    assert text != LOOP
    text = text.replace("    %p =", BEFORE) if "%before" in text else text
    text = text.replace("LOWER", "0").replace("UPPER", "7").replace("STEP", "1")
    result = run(text, "batch-gemms")
    assert not any(remark.fired for remark in result.remarks)
    assert any(reason in remark.reason for remark in result.remarks) or not reason
    assert "scf.for" in str(result.module)
