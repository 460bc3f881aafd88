"""The problems of a benchmark as modules, and their kernels compiled ahead of the clock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from convir.api.compile import DEFAULT_PIPELINE
from convir.cli.files.bench_lines import named_problems
from convir.cli.jobs.processes import spread
from convir.dialects.context import new_context
from convir.frontends.conv_module import function_of
from convir.lowering.kernel_code import cuda_plans
from convir.lowering.kernels.target import Target
from convir.lowering.pipeline import lowering_passes
from convir.lowering.tensor_passes import passes_for
from convir.passes import run
from convir.passes.manager.pipeline_text import parse_pipeline
from convir.runtime.bench.row import LIBRARY, OURS, PLAIN
from convir.runtime.cuda.toolchain.compile import compile_cubin
from convir.runtime.devices import CUDA, find_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from convir.dialects.conv.problem import ConvProblem
    from convir.frontends.miopen import ConvLine
    from convir.lowering.kernels.cuda.launch import CudaKernel

PLAIN_PIPELINE = "convert-conv-to-linalg"
"""What has to be run even where nothing is rewritten."""
LIBRARY_PIPELINE = (
    f"{DEFAULT_PIPELINE},fuse-epilogue,form-kernel-regions,"
    "select-kernels{device=cuda without=template}"
)
"""All rewrites, and contractions as calls of cuBLAS or loops."""
PIPELINES = {OURS: DEFAULT_PIPELINE, PLAIN: PLAIN_PIPELINE, LIBRARY: LIBRARY_PIPELINE}
"""The passes behind each backend that is a program of ours."""


def pipeline_of(backend: str, *, allow_tf32: bool = False) -> str:
    """The passes of a program of ours, as text."""
    return f"allow-tf32,{PIPELINES[backend]}" if allow_tf32 else PIPELINES[backend]


def problems_of(lines: Sequence[ConvLine]) -> list[ConvProblem]:
    """The problems of all lines, in order."""
    return [problem for _, problem in named_problems(lines)]


def module_of(problem: ConvProblem, weights: npt.NDArray[Any] | None = None) -> ModuleOp:
    """A module whose function `main` computes `problem`, with `weights` as a constant if given."""
    return ModuleOp([function_of("main", problem, weights)])


def precompile(
    problems: Sequence[ConvProblem], device: str, jobs: int, *, allow_tf32: bool = False
) -> Iterator[None]:
    """Put the kernels of all problems into the cache of cubins, with so many processes; an item for
    each that is done.

    What cannot be compiled is left out: it fails again, with a reason, where it is run.
    """
    gpu = str(find_device(device).gpu)
    compiled = partial(_compile_kernels, gpu=gpu, allow_tf32=allow_tf32)
    yield from spread(compiled, problems, jobs)


def cuda_kernels(
    problem: ConvProblem, gpu: Target, *, allow_tf32: bool = False
) -> list[CudaKernel]:
    """The kernels that compute `problem` on a GPU after the default pipeline.

    Raises:
        DiagnosticError: a kernel has no code for a GPU.
    """
    passes = parse_pipeline(pipeline_of(OURS, allow_tf32=allow_tf32))
    module = run(module_of(problem), passes_for(CUDA, passes, gpu)).module
    PassPipeline(lowering_passes(CUDA, gpu=gpu)).apply(new_context(), module)
    return [kernel for _, plan in cuda_plans(module, gpu) for kernel in plan.kernels]


def _compile_kernels(problem: ConvProblem, gpu: str, *, allow_tf32: bool) -> None:
    planned = Target.parse(gpu)
    try:
        for kernel in cuda_kernels(problem, planned, allow_tf32=allow_tf32):
            compile_cubin(kernel.source, planned.arch)
    except Exception:
        return
