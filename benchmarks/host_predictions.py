"""What families of the host are predicted to take, beside what they take on one thread.

    OPENBLAS_NUM_THREADS=1 python benchmarks/host_predictions.py benchmarks/suites/grouped-host.txt

A line for each kernel that several families compute, libraries and loops included: the family, the
prediction and the measured time in µs, weights packed in each call. Times are those of the calling
thread alone, the least of many calls, without Python between the launches of one.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from xdsl.passes import PassPipeline

from convir.analysis.cost import size_in_bytes
from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import module_of_line
from convir.frontends.miopen import parse_line, strip_comment
from convir.lowering.kernels.host.launch import Argument, HostLaunch
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.registry import FAMILIES
from convir.lowering.kernels.host.target import target
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.runtime.arrays.host_memory import aligned_bytes
from convir.runtime.host.gemm import run_gemm
from convir.runtime.host.jit import AS_EMITTED, CompileOptions, compile_ir
from convir.runtime.host.pool import shared_pool
from convir.runtime.program import Buffer, Gemm, Space

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.kernels.library.gemm_call import GemmCall

REPEATS = 32
"""Calls that are timed together where one is short."""
LONG_US = 100.0
"""Of a call that is timed alone."""


def calls_of(launch: HostLaunch, body: KernelBody) -> Callable[[int], None]:
    """What runs all stages of a launch on the calling thread."""
    options = AS_EMITTED if launch.code.is_final else CompileOptions()
    library = compile_ir(launch.ir, exports=launch.entries, cpu=target(), options=options)
    types = body.function.function_type
    memory = {
        place: [aligned_bytes(size_in_bytes(each), zeroed=True) for each in given]
        for place, given in (("input", types.inputs), ("output", types.outputs))
    }
    workspace = {name: aligned_bytes(size) for name, size in launch.workspace.items()}
    pool, rows, tables = shared_pool(), list[int](), list[ctypes.Array[ctypes.c_void_p]]()
    stages = (*launch.prepare, *launch.stages)
    for stage in stages:
        addresses = [
            (memory[x.place][x.index] if isinstance(x, Argument) else workspace[x]).ctypes.data
            for x in stage.buffers
        ]
        tables.append((ctypes.c_void_p * len(addresses))(*addresses))
        table = ctypes.addressof(tables[-1])
        rows += pool.described(library.address(stage.entry), table, stage.items, 1)
    words = (ctypes.c_int64 * (len(rows) * REPEATS))(*rows * REPEATS)
    kept = library, memory, workspace, tables, words

    def call(times: int) -> None:
        pool.run(ctypes.addressof(kept[-1]), times * len(stages), together=False)

    return call


def gemm_of(call: GemmCall, body: KernelBody) -> Callable[[int], None]:
    """What calls the BLAS as a program does."""
    types = body.function.function_type
    inputs = [aligned_bytes(size_in_bytes(each), zeroed=True) for each in types.inputs]
    (output,) = (aligned_bytes(size_in_bytes(each), zeroed=True) for each in types.outputs)
    element = np.dtype(np.float64 if "f64" in str(types.outputs.data[0]) else np.float32)
    layout = call.layout
    order = (call.rhs, call.lhs) if layout.swapped else (call.lhs, call.rhs)
    a, b = (inputs[index] for index in order)
    buffer = Buffer(Space.ARENA, 0, 0, (), element)
    m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c = layout.sizes().values()
    gemm = Gemm(
        *(buffer, buffer, buffer, m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c),
        transpose_a=layout.transpose_a,
        transpose_b=layout.transpose_b,
        accumulate=call.init is not None,
    )

    def repeated(times: int) -> None:
        for _ in range(times):
            run_gemm(gemm, a, b, output)

    return repeated


def measured_us(call: Callable[[int], None], budget_s: float) -> float:
    """µs of one call, the least of many."""
    found: list[float] = []
    repeats = 1
    end = time.monotonic() + budget_s
    while not found or time.monotonic() < end:
        begin = time.thread_time_ns()
        call(repeats)
        found.append((time.thread_time_ns() - begin) / repeats / 1000)
        repeats = REPEATS if found[0] < LONG_US else 1
    return min(found)


def families_of(body: KernelBody, budget_s: float) -> list[str]:
    """`FAMILY PREDICTED MEASURED` of every family that computes a kernel by launches."""
    found: list[str] = []
    cpu = target()
    for family in FAMILIES:
        problem = family.problem(body, cpu)
        if isinstance(problem, Refusal):
            continue
        config = family.parse(family.name)
        launch = family.launch(problem, config, cpu)
        if isinstance(launch, Refusal):
            continue
        calls = calls_of(launch, body) if isinstance(launch, HostLaunch) else gemm_of(launch, body)
        us = measured_us(calls, budget_s)
        found.append(f"{config} {family.predict(problem, config, cpu):.3g} {us:.3g}")
    return found


def main() -> None:
    """Print a line for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", type=Path)
    parser.add_argument("--budget", type=float, default=0.25, help="seconds for each family")
    options = parser.parse_args()
    lines = [line for suite in options.suites for line in suite.read_text().splitlines()]
    for line in filter(None, (strip_comment(line).strip() for line in lines)):
        module = run(module_of_line(parse_line(line)), "default").module
        PassPipeline(lowering_passes("host")).apply(new_context(), module)
        for op in module.walk():
            if not isinstance(op, kernel.FuncOp):
                continue
            found = families_of(KernelBody(op), options.budget)
            print(line, *found, sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
