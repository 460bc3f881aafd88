"""Every scalar op as CUDA C++: compiled for both generations without a GPU, run where one is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpu import nvrtc_or_skip, source_named
from host_kernels import assert_same, poisoned, program_text
from scalar_cases import (
    ARITHMETIC,
    CASTS,
    DIVISIONS,
    EXACT_MATH,
    INEXACT_MATH,
    SHIFTS,
    TO_INTEGERS,
    Case,
    arguments_of,
)

from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.cuda.launch import Scalar
from convir.lowering.loops.cuda.plan_loops import plan_loops
from convir.reference import evaluate
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.compile import compile_cubin
from convir.runtime.executable import Executable
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.launch import CudaKernel

EXACT = [*ARITHMETIC, *DIVISIONS, *SHIFTS, *CASTS, *TO_INTEGERS, *EXACT_MATH]
ARCHITECTURES = ("sm_80", "sm_90a")
SIZE = 5


def launches_of(text: str) -> tuple[CudaKernel, ...]:
    function = next(op for op in read_module(text).walk() if isinstance(op, kernel.FuncOp))
    return plan_loops(function, restrict=True).kernels


def source_of(case: Case, number: int) -> str:
    launches = launches_of(case.kernel.replace("?", str(SIZE)))
    return "\n".join(source_named(each, f"k{number}_") for each in launches)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_op_compiles(arch: str) -> None:
    nvrtc_or_skip()
    source = "\n".join(source_of(case, i) for i, case in enumerate([*EXACT, *INEXACT_MATH]))
    cubin = compile_cubin(source, arch)
    assert len(re.findall(rb"\.text\.k\d+_\x00", cubin)) >= len(EXACT)


@pytest.mark.parametrize("name", ["double", "loop_0", '"a kernel"', '"2"'])
def test_loops_that_differ_in_name_and_range_are_one_source(name: str) -> None:
    text = next(case.kernel for case in EXACT if "addf" in case.kernel)
    (one,) = launches_of(text.replace("?", str(SIZE)))
    (other,) = launches_of(text.replace("?", str(SIZE + 2)).replace("@k(", f"@{name}("))
    assert other.source == one.source
    assert other.symbol == one.symbol == "loops_addf"
    assert one.arguments[-1] == Scalar(SIZE)
    assert other.arguments[-1] == Scalar(SIZE + 2)


@pytest.mark.parametrize(
    ("body", "symbol"),
    [
        ("%y = arith.mulf %x, %x : f32 %z = arith.addf %y, %x : f32", "loops_mulf_addf"),
        ("%z = arith.negf %x : f32", "loops_negf"),
        ("%z = math.exp2 %x : f32", "loops_exp2"),
    ],
)
def test_kernels_are_named_by_what_they_compute(body: str, symbol: str) -> None:
    (launch,) = launches_of(
        f"""
kernel.func @k(%a: tensor<5xf32>) -> tensor<5xf32> {{
  %e = tensor.empty() : tensor<5xf32>
  %r = linalg.generic {{
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
  }} ins(%a : tensor<5xf32>) outs(%e : tensor<5xf32>) {{
  ^bb0(%x: f32, %o: f32):
    {body}
    linalg.yield %z : f32
  }} -> tensor<5xf32>
  kernel.return %r : tensor<5xf32>
}}"""
    )
    assert launch.symbol == symbol


@pytest.fixture
def cupy() -> Any:
    try:
        toolkit.require_gpu(0)
    except toolkit.NoGpuError as error:
        pytest.skip(str(error))
    return toolkit.cupy()


@pytest.mark.gpu
@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.id)
def test_every_op_on_a_gpu(case: Case, cupy: Any) -> None:
    from convir.runtime.cuda.device import CudaProgram  # noqa: PLC0415  (needs a GPU)

    arguments = arguments_of(case)
    size = len(arguments[0])
    text = program_text(
        case.kernel.replace("?", str(size)),
        [f"{size}x{t}" for t in case.operands],
        [f"{size}x{case.result}"],
    )
    module = read_module(text)
    (expected,) = evaluate(module, "main", arguments)
    executable = Executable(CudaProgram(read_program(module)))
    out = cupy.asarray(poisoned(expected.shape, expected.dtype))
    executable(*map(cupy.asarray, arguments), out=out)
    assert_same(np.asarray(cupy.asnumpy(out)), expected, case.id)
