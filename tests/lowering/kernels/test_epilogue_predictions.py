"""Predictions of kernels with an epilogue: its operands and functions take time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from family_problems import reading_of
from fused_epilogues import RELU, RESIDUAL, Fused

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.lowering.kernels.cuda.pointwise.family import POINTWISE
from convir.lowering.kernels.cuda.sm80_implicit_gemm.family import SM80_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.sm90_implicit_gemm.family import SM90_IMPLICIT_GEMM
from convir.lowering.kernels.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from fused_epilogues import Step

    from convir.lowering.kernels.protocol import KernelFamily, Problem

SHAPE = (32, 14, 14)
CONVOLUTION = Fused("fprop", "", (*SHAPE, 64), (128, 1, 1, 64), (*SHAPE, 128))
FAMILIES = (POINTWISE, SM80_IMPLICIT_GEMM, SM90_IMPLICIT_GEMM)


def problem(*steps: Step) -> Problem:
    reading = reading_of(read_module(CONVOLUTION.text("f16", steps)))
    assert not isinstance(reading, Refusal)
    return reading.problem.problem


def times(family: KernelFamily, of: Problem) -> list[float]:
    configs = family.candidates(problem(RELU), DEFAULT_TARGET)
    assert not isinstance(configs, Refusal)
    return [family.predict(of, config, DEFAULT_TARGET) for config in configs]


def test_functions_are_found_in_an_epilogue() -> None:
    text = CONVOLUTION.text("f16", (RELU,))
    exponential = text.replace("arith.maximumf %b0, %zero", "math.exp %b0")
    assert exponential != text
    reading = reading_of(read_module(exponential))
    assert not isinstance(reading, Refusal)
    assert reading.problem.epilogue.has_functions


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_functions_take_time(family: KernelFamily) -> None:
    plain = problem(RELU)
    assert not plain.epilogue.has_functions
    gelu = replace(plain, epilogue=replace(plain.epilogue, has_functions=True))
    pairs = list(zip(times(family, plain), times(family, gelu), strict=True))
    assert all(without <= having for without, having in pairs)
    assert any(without < having for without, having in pairs)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_operands_like_the_result_take_time(family: KernelFamily) -> None:
    pairs = zip(times(family, problem(RELU)), times(family, problem(RESIDUAL, RELU)), strict=True)
    assert all(without < having for without, having in pairs)


def test_a_tile_of_part_lines_reads_a_residual_slower() -> None:
    plain, having = problem(RELU), problem(RESIDUAL, RELU)
    config = SM90_IMPLICIT_GEMM.parse(
        "sm90_implicit_gemm 128x128 stages=6 schedule=cooperative store=64 blocks=132"
    )

    def beside(store: int) -> float:
        parts = replace(config, store_channels=store)
        without, reading = (
            SM90_IMPLICIT_GEMM.predict(each, parts, DEFAULT_TARGET) for each in (plain, having)
        )
        return reading - without

    assert beside(64) < beside(32)
