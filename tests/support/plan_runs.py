"""Launches of a family's plan on a GPU, in poisoned memory: what it stores, and nothing beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conv_cases import DTYPES, normals, small_integers, torch_answer, work
from family_problems import module_of, problem_of, reading_of
from gpu import cupy_or_skip, launch_kernels

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.registry import family_of
from convir.reference.checking.compare import largest_error
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from family_problems import Reading

    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.runtime.program import Array

AROUND = 512
"""Elements before and behind a result that no kernel may touch; whole lines of memory."""
HALF_ULP = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53}
TIMES = 3


def assert_computes(
    reading: Reading,
    plan: KernelPlan,
    arguments: Sequence[Array],
    expected: Array,
    dtype: str,
    terms: int = 0,
    times: int = TIMES,
) -> None:
    """A plan stores `expected`: the same bits every time, and nothing around them.

    Args:
        reading: the program's kernel, which `plan` computes.
        plan: the launches.
        arguments: of the program, in order.
        expected: the result, in its shape; rounded to `dtype` here.
        dtype: of the result.
        terms: products that are added into one element, which the tolerance is from: half an ulp of
            the result or as many of the sum as there are terms. 0: sums are exact, as those of
            small integers, and so is the result.
        times: launches; every one finds its result and its workspace poisoned.
    """
    cupy: Any = cupy_or_skip()
    wanted = expected.astype(DTYPES[dtype])
    # CuPy has no bfloat16 of NumPy's: all travel as their bytes.
    inputs = [
        cupy.asarray(np.ascontiguousarray(arguments[i]).view("u1")) for i in reading.arguments
    ]
    around, size = AROUND * wanted.dtype.itemsize, wanted.nbytes
    kernels = plan.resolved(reading.problem.place).kernels
    state = [cupy.zeros(nbytes, "u1") for nbytes in plan.state]
    found: list[bytes] = []
    for _ in range(times):
        # 0x7FFF is a NaN of both types of 16 bits, and twice or four times one of f32 and f64.
        memory = cupy.full((size + 2 * around) // 2, 0x7FFF, "u2").view("u1")
        workspace = [cupy.full(-(-nbytes // 2), 0x7FFF, "u2") for nbytes in plan.workspace]
        places: dict[Pointer, int] = {Pointer("output"): memory.data.ptr + around}
        for place, buffers in (("input", inputs), ("workspace", workspace), ("state", state)):
            places |= {Pointer(place, i): b.data.ptr for i, b in enumerate(buffers)}  # pyright: ignore[reportArgumentType]
        launch_kernels(kernels, places)
        stored: Array = cupy.asnumpy(memory)
        untouched = np.concatenate([stored[:around], stored[-around:]]).view("u2")
        assert (untouched == 0x7FFF).all(), "something beside the result is written"
        assert not any(flags.any() for flags in state), "the flags are not left zero"
        found.append(stored[around:-around].tobytes())
    assert len(set(found)) == 1, "the bits differ from run to run"
    result = np.frombuffer(found[0], wanted.dtype).reshape(wanted.shape)
    if not terms:
        np.testing.assert_array_equal(result.astype(np.float64), wanted.astype(np.float64))
        return
    relative = max(HALF_ULP[dtype], HALF_ULP["f64" if dtype == "f64" else "f32"] * terms)
    worst = largest_error(expected, result.astype(np.float64), relative)
    assert worst.error <= worst.allowed, worst


def check_config(line: str, config: str, *, exact: bool = True, times: int = TIMES) -> None:
    """A config computes a MIOpenDriver line: small integers exactly, or real numbers."""
    cupy_or_skip()
    problem, gpu = problem_of(line), toolkit.gpu()
    reading, family = reading_of(module_of(problem)), family_of(config)
    assert not isinstance(reading, Refusal), reading.reason
    assert family is not None
    plan = family.launch(reading.problem, family.parse(config), gpu)
    if isinstance(plan, Refusal) and not gpu.is_hopper:
        pytest.skip(plan.reason)
    assert not isinstance(plan, Refusal), plan.reason
    make = small_integers if exact else normals
    lhs, rhs = (make(shape, problem.dtype, i) for i, shape in enumerate(problem.shapes[:2], 1))
    expected = torch_answer(problem, lhs, rhs)
    terms = 0 if exact else work(problem)
    assert_computes(reading, plan, [lhs, rhs], expected, problem.dtype, terms, times)
