"""Every scalar op as CUDA C++: compiled for both generations without a GPU, run where one is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu import nvrtc_or_skip
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
from convir.lowering.loops.cuda.plan_loops import plan_loops
from convir.reference import evaluate
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.compile import compile_cubin
from convir.runtime.executable import Executable
from convir.runtime.read_program import read_program

EXACT = [*ARITHMETIC, *DIVISIONS, *SHIFTS, *CASTS, *TO_INTEGERS, *EXACT_MATH]
ARCHITECTURES = ("sm_80", "sm_90a")
SIZE = 5


def source_of(case: Case, number: int) -> str:
    module = read_module(case.kernel.replace("?", str(SIZE)).replace("@k(", f"@k{number}("))
    function = next(op for op in module.walk() if isinstance(op, kernel.FuncOp))
    return "\n".join(launch.source for launch in plan_loops(function, restrict=True).kernels)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_op_compiles(arch: str) -> None:
    nvrtc_or_skip()
    source = "\n".join(source_of(case, i) for i, case in enumerate([*EXACT, *INEXACT_MATH]))
    cubin = compile_cubin(source, arch)
    assert len(re.findall(rb"\.text\.k\d+_\x00", cubin)) >= len(EXACT)


@pytest.mark.parametrize("name", ["double", "exp2", "blockIdx", "loop_0", '"a kernel"', '"2"'])
def test_names_that_mean_something_in_cuda(name: str) -> None:
    nvrtc_or_skip()
    text = EXACT[0].kernel.replace("?", str(SIZE)).replace("@k(", f"@{name}(")
    (function,) = (op for op in read_module(text).walk() if isinstance(op, kernel.FuncOp))
    for launch in plan_loops(function, restrict=True).kernels:
        assert launch.symbol.encode() in compile_cubin(launch.source, "sm_80")


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
