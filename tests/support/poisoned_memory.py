"""Kernels that write between NaNs: what they store, and that nothing around it is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from conv_cases import DTYPES, normals, small_integers, torch_answer
from cuda_contractions import kernels_of
from gpu import cupy_or_skip
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.dialects.refusal import Refusal
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.registry import choose
from convir.lowering.kernels.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from collections.abc import Collection


def check_template(line: str, families: Collection[str]) -> None:
    """A template of one of `families` is chosen, stores every element, and nothing around them."""
    cupy = cupy_or_skip()
    (problem,) = parse_line(line).problems.values()
    (callee,) = kernels_of(problem)
    choice = choose(callee, DEFAULT_TARGET)
    assert not isinstance(choice, Refusal)
    assert str(choice.config).split()[0] in families
    lhs, rhs = (small_integers(s, problem.dtype, i) for i, s in enumerate(problem.shapes[:2]))
    expected = torch_answer(problem, lhs, rhs).astype(DTYPES[problem.dtype])
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda")
    (spec,) = executable.outputs
    around = 256
    size = int(np.prod(spec.shape))
    memory = cupy.full(size + 2 * around, cupy.nan, spec.dtype)
    out = memory[around : around + size].reshape(spec.shape)
    executable(cupy.asarray(lhs), cupy.asarray(rhs), out=out)
    found: Any = cupy.asnumpy(memory).astype("f8")
    assert np.array_equal(found[around:-around].reshape(spec.shape), expected.astype("f8"))
    assert np.isnan(found[:around]).all()
    assert np.isnan(found[-around:]).all()


def check_same_bits(line: str) -> None:
    """A line's program computes the same bits run after run, however its blocks meet."""
    cupy = cupy_or_skip()
    (problem,) = parse_line(line).problems.values()
    lhs, rhs = (
        cupy.asarray(normals(s, problem.dtype, i)) for i, s in enumerate(problem.shapes[:2])
    )
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda")
    runs = [cupy.asnumpy(executable(lhs, rhs)[0]).tobytes() for _ in range(4)]
    assert len(set(runs)) == 1
