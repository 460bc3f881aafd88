"""Epilogues with operands in the specialised templates: which are taken, where they lie, cubins."""

from __future__ import annotations

import pytest
from cuda_contractions import kernels_in
from fused_epilogues import BIAS, RELU, RESIDUAL, ROWS, SCALE, Fused
from gpu import nvrtc_or_skip

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.lowering.kernels.cuda.epilogue_operands import LinearOperand, linear_operands
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.cuda.problem import ContractionProblem, read_problem
from convir.lowering.kernels.registry import legal_plans, rank
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.passes import run
from convir.runtime.cuda.toolchain.compile import kernel_usage

FORWARD = Fused("fprop", "padding(1, 1)", (2, 9, 7, 64), (96, 3, 3, 64), (2, 9, 7, 96))
STRIDED = Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 5, 6, 64), (64, 3, 3, 64),
                (2, 10, 12, 64))  # fmt: skip
VOLUME = Fused("dgrad", "strides(2, 2, 2) padding(1, 1, 1)", (2, 4, 5, 6, 64), (64, 3, 3, 3, 32),
               (2, 7, 10, 11, 32))  # fmt: skip
WIDE = Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 5, 6, 64), (64, 3, 3, 96), (2, 10, 12, 96))
ZERO_FILLS = Fused("dgrad", "strides(2, 2)", (2, 5, 6, 64), (64, 1, 1, 64), (2, 10, 12, 64))
PIECES = Fused("dgrad", "strides(2, 2)", (2, 5, 6, 64), (64, 2, 2, 64), (2, 10, 12, 64))
GROUPS = Fused("dgrad", "strides(2, 2) padding(1, 1) groups(8)", (2, 7, 6, 64), (64, 3, 3, 8),
               (2, 13, 12, 64))  # fmt: skip
GROUPED_ZERO_FILLS = Fused("dgrad", "strides(2, 2) groups(4)", (2, 7, 6, 64), (64, 1, 1, 16),
                      (2, 13, 12, 64))  # fmt: skip
DEPTHWISE = Fused("fprop", "padding(1, 1) groups(40)", (2, 7, 6, 40), (40, 3, 3, 1), (2, 7, 6, 40))
NARROW = Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 32), (32, 3, 3, 3), (2, 13, 11, 3))
ALL = (BIAS, SCALE, RESIDUAL, RELU)


def kernel_of(case: Fused, steps: tuple[object, ...]):
    module = run(read_module(case.text("f16", steps)), "backward-data").module  # pyright: ignore[reportArgumentType]
    (callee,) = kernels_in(module)
    return callee


def test_operands_lie_where_the_result_does_or_along_channels() -> None:
    for case in (FORWARD, STRIDED, PIECES):
        found = read_problem(kernel_of(case, ALL))
        assert isinstance(found, ContractionProblem)
        operands = linear_operands(found.contraction, found.epilogue)
        assert not isinstance(operands, Refusal)
        assert sorted(operands, key=str) == [
            LinearOperand(False, 0, 0),
            LinearOperand(False, 0, 1),
            LinearOperand(True),
        ]


def test_what_is_taken_and_what_is_not() -> None:
    refusal = "its epilogue reads what is neither like the result nor a vector"
    for case, steps, family, reason in (
        (GROUPS, ALL, "grouped_direct", ""),
        (GROUPED_ZERO_FILLS, (BIAS,), "grouped_direct", ""),
        (DEPTHWISE, ALL, "simt_direct", ""),
        (NARROW, ALL, "few_output_channels", ""),
        (FORWARD, ALL, "sm90_implicit_gemm", ""),
        (FORWARD, ALL, "sm90_halo_implicit_gemm", ""),
        (STRIDED, ALL, "sm90_fused_dgrad", ""),
        (STRIDED, ALL, "sm90_halo_implicit_gemm", ""),
        (VOLUME, ALL, "sm90_fused_dgrad", ""),
        (VOLUME, ALL, "sm90_halo_implicit_gemm", ""),
        (WIDE, ALL, "sm90_implicit_gemm", ""),
        (PIECES, ALL, "sm90_implicit_gemm", ""),
        (ZERO_FILLS, (RELU,), "sm90_implicit_gemm", ""),
        (FORWARD, (ROWS,), "sm80_implicit_gemm", refusal),
        (
            ZERO_FILLS,
            (BIAS,),
            "sm80_implicit_gemm",
            "its epilogue reads operands for zero-filled outputs",
        ),
    ):
        found = read_problem(kernel_of(case, steps))
        assert isinstance(found, ContractionProblem)
        ranking = rank(found.problem, DEFAULT_TARGET)
        assert family in {each.family for each in ranking.predictions}
        assert not reason or f"not sm90_implicit_gemm: {reason}" in ranking.refused


@pytest.mark.parametrize(
    ("case", "family"),
    [
        (FORWARD, "sm90_implicit_gemm"),
        (FORWARD, "sm90_halo_implicit_gemm"),
        (STRIDED, "sm90_fused_dgrad"),
        (STRIDED, "sm90_halo_implicit_gemm"),
        (VOLUME, "sm90_fused_dgrad"),
        (VOLUME, "sm90_halo_implicit_gemm"),
        (WIDE, "sm90_implicit_gemm"),
        (PIECES, "sm90_implicit_gemm"),
        (GROUPS, "grouped_direct"),
        (GROUPED_ZERO_FILLS, "grouped_direct"),
        (DEPTHWISE, "simt_direct"),
        (NARROW, "few_output_channels"),
    ],
)
def test_kernels_compile_without_spills(case: Fused, family: str) -> None:
    nvrtc_or_skip()
    problem = read_problem(kernel_of(case, ALL))
    assert isinstance(problem, ContractionProblem)
    plans = legal_plans(problem, DEFAULT_TARGET)
    (launch,) = next(plan for each, plan in plans if each.family == family).kernels
    pointers = [argument for argument in launch.arguments if isinstance(argument, Pointer)]
    places = [pointer.place for pointer in pointers]
    assert places.count("output") == 1
    assert places[-3:] == ["input", "input", "input"]
    assert not kernel_usage(launch.source, DEFAULT_TARGET.arch)[launch.symbol].spill_bytes
