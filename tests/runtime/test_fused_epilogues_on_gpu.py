"""Epilogues with operands on a GPU: the bits of the IR, with every rounding, and in holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conv_cases import DTYPES, small_integers
from fused_epilogues import BIAS, RELU, RESIDUAL, ROWS, SCALE, Fused, Step
from gpu import cupy_or_skip

from convir.api.compile import compile as convir_compile
from convir.dialects.context import read_module
from convir.lowering.implementations import CUDA
from convir.runtime.reference import evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.gpu

CASES = {
    "forward": Fused("fprop", "padding(1, 1)", (2, 9, 7, 64), (96, 3, 3, 64), (2, 9, 7, 96)),
    "columns-tail": Fused("fprop", "", (3, 9, 7, 64), (72, 3, 3, 64), (3, 7, 5, 72)),
    "strided": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 64), (64, 3, 3, 64),
                     (2, 13, 12, 64)),
    "holes": Fused("dgrad", "strides(2, 2)", (2, 5, 6, 64), (64, 1, 1, 64), (2, 10, 12, 64)),
    "holes-in-cells": Fused("dgrad", "strides(2, 2)", (2, 5, 6, 64), (64, 1, 1, 200),
                            (2, 9, 12, 200)),
    "pieces": Fused("dgrad", "strides(2, 2)", (2, 5, 6, 72), (72, 2, 2, 64), (2, 10, 12, 64)),
    "line": Fused("dgrad", "strides(8) padding(4)", (3, 16, 72), (72, 16, 256), (3, 128, 256)),
    "volume": Fused("dgrad", "strides(2, 2, 2) padding(1, 1, 1)", (2, 4, 5, 6, 64),
                    (64, 3, 3, 3, 32), (2, 8, 10, 12, 32)),
    "volume-odd": Fused("dgrad", "strides(2, 2, 2) padding(1, 1, 1)", (2, 4, 5, 6, 72),
                        (72, 3, 3, 3, 32), (2, 7, 9, 12, 32)),
    "strided-wide": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 64), (64, 3, 3, 96),
                          (2, 13, 12, 96)),
    "groups": Fused("dgrad", "strides(2, 2) padding(1, 1) groups(8)", (2, 7, 6, 64),
                    (64, 3, 3, 8), (2, 13, 12, 64)),
    "grouped-holes": Fused("dgrad", "strides(2, 2) groups(4)", (2, 7, 6, 64), (64, 1, 1, 16),
                           (2, 13, 12, 64)),
    "pairs-of-rows": Fused("fprop", "padding(1, 1) groups(2)", (3, 15, 25, 64), (64, 3, 3, 32),
                           (3, 15, 25, 64)),
    "merged-groups": Fused("fprop", "padding(1, 1) groups(16)", (2, 7, 6, 64), (64, 3, 3, 4),
                           (2, 7, 6, 64)),
    "depthwise": Fused("fprop", "padding(1, 1) groups(40)", (2, 7, 6, 40), (40, 3, 3, 1),
                       (2, 7, 6, 40)),
    "few-channels": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 32), (32, 3, 3, 3),
                          (2, 14, 12, 3)),
    "few-channels-odd": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 32),
                              (32, 3, 3, 3), (2, 13, 11, 3)),
    "few-channels-with-holes": Fused("dgrad", "strides(2, 2)", (2, 7, 6, 32), (32, 1, 1, 3),
                                     (2, 14, 12, 3)),
    "few-channels-deep": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 128),
                               (128, 4, 4, 3), (2, 14, 12, 3)),
}  # fmt: skip

EPILOGUES: dict[str, tuple[Step, ...]] = {
    "bias": (BIAS,),
    "residual": (RESIDUAL,),
    "all": (BIAS, SCALE, RESIDUAL, RELU),
    "rows": (ROWS, RELU),
}


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("name", CASES)
def test_bits(name: str, epilogue: str, dtype: str) -> None:
    check(CASES[name], EPILOGUES[epilogue], dtype)


def check(case: Fused, steps: Sequence[Step], dtype: str) -> None:
    """The GPU stores what the reference computes, in one launch, and nothing around it."""
    cupy = cupy_or_skip()
    text = case.text(dtype, steps)
    inputs = [small_integers(shape, dtype, i) for i, shape in enumerate(case.shapes(steps))]
    (expected,) = evaluate(read_module(text), "main", inputs)
    executable = convir_compile(text, device="cuda")
    assert len(executable.program.summary(CUDA)) == 1
    around, size = 256, int(np.prod(case.out))
    memory = cupy.full(size + 2 * around, 0x7FFF, "u2").view(DTYPES[dtype])
    out = memory[around : around + size].reshape(case.out)
    arrays = [cupy.asarray(array.view("u2")).view(array.dtype) for array in inputs]
    executable(*arrays, out=out)
    found: Any = cupy.asnumpy(memory.view("u2"))
    stored = found[around:-around].reshape(case.out).view(DTYPES[dtype]).astype("f4")
    np.testing.assert_array_equal(stored, expected.astype("f4"))
    assert (found[:around] == 0x7FFF).all()
    assert (found[-around:] == 0x7FFF).all()
