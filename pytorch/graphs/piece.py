"""A piece of a graph as a program that PyTorch's tensors go into and come out of."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any

import torch

from convir.api.compile import KERNELS_DONE, Job
from convir.api.sources import graph_source
from convir.frontends.pytorch.program import read_graph
from convir.pytorch.graphs.parameters import Parameters
from convir.runtime.executable import Executable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import fx

    from convir.frontends.pytorch.program import AtenProgram, TensorPlace
    from convir.pytorch.graphs.options import Options
    from convir.runtime.devices import Device

_log = logging.getLogger(__name__)

CHANGES = 2
"""How often constants may change until they are arguments."""


class Piece(torch.nn.Module):
    """Calls of a graph, compiled; PyTorch runs them where they cannot be."""

    def __init__(
        self,
        graph: fx.GraphModule,
        known: Mapping[int, torch.Tensor],
        device: Device,
        options: Options,
    ) -> None:
        """Compile `graph`.

        Args:
            graph: functional calls that have spellings.
            known: arguments that are the same tensor in each call, by their positions.
            device: where it runs.
            options: of the backend.
        """
        super().__init__()
        self._graph, self._device, self._options = graph, device, options
        self._changes = 0
        self._program: _Program | None = None
        self._constants = Parameters.of(())
        """Whose elements are part of the program, as they were then."""
        self._positions: tuple[int, ...] = ()
        """The arguments that they are."""
        self._compile(known)

    @property
    def is_compiled(self) -> bool:
        """Whether it runs on convir."""
        return self._program is not None

    @property
    def graph(self) -> fx.GraphModule:
        """Its calls, as PyTorch runs them."""
        return self._graph

    @property
    def has_constants(self) -> bool:
        """Whether elements of parameters or buffers are part of its program."""
        return self._program is not None and bool(self._positions)

    def holds(self, position: int) -> bool:
        """Whether the elements of an argument are part of its program, which does not read it."""
        return self._program is not None and position in self._positions

    @property
    def calls(self) -> list[str]:
        """The operators of its calls."""
        nodes = self._graph.graph.nodes
        return [str(node.target) for node in nodes if node.op == "call_function"]

    def _compile(self, known: Mapping[int, torch.Tensor]) -> None:
        names = [node.name for node in self._graph.graph.nodes if node.op == "placeholder"]
        constants = {names[position]: tensor for position, tensor in known.items()}
        self._constants, self._positions = Parameters.of(known.values()), tuple(known)
        positions = [i for i in range(len(names)) if i not in known]
        try:
            read = read_graph(self._graph.graph, constants)
            self._program = _Program(read, positions, self._device, self._options)
        except Exception as error:
            self._fail(error)

    def forward(self, *arguments: torch.Tensor) -> Any:
        """The results of the piece: a tensor, or a tuple of them."""
        if not self._constants.are([arguments[i] for i in self._positions]):
            self._changed(arguments)
        if self._program is not None and not self._program.is_ready:
            self._finish(self._program)
        if self._program is None:
            return self._graph(*arguments)
        return self._program(arguments)

    def _finish(self, program: _Program) -> None:
        """Wait for the code of a program, without which its calls are PyTorch's."""
        try:
            program.finish()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        # Whatever it is, PyTorch computes the same, and says what is wrong with it.
        _log.warning("a piece of %d calls runs on PyTorch: %s", len(self.calls), error)
        self._program = None

    def _changed(self, arguments: Sequence[torch.Tensor]) -> None:
        """Compile for what the constants are now, or without constants."""
        self._changes += 1
        still = {i: arguments[i] for i in self._positions}
        _log.info("parameters have changed: a piece is compiled again")
        self._compile(still if self._changes < CHANGES else {})


class _Program:
    """A compiled piece, called by addresses, once it is ready."""

    def __init__(
        self, read: AtenProgram, positions: Sequence[int], device: Device, options: Options
    ) -> None:
        job = Job(
            graph_source(read),
            None,
            options.pipeline,
            device,
            options.workspace_bytes,
            torch.get_num_threads() if device.kind == "host" else None,
            options.allow_tf32,
            autotune=options.autotune,
        )
        self._compiling = _begun(job)
        self.is_ready = False
        self._inputs = tuple(zip(positions, read.inputs, strict=True))
        self._outputs = tuple(
            (x, x.strides if x.is_dense else x.dense_strides, x.is_dense) for x in read.outputs
        )
        self._is_host = device.kind == "host"
        self._place = torch.device("cpu" if self._is_host else f"cuda:{device.index}")
        self._is_single = len(read.outputs) == 1

    def finish(self) -> None:
        """Wait until it may be called.

        Raises:
            CompileError: a toolchain refused generated code.
        """
        self._executable = self._compiling.result()
        self._call = self._executable.prepare()
        self.is_ready = True

    def __call__(self, arguments: Sequence[torch.Tensor]) -> Any:
        call = self._call
        held = [self._ready(arguments[i], place) for i, place in self._inputs]
        results = [
            torch.empty_strided(x.shape, strides, dtype=x.dtype, device=self._place)
            for x, strides, _ in self._outputs
        ]
        addresses = [x.data_ptr() for x in (*held, *results)]
        if self._is_host:
            call.run(addresses)
        else:
            self._enqueue(addresses)
        for i, (place, _, is_dense) in enumerate(self._outputs):
            if not is_dense:
                results[i] = _spread(results[i], place.strides)
        return results[0] if self._is_single else tuple(results)

    def _enqueue(self, addresses: Sequence[int]) -> None:
        with torch.cuda.device(self._place):
            stream = torch.cuda.current_stream(self._place).cuda_stream
            count = self._call.workspace_bytes
            space = torch.empty(count, dtype=torch.uint8, device=self._place) if count else None
            self._call.run(addresses, 0 if space is None else space.data_ptr(), stream)

    def _ready(self, given: torch.Tensor, place: TensorPlace) -> torch.Tensor:
        """`given`, or a copy of it that lies as the program reads it."""
        aligned = given.data_ptr() % self._call.alignment == 0
        as_read = place.is_dense and given.stride() == place.strides
        if aligned and (as_read or _is_dense(given, place)):
            return given.resolve_conj().resolve_neg()
        copy = torch.empty_strided(
            place.shape, place.dense_strides, dtype=place.dtype, device=given.device
        )
        return copy.copy_(given)


def _begun(job: Job) -> Future[Executable]:
    """The executable of a job that is known to have one, as soon as another thread has made it: a
    GPU's kernels are compiled while PyTorch writes its guards.

    Raises:
        Exception: whatever the job raises before its first kernel is compiled.
    """
    planned = Event()

    def told(step: str) -> None:
        if step.startswith(KERNELS_DONE):
            planned.set()

    def compiled() -> Executable:
        made = replace(job, progress=told).compile()
        assert isinstance(made, Executable)
        return made

    threads = ThreadPoolExecutor(1, "convir-piece")
    begun = threads.submit(compiled)
    threads.shutdown(wait=False)
    begun.add_done_callback(lambda _: planned.set())
    planned.wait()
    if begun.done():
        begun.result()
    return begun


def _is_dense(given: torch.Tensor, place: TensorPlace) -> bool:
    return given.permute(place.order).is_contiguous()


def _spread(result: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """`result` with these strides, which leave gaps, or 0 along what is repeated."""
    kept = result
    for axis, stride in enumerate(strides):
        if not stride:
            kept = kept.narrow(axis, 0, min(1, result.shape[axis]))
    copy = torch.empty_strided(kept.shape, strides, dtype=result.dtype, device=result.device)
    return copy.copy_(kept).expand(result.shape)
