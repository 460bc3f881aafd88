"""Loops of random kernels against the reference: compiled for three CPUs, and through NVRTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from gpu import nvrtc_or_skip, source_named
from host_kernels import TARGETS, assert_same, poisoned, program_text, run_program, runnable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs.kernels import random_kernels

from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.loops.cuda.plan_loops import plan_loops
from convir.reference import evaluate
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.compile import compile_cubin
from convir.runtime.executable import Executable
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from random_programs.function import RandomFunction
    from xdsl.dialects.builtin import ModuleOp


def text_of(drawn: RandomFunction) -> str:
    return program_text(
        drawn.text("kernel.func", "k"),
        [v.buffer for v in drawn.inputs],
        [v.buffer for v in drawn.results],
    )


@pytest.mark.parametrize("target", TARGETS)
@given(random_kernels(), st.integers(0, 1 << 16))
@settings(max_examples=40, deadline=None)
def test_kernels_are_their_bodies(target: str, drawn: RandomFunction, seed: int) -> None:
    cpu = runnable(target)
    if cpu is None:
        pytest.skip(f"this machine does not run {target} code")
    text = text_of(drawn)
    arguments = drawn.arguments(seed)
    with np.errstate(all="ignore"):
        expected = evaluate(read_module(text), "main", arguments)
        found = run_program(text, arguments, cpu)
    for i, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        assert_same(got, wanted, f"result {i} of\n{drawn.text('kernel.func', 'k')}")


def sources(module: ModuleOp) -> str:
    """All kernels as one source: what two compute alike has one name."""
    function = next(op for op in module.walk() if isinstance(op, kernel.FuncOp))
    launches = enumerate(plan_loops(function, restrict=True).kernels)
    return "\n".join(source_named(launch, f"k{number}") for number, launch in launches)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@given(random_kernels())
@settings(max_examples=5, deadline=None)
def test_kernels_compile_for_gpus(arch: str, drawn: RandomFunction) -> None:
    nvrtc_or_skip()
    assert compile_cubin(sources(read_module(text_of(drawn))), arch)


# Each example compiles a kernel: parts, so that several processes share them.
@pytest.mark.gpu
@pytest.mark.parametrize("part", range(10))
@given(drawn=random_kernels(), seed=st.integers(0, 1 << 16))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_kernels_on_a_gpu(part: int, drawn: RandomFunction, seed: int) -> None:
    try:
        toolkit.require_gpu(0)
    except toolkit.NoGpuError as error:
        pytest.skip(str(error))
    from convir.runtime.cuda.device import CudaProgram  # noqa: PLC0415  (needs a GPU)

    cupy = toolkit.cupy()
    module = read_module(text_of(drawn))
    arguments = drawn.arguments(seed)
    with np.errstate(all="ignore"):
        expected = evaluate(module, "main", arguments)
    executable = Executable(CudaProgram(read_program(module)))
    outputs = [cupy.asarray(poisoned(spec.shape, spec.dtype)) for spec in executable.outputs]
    executable(*map(cupy.asarray, arguments), out=outputs)
    for i, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        assert_same(cupy.asnumpy(got), wanted, f"result {i} of\n{drawn.text('kernel.func', 'k')}")
