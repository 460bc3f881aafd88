"""Planar programs as CUDA kernels: emulated, compiled without a GPU, and run where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from emulated_cuda import emulate, missing
from gpu import cupy_or_skip, launch_kernels, nvrtc_or_skip
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planar_cases import Case, Problem, cases, convolution, layer

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.target import DEFAULT_TARGET, Target, target_of
from convir.lowering.loops.cuda.planar import PlanarCode, PlanarLaunch, planar_code
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.compile import kernel_usage

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

WITHOUT_CLUSTERS = target_of("sm_80", multiprocessors=108, shared_bytes=163 << 10)
FRAMES = (1, 17, 32, 33, 64, 100, 513)


def code_of(problem: Problem, gpu: Target) -> PlanarCode:
    """The kernel of a problem; the packed array is the argument behind the last one."""
    numbers = range(len(problem.arrays))
    launch = PlanarLaunch(
        problem.program, problem.binding, tuple(Pointer("input", n) for n in numbers)
    )
    code = planar_code([launch], Pointer("input", len(numbers)), gpu)
    assert not isinstance(code, Refusal), code.reason
    return code


def packed(code: PlanarCode, arrays: list[Array]) -> Array:
    content = np.full(max(1, code.kept_floats), np.nan, np.float32)
    for kept in code.kept:
        numbers = arrays[kept.argument.index].reshape(-1)
        content[kept.place : kept.place + kept.count] = numbers[: kept.count]
    return content


def run_emulated(problem: Problem, folder: Path) -> None:
    code = code_of(problem, WITHOUT_CLUSTERS)
    arrays = [*problem.arrays, packed(code, problem.arrays)]
    emulate(KernelPlan((code.kernel,)), arrays, (), folder)
    problem.check()


def run_on_gpu(problem: Problem) -> None:
    cupy = cupy_or_skip()
    code = code_of(problem, toolkit.gpu())
    arrays = [cupy.asarray(x) for x in (*problem.arrays, packed(code, problem.arrays))]
    addresses = {
        pointer: arrays[pointer.index].data.ptr
        for pointer in code.kernel.arguments
        if isinstance(pointer, Pointer)
    }
    launch_kernels([code.kernel], addresses)
    for array, there in zip(problem.arrays, arrays, strict=False):
        array[...] = cupy.asnumpy(there)
    problem.check()


def one_image(case: Case) -> Case:
    return Case(case.groups, case.depth, case.columns, case.taps, case.dilation, case.frames, 1)


@given(case=cases(), seed=st.integers(0, 99))
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_convolutions_emulated(case: Case, seed: int, tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    problem = convolution(one_image(case), seed)
    if isinstance(code := planar_code_or_refusal(problem), Refusal):
        assert "shared memory" in code.reason
        return
    run_emulated(problem, tmp_path)


def planar_code_or_refusal(problem: Problem) -> PlanarCode | Refusal:
    pointers = tuple(Pointer("input", n) for n in range(3))
    launch = PlanarLaunch(problem.program, problem.binding, pointers)
    return planar_code([launch], Pointer("workspace"), WITHOUT_CLUSTERS)


@pytest.mark.parametrize("frames", FRAMES)
def test_a_layer_emulated(frames: int, tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    run_emulated(layer(frames), tmp_path)


@pytest.mark.parametrize("gpu", [DEFAULT_TARGET, WITHOUT_CLUSTERS], ids=lambda gpu: gpu.arch)
@pytest.mark.parametrize("frames", [17, 64, 513])
def test_a_layer_compiles_without_spills(frames: int, gpu: Target) -> None:
    nvrtc_or_skip()
    kernel = code_of(layer(frames), gpu).kernel
    usage = kernel_usage(kernel.source, gpu.arch)
    assert usage[kernel.symbol].spill_bytes == 0
    clusters = frames > 64 and gpu.is_hopper
    assert ("__cluster_dims__" in kernel.source) == clusters


def test_several_images_are_refused() -> None:
    problem = convolution(Case(1, 4, 4, 3, 1, 64, 2), 0)
    code = planar_code_or_refusal(problem)
    assert isinstance(code, Refusal)
    assert code.reason == "it computes several images"


def test_launches_of_one_program_share_a_function() -> None:
    problems = [convolution(Case(1, 4, 4, 3, dilation, 64, 1), 0) for dilation in (1, 2, 4)]
    launches = [
        PlanarLaunch(p.program, p.binding, tuple(Pointer("input", 3 * i + n) for n in range(3)))
        for i, p in enumerate(problems)
    ]
    code = planar_code(launches, Pointer("workspace"), DEFAULT_TARGET)
    assert not isinstance(code, Refusal)
    assert code.kernel.source.count("void planar0(") == 1
    assert code.kernel.source.count("  planar0(") == len(launches)
    assert len(code.kept) == len(launches)


@pytest.mark.gpu
@pytest.mark.parametrize("frames", [*FRAMES, 1029])
def test_a_layer_on_a_gpu(frames: int) -> None:
    run_on_gpu(layer(frames))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "case",
    [
        Case(1, 16, 16, 3, 512, 64, 1),
        Case(1, 64, 64, 3, 2, 7, 1),
        Case(4, 3, 5, 16, 7, 100, 1),
        Case(64, 1, 1, 5, 1, 513, 1),
        Case(1, 1, 1, 1, 1, 1, 1),
        Case(2, 7, 9, 13, 64, 33, 1),
        Case(8, 2, 1, 4, 3, 2112, 1),
    ],
)
def test_convolutions_on_a_gpu(case: Case) -> None:
    run_on_gpu(convolution(case, 5))
