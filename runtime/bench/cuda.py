"""Benchmarks on a GPU: our programs beside cuDNN through PyTorch, timed by events, L2 flushed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from convir.lowering.implementations import CUDA
from convir.reference.dtypes import BFLOAT16
from convir.runtime.bench.candidate import Candidate
from convir.runtime.bench.peers.torch_peer import torch_candidates
from convir.runtime.bench.peers.torch_reference import REFERENCE, convolve, largest_difference
from convir.runtime.bench.row import Ceilings
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects.conv.problem import ConvProblem
    from convir.reference.checking.compare import Difference
    from convir.runtime.bench.candidate import Failed
    from convir.runtime.executable import Executable

Clock: TypeAlias = Literal["events", "graph", "calls"]
CALLS = 32
"""Calls in a graph, for the clock of that name."""
CLOCKS: dict[Clock, str] = {
    "events": "events around one call, L2 flushed before",
    "graph": "events around one replay of a CUDA graph, L2 flushed before",
    "calls": f"events around one replay of a CUDA graph of {CALLS} calls in a row, per call; "
    "L2 flushed before the first",
}
"""What a time is taken of."""

FLUSH_BYTES = 1 << 30
"""Written between two timed calls: several times any GPU's L2, and long enough for the host to have
queued the call before the GPU comes to it."""
COPY_BYTES = 1 << 31
GEMM_SIZE = 8192
CEILING_REPEATS = 10

_TORCH_DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


class CudaBench:
    """One GPU; our programs and PyTorch's both run on the default stream."""

    prepares_weights = False

    def __init__(self, index: int, clock: Clock = "events", *, allow_tf32: bool = False) -> None:
        """Raises NoGpuError where there is no such GPU, ImportError without PyTorch.

        With `allow_tf32` the peers and the ceilings multiply f32 as TF32.
        """
        toolkit.require_gpu(index)
        self.name = f"cuda:{index}"
        self._clock: Clock = clock
        self._calls = CALLS if clock == "calls" else 1
        self._cupy: Any = toolkit.cupy()
        self._torch: Any = import_module("torch")
        self._cupy.cuda.Device(index).use()
        self._torch.cuda.set_device(index)
        self._torch.backends.cudnn.benchmark = True
        self._torch.backends.cudnn.allow_tf32 = allow_tf32
        self._torch.backends.cuda.matmul.allow_tf32 = allow_tf32
        self._flush: Any = self._cupy.empty(FLUSH_BYTES, "u1")

    def describe(self) -> dict[str, Any]:
        """The GPU, its driver, and the libraries that both sides use."""
        runtime = self._cupy.cuda.runtime
        properties = runtime.getDeviceProperties(self._cupy.cuda.Device().id)
        return {
            "device": self.name,
            "gpu": properties["name"].decode(),
            "multiprocessors": properties["multiProcessorCount"],
            "driver": runtime.driverGetVersion(),
            "cuda": runtime.runtimeGetVersion(),
            "cudnn": self._torch.backends.cudnn.version(),
            "cudnn.benchmark": self._torch.backends.cudnn.benchmark,
            "cudnn.allow_tf32": self._torch.backends.cudnn.allow_tf32,
            "clock": CLOCKS[self._clock],
            "reference": REFERENCE,
        }

    def ceilings(self, dtype: str) -> Ceilings:
        """A square GEMM of cuBLAS and a device-to-device copy; f32 is what peers multiply."""
        return _ceilings(self._torch, dtype)

    def inputs(self, problem: ConvProblem, seed: int) -> Sequence[Any]:
        """Normally distributed operands, as PyTorch tensors."""
        torch = self._torch
        generator = torch.Generator(device=self.name).manual_seed(seed)
        dtype = getattr(torch, _TORCH_DTYPES[problem.dtype])
        return [
            torch.randn(shape, generator=generator, device=self.name).to(dtype)
            for shape in problem.shapes[:2]
        ]

    def rearranged(self, problem: ConvProblem) -> Sequence[ConvProblem]:
        """Channels last, as a network that assigns layouts has it, beside the peers' rows."""
        other = problem.channels_last
        return () if other == problem else (other,)

    def arranged(self, operand: Any, axes: Sequence[int]) -> Any:
        """By PyTorch."""
        return operand.permute(axes).contiguous()

    def ours(self, backend: str, executable: Executable, inputs: Sequence[Any]) -> Candidate:
        """A program of ours, by calls with `out=` or by replays of its graph."""
        arrays = list(map(self._to_cupy, inputs))
        if self._clock != "events":
            graph = executable.graph(self._calls)
            for target, array in zip(graph.inputs, arrays, strict=True):
                target[...] = array
            out, call = graph.outputs[0], graph.replay
        else:
            (spec,) = executable.outputs
            out = executable.empty(spec)

            def call() -> None:
                executable(*arrays, out=out)

        call()
        calls = "+".join(executable.program.summary(CUDA))
        return Candidate(
            backend,
            "as given",
            calls,
            call,
            lambda: self._to_torch(out),
            lambda: out.fill(float("nan")),
        )

    def peer(
        self, name: str, problem: ConvProblem, inputs: Sequence[Any]
    ) -> list[Candidate | Failed]:
        """cuDNN, autotuned, in both layouts, with our arithmetic: TF32 where we may use it."""
        prepare = None if self._clock == "events" else self._graph_of
        return torch_candidates(name, problem, inputs, self.name, prepare)

    def expected(
        self, problem: ConvProblem, inputs: Sequence[Any], formula: Callable[..., Any]
    ) -> Any:
        """The formula in f64, on the GPU: NumPy would take minutes."""
        del formula
        return convolve(problem, inputs)

    def difference(self, expected: Any, result: Any, relative: float) -> Difference:
        """On the GPU."""
        return largest_difference(expected, result, relative)

    def clock(self, call: Callable[[], object], repeats: int) -> float:
        """µs of one call by events after L2 was flushed; `repeats` is for the host's clock."""
        del repeats
        cuda = self._cupy.cuda
        start, end = cuda.Event(), cuda.Event()
        self._flush.fill(0)
        start.record()
        call()
        end.record()
        end.synchronize()
        return 1e3 * float(cuda.get_elapsed_time(start, end)) / self._calls

    def _graph_of(self, compute: Callable[[], Any]) -> Callable[[], Any]:
        """A function that replays `compute`, and returns the tensor it writes each time."""
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph):
            result = compute()
            for _ in range(self._calls - 1):
                result = compute()
        return _Replay(graph, result, compute)

    def _to_cupy(self, tensor: Any) -> Any:
        if tensor.dtype == self._torch.bfloat16:
            return self._cupy.from_dlpack(tensor.view(self._torch.int16)).view(BFLOAT16)
        return self._cupy.from_dlpack(tensor)

    def _to_torch(self, array: Any) -> Any:
        if array.dtype == BFLOAT16:
            return self._torch.from_dlpack(array.view("i2")).view(self._torch.bfloat16)
        return self._torch.from_dlpack(array)


@dataclass(frozen=True)
class _Replay:
    """A CUDA graph of PyTorch's, with what it reads and writes."""

    graph: Any
    result: Any
    compute: Callable[[], Any]
    """What was captured: it keeps the operands alive."""

    def __call__(self) -> Any:
        self.graph.replay()
        return self.result


@cache
def _ceilings(torch: Any, dtype: str) -> Ceilings:
    matrix = torch.randn(GEMM_SIZE, GEMM_SIZE, device="cuda").to(
        getattr(torch, _TORCH_DTYPES[dtype])
    )
    product_us = _median_us(torch, lambda: matrix @ matrix)
    return Ceilings(2 * GEMM_SIZE**3 / product_us / 1e3, _copy_gbytes(torch))


@cache
def _copy_gbytes(torch: Any) -> float:
    source = torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPY_BYTES / _median_us(torch, lambda: target.copy_(source)) / 1e3


def _median_us(torch: Any, call: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(CEILING_REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(1e3 * float(start.elapsed_time(end)))
    return sorted(times)[CEILING_REPEATS // 2]
