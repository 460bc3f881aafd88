"""Every kernel of every line of the suites compiles for both generations, without spills.

What is launched for a line is planned as on a GPU, templates included, and compiled by NVRTC,
which needs none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu import nvrtc_or_skip

from convir.cli.jobs.bench_problems import cuda_kernels, problems_of
from convir.frontends.miopen import parse_line, strip_comment
from convir.lowering.kernels.target import DEFAULT_TARGET, Target, target_of
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.compile import compile_cubin, kernel_usage
from convir.runtime.cuda.toolchain.usage import Usage, parse_usage

if TYPE_CHECKING:
    from convir.dialects.conv.problem import ConvProblem

SUITES = Path(__file__).parents[4] / "benchmarks" / "suites"
A100 = target_of("sm_80", multiprocessors=108, shared_bytes=163 << 10)


def problems_in(suite: Path) -> list[ConvProblem]:
    lines = map(strip_comment, suite.read_text().splitlines())
    return problems_of([parse_line(line) for line in lines if line.strip()])


@pytest.mark.parametrize("gpu", [A100, DEFAULT_TARGET], ids=lambda gpu: gpu.arch)
@pytest.mark.parametrize("suite", sorted(SUITES.glob("*.txt")), ids=lambda path: path.stem)
def test_kernels_compile_without_spills(suite: Path, gpu: Target) -> None:
    nvrtc_or_skip()
    spilled: list[str] = []
    for problem in problems_in(suite):
        for kernel in cuda_kernels(problem, gpu):
            assert compile_cubin(kernel.source, gpu.arch)
            usage = kernel_usage(kernel.source, gpu.arch)[kernel.symbol]
            assert kernel.shared_bytes <= gpu.shared_bytes
            if usage.spill_bytes > kernel.spill_bytes:
                spilled.append(f"{kernel.symbol} of {problem}: {usage}")
    assert not spilled, "\n".join(spilled)


def test_spills_are_seen() -> None:
    log = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 's' for 'sm_90a'
ptxas info    : Function properties for s
ptxas         .     40 bytes stack frame, 36 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 40 bytes cumulative stack size
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 256 bytes cumulative stack size
"""
    assert parse_usage(log) == {"s": Usage(64, 40, 80), "k": Usage(32, 256, 0)}


def test_serial_products_are_seen() -> None:
    log = """
ptxas info    : (C7520) Potential Performance Loss: wgmma.mma_async instructions are serialized \
due to program dependence on compiler-inserted WG.AR in divergent path in the function 'k'
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Used 128 registers, used 2 barriers
ptxas info    : Compiling entry function 's' for 'sm_90a'
ptxas info    : Used 32 registers, used 1 barriers
"""
    assert parse_usage(log) == {"k": Usage(128, 0, 0, is_serial=True), "s": Usage(32, 0, 0)}


def test_spills_of_a_kernel() -> None:
    try:
        toolkit.nvrtc()
    except toolkit.NoGpuError as error:
        pytest.skip(str(error))
    source = """
extern "C" __global__ void __launch_bounds__(1024) crowded(float *a) {
  float v[100];
  #pragma unroll
  for (int j = 0; j < 100; ++j) v[j] = a[j * threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int j = 0; j < 100; ++j) a[j * 7 + threadIdx.x] = v[j] * v[99 - j] * v[(j * 31) % 100];
}
extern "C" __global__ void idle() {}
"""
    usage = kernel_usage(source, "sm_90a")
    assert usage["crowded"].spill_bytes > 0
    assert usage["idle"].spill_bytes == 0
