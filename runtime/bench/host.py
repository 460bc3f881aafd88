"""Benchmarks on the CPU: our programs, PyTorch and onnxruntime, all on the same threads."""

from __future__ import annotations

import os
import platform
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.lowering.implementations import HOST
from convir.reference.checking.compare import Difference, largest_error
from convir.reference.checking.inputs import DTYPES
from convir.runtime.bench.candidate import Candidate, Failed
from convir.runtime.bench.ceilings import host_ceilings
from convir.runtime.bench.peers.onnx_peer import onnxruntime_candidates
from convir.runtime.bench.peers.torch_peer import numpy_of, torch_candidates
from convir.runtime.bench.timing import host_us, settled_us

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects.conv.problem import ConvProblem
    from convir.runtime.bench.row import Ceilings
    from convir.runtime.executable import Executable
    from convir.runtime.program import Array

_VECTORS = ("fma", "f16c", "avx", "amx")
"""How the names of features begin that say what is multiplied."""


class HostBench:
    """The CPU on a fixed number of threads."""

    name = "host"
    prepares_weights = True

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._out: Array | None = None

    def describe(self) -> dict[str, Any]:
        """The processor, our threads, and what may slow NumPy's BLAS down."""
        return {
            "device": self.name,
            "cpu": _cpu_model(),
            "cpu features": _vector_features(),
            "threads": self.threads,
            "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE"),
            "clock": "the host's, around calls in a row",
            "reference": "f64: the formula in NumPy",
        }

    def ceilings(self, dtype: str) -> Ceilings:
        """Register-only multiply-adds, and a copy, on our threads."""
        return host_ceilings(dtype, self.threads)

    def inputs(self, problem: ConvProblem, seed: int) -> Sequence[Array]:
        """Normally distributed operands, as NumPy arrays."""
        rng = np.random.default_rng(seed)
        dtype = DTYPES[problem.dtype]
        return [
            rng.standard_normal(shape, dtype=np.float32).astype(dtype)
            for shape in problem.shapes[:2]
        ]

    def rearranged(self, problem: ConvProblem) -> Sequence[ConvProblem]:
        """Channels last, as a network that assigns layouts has it, beside the peers' rows."""
        other = problem.channels_last
        return () if other == problem else (other,)

    def arranged(self, operand: Array, axes: Sequence[int]) -> Array:
        """By NumPy."""
        return np.ascontiguousarray(operand.transpose(axes))

    def ours(self, backend: str, executable: Executable, inputs: Sequence[Array]) -> Candidate:
        """A program of ours, writing into one array: that of the program before, if it fits, as
        where a result lies may matter more than what differs between two programs."""
        (spec,) = executable.outputs
        out = self._out
        if out is None or (out.shape, out.dtype) != (spec.shape, spec.dtype):
            out = self._out = executable.empty(spec)
        calls = "+".join(executable.program.summary(HOST))

        def call() -> None:
            executable(*inputs, out=out)

        call()
        return Candidate(
            backend, "as given", calls, call, lambda: out, lambda: out.fill(float("nan"))
        )

    def expected(
        self, problem: ConvProblem, inputs: Sequence[Array], formula: Callable[..., Array]
    ) -> Array:
        """The formula in NumPy."""
        del problem
        return formula(inputs)

    def difference(self, expected: Array, result: Any, relative: float) -> Difference:
        """By NumPy."""
        on_host: Any = result
        if hasattr(result, "is_contiguous"):
            on_host = numpy_of(result)
        return largest_error(expected, on_host, relative)

    def clock(self, call: Callable[[], object], repeats: int) -> float:
        """µs per call by the host's clock, when no other backend's threads are awake."""
        return host_us(call, repeats) if self.threads == 1 else settled_us(call, repeats)

    def peer(
        self, name: str, problem: ConvProblem, inputs: Sequence[Array]
    ) -> list[Candidate | Failed]:
        """PyTorch in both layouts, or onnxruntime, on our threads."""
        try:
            if name == "torch":
                import_module("torch").set_num_threads(self.threads)
                return torch_candidates(name, problem, inputs, "cpu")
            return onnxruntime_candidates(problem, inputs, self.threads)
        except ImportError as error:
            return [Failed(name, "-", f"not installed: {error}")]


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            named = [line for line in info if line.startswith("model name")]
    except OSError:
        named = []
    return named[0].partition(":")[2].strip() if named else platform.processor()


def _vector_features() -> list[str]:
    """What the processor multiplies with, as `/proc/cpuinfo` calls it; empty elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            flags = [line for line in info if line.startswith("flags")]
    except OSError:
        flags = []
    return [flag for flag in (flags[0].split() if flags else ()) if flag.startswith(_VECTORS)]
