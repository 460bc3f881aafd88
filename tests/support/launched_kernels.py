"""Single kernels of convolutions of 16 bits on a GPU, against PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from conv_cases import DTYPES, small_integers, torch_answer

from convir.runtime.cuda import toolkit
from convir.runtime.cuda.launch import LoadedKernel

if TYPE_CHECKING:
    from convir.dialects.problem import ConvProblem
    from convir.lowering.kernels.cuda.launch import CudaKernel


def assert_stores(kernel: CudaKernel, problem: ConvProblem) -> None:
    """The kernel computes `problem` exactly, into memory full of NaN.

    Small integers make all sums exact.
    """
    cupy = toolkit.cupy()
    lhs_shape, rhs_shape, out_shape = problem.shapes
    lhs = small_integers(lhs_shape, problem.dtype, 1)
    rhs = small_integers(rhs_shape, problem.dtype, 2)
    expected = torch_answer(problem, lhs, rhs).astype(DTYPES[problem.dtype])
    # CuPy has no bfloat16 of NumPy's: all three travel as their bits.
    out: Any = cupy.full(out_shape, 0x7FFF, "u2")
    operands = {"a": cupy.asarray(lhs.view("u2")), "b": cupy.asarray(rhs.view("u2")), "c": out}
    LoadedKernel(kernel).launch(lambda pointer: operands[pointer.place].data.ptr)
    stored = cupy.asnumpy(out).view(DTYPES[problem.dtype])
    np.testing.assert_array_equal(stored.astype(np.float32), expected.astype(np.float32))
