"""Launches of one config of a template for gradients of weights, on a GPU, on poisoned memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from contraction_readings import reading
from conv_cases import DTYPES
from gpu import cupy_or_skip, launch_kernels

from convir.analysis.refusal import Refusal
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.cuda.launch import Pointer

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.cuda.problem import ContractionProblem
    from convir.runtime.program import Array

POISON = 0x7FFF
"""A NaN, in both 16-bit types and in f32."""


def gradients(
    text: str,
    plan_of: Callable[[ContractionProblem], KernelPlan | Refusal],
    lhs: Array,
    rhs: Array,
    times: int = 1,
) -> list[Array]:
    """The gradients of a MIOpenDriver line's weights, launched `times` times, all on one state.

    Args:
        text: the line; its result is 16-bit.
        plan_of: the launches.
        lhs: the input, of the line's shape.
        rhs: the output's gradient.
        times: launches; every one finds its result and its workspace poisoned.
    """
    cupy = cupy_or_skip()
    (problem,) = parse_line(text).problems.values()
    plan = plan_of(reading(text))
    assert not isinstance(plan, Refusal), plan.reason
    state = [cupy.zeros(size, "u1") for size in plan.state]
    found: list[Array] = []
    for _ in range(times):
        out: Any = cupy.full(problem.shapes[2], POISON, "u2")
        workspace = [cupy.full(size // 4, np.nan, "f4") for size in plan.workspace]
        # CuPy has no bfloat16 of NumPy's: all three travel as their bits.
        memory: dict[Pointer, Any] = {
            Pointer("a"): cupy.asarray(lhs.view("u2")),
            Pointer("c"): cupy.asarray(rhs.view("u2")),
            Pointer("b"): out,
        }
        memory |= {Pointer("workspace", i): buffer for i, buffer in enumerate(workspace)}
        memory |= {Pointer("state", i): buffer for i, buffer in enumerate(state)}
        addresses = {pointer: buffer.data.ptr for pointer, buffer in memory.items()}
        launch_kernels(plan.kernels, addresses)
        assert not any(flags.any() for flags in state), "the flags are left clean"
        found.append(cupy.asnumpy(out).view(DTYPES[problem.dtype]))
    return found
