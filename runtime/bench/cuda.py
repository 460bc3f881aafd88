"""Benchmarks on a GPU: our programs beside cuDNN through PyTorch, timed by events, L2 flushed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from convir.lowering.implementations import CUDA
from convir.runtime.bench.host import our_candidate
from convir.runtime.bench.row import Ceilings
from convir.runtime.bench.torch_peer import torch_candidates
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects.problem import ConvProblem
    from convir.runtime.bench.device import Candidate, Failed
    from convir.runtime.executable import Executable
    from convir.runtime.program import Array

FLUSH_BYTES = 1 << 28
"""Written between two timed calls: several times any GPU's L2."""
COPY_BYTES = 1 << 31
GEMM_SIZE = 8192
CEILING_REPEATS = 10

_TORCH_DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


class CudaBench:
    """One GPU; our programs and PyTorch's both run on the default stream."""

    def __init__(self, index: int) -> None:
        toolkit.require_gpu(index)
        self.name = f"cuda:{index}"
        self._cupy: Any = toolkit.cupy()
        self._cupy.cuda.Device(index).use()
        self._flush: Any = self._cupy.empty(FLUSH_BYTES, "u1")

    def describe(self) -> dict[str, Any]:
        """The GPU, its driver, and the libraries that both sides use."""
        runtime = self._cupy.cuda.runtime
        properties = runtime.getDeviceProperties(self._cupy.cuda.Device().id)
        torch = import_module("torch")
        return {
            "device": self.name,
            "gpu": properties["name"].decode(),
            "multiprocessors": properties["multiProcessorCount"],
            "driver": runtime.driverGetVersion(),
            "cuda": runtime.runtimeGetVersion(),
            "cudnn": torch.backends.cudnn.version(),
            "clock": "events around one call, L2 flushed before",
        }

    def ceilings(self, dtype: str) -> Ceilings:
        """A square GEMM of cuBLAS and a device-to-device copy; f32 is IEEE f32."""
        return _ceilings(dtype)

    def ours(self, executable: Executable, inputs: Sequence[Array]) -> Candidate:
        """Our program on CuPy arrays."""
        arrays = [self._cupy.asarray(array) for array in inputs]
        return our_candidate(executable, CUDA, arrays, self._cupy.asnumpy)

    def peer(
        self, name: str, problem: ConvProblem, inputs: Sequence[Array]
    ) -> list[Candidate | Failed]:
        """cuDNN, autotuned, in both layouts, with our arithmetic: no TF32."""
        torch = import_module("torch")
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False
        return torch_candidates(name, problem, inputs, self.name)

    def clock(self, call: Callable[[], object], repeats: int) -> float:
        """µs of one call by events after L2 was flushed; `repeats` is for the host's clock."""
        del repeats
        cuda = self._cupy.cuda
        self._flush.fill(0)
        start, end = cuda.Event(), cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        return 1e3 * float(cuda.get_elapsed_time(start, end))


@cache
def _ceilings(dtype: str) -> Ceilings:
    torch: Any = import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    matrix = torch.randn(GEMM_SIZE, GEMM_SIZE, device="cuda").to(
        getattr(torch, _TORCH_DTYPES[dtype])
    )
    product_us = _best_us(torch, lambda: matrix @ matrix)
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy_us = _best_us(torch, lambda: target.copy_(source))
    return Ceilings(2 * GEMM_SIZE**3 / product_us / 1e3, 2 * COPY_BYTES / copy_us / 1e3)


def _best_us(torch: Any, call: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(CEILING_REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(1e3 * float(start.elapsed_time(end)))
    return sorted(times)[CEILING_REPEATS // 2]
