"""Calls of a compiled graph as replays of one CUDA graph."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import fx
from torch._ops import OpOverload

from convir.pytorch.graphs.parameters import Parameters
from convir.pytorch.graphs.partition import is_view, tensors_of
from convir.pytorch.graphs.piece import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_log = logging.getLogger(__name__)

LONGEST_WAIT = 1024
"""Calls on the same parameters before a graph is captured that had to be dropped often."""

_RANDOM, _DROPOUT = torch.Tag.nondeterministic_seeded, "dropout_p"
_UNSAFE = (
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
    _RANDOM,
    torch.Tag.cudagraph_unsafe,
)
"""Of operators that wait for the GPU, or compute something else each time."""


def why_not(graph: fx.GraphModule) -> str | None:
    """Why calls of a graph, with its pieces, cannot be replayed; None if they can.

    Args:
        graph: what it computes, with what its nodes give as fake tensors in `meta["val"]`.
    """
    pieces = [each for each in graph.children() if isinstance(each, Piece)]
    if not any(piece.is_compiled for piece in pieces):
        return "it has no piece"
    apart = [piece.graph for piece in pieces if not piece.is_compiled]
    nodes = [node for each in (graph, *apart) for node in each.graph.nodes]
    return next((reason for node in nodes if (reason := _refusal(graph, node))), None)


def _refusal(graph: fx.GraphModule, node: fx.Node) -> str | None:
    places = {found.device.type for found in tensors_of([node])}
    if not places <= {"cuda"}:
        return f"'{node.name}' lies on {', '.join(sorted(places))}"
    if node.op == "call_module":
        known = isinstance(graph.get_submodule(str(node.target)), Piece)
        return None if known else f"'{node.target}' is no piece"
    if node.op != "call_function" or is_view(node):
        return None
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        return f"{target} is no ATen operator"
    unsafe = [tag for tag in _UNSAFE if tag in target.tags]
    if unsafe and not (unsafe == [_RANDOM] and _drops_nothing(node)):
        return f"{target} cannot be captured"
    return None


def _drops_nothing(node: fx.Node) -> bool:
    """Whether an operator draws numbers for a dropout alone, as attention does, and this one does
    not."""
    schema = cast("Any", node.target)._schema
    names = [argument.name for argument in schema.arguments]
    if _DROPOUT not in names:
        return False
    place = names.index(_DROPOUT)
    given = node.args[place] if place < len(node.args) else node.kwargs.get(_DROPOUT, 0.0)
    return isinstance(given, int | float) and given == 0


def read_in_place(graph: fx.GraphModule, static: Collection[int]) -> tuple[int, ...]:
    """The arguments among `static` whose memory calls of a graph read: those that are not constants
    of its pieces wherever they are used."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]

    def is_held(argument: fx.Node, user: fx.Node) -> bool:
        piece = graph.get_submodule(str(user.target)) if user.op == "call_module" else None
        given = [i for i, each in enumerate(user.args) if each is argument]
        return isinstance(piece, Piece) and all(map(piece.holds, given))

    def is_read(argument: fx.Node) -> bool:
        return not all(is_held(argument, user) for user in argument.users)

    return tuple(i for i in static if is_read(placeholders[i]))


class Replayed:
    """A compiled graph on a GPU: its first call runs as it is, the second one is captured, and all
    others are replayed.

    Parameters are read where they lie, other arguments are copied to memory of the CUDA graph, and
    results are copied from there to memory of the caller's. A call that is captured by somebody
    else runs as it is. Calls from several threads and on several streams follow each other.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        pieces: Sequence[Piece],
        static: Collection[int],
        place: torch.device,
        read: Callable[[], Collection[int]],
    ) -> None:
        """Nothing is captured yet.

        Args:
            run: the graph, which enqueues on PyTorch's current stream.
            pieces: of it, which may hold parameters.
            static: the arguments that are parameters or buffers, by their positions.
            place: the GPU.
            read: which of them calls now read where they lie, as `read_in_place`.
        """
        self._run, self._pieces, self._place, self._read = run, tuple(pieces), place, read
        self._static = tuple(static)
        self._parameters = _those_at(self._static)
        self._in_place: Sequence[int] = ()
        """Parameters, by their numbers, whose memory a replay reads."""
        self._held: Sequence[int] = ()
        """The others: constants of pieces."""
        self._lock = threading.Lock()
        self._seen: Parameters | None = None
        self._captured: Captured | None = None
        self._calls = 0
        self._wait = 1
        """Calls on the same parameters until the next one is captured; 0 for never."""

    def __call__(self, *arguments: Any) -> Any:
        """The graph's results."""
        with torch.cuda.device(self._place):
            if torch.cuda.is_current_stream_capturing():
                return self._run(*arguments)
            with self._lock:
                captured = self._ready(arguments)
                if captured is not None:
                    return captured.results()
            return self._run(*arguments)

    def _ready(self, arguments: Sequence[Any]) -> Captured | None:
        """What has enqueued a replay of this call; None where the call runs as it is."""
        if not self._wait:
            return None
        given = self._parameters(arguments)
        seen, captured = self._seen, self._captured
        holds = any(piece.has_constants for piece in self._pieces)
        if captured is not None and seen is not None and seen.lie_at(given, self._in_place):
            captured.enqueue(arguments)
            # While the GPU begins, the host looks whether parameters are what they were: if they
            # are not, nobody reads what the replay writes.
            if seen.lie_at(given, self._held) and (not holds or seen.are_unchanged(given)):
                return captured
        if seen is None or not (seen.are(given) if holds else seen.lie_at(given)):
            if seen is not None:
                self._wait = min(2 * self._wait, LONGEST_WAIT)
            self._seen, self._calls, self._captured = Parameters.of(given), 0, None
        self._calls += 1
        if self._calls > self._wait:
            self._captured = self._capture(arguments)
        if self._captured is not None:
            self._captured.enqueue(arguments)
        return self._captured

    def _capture(self, arguments: Sequence[Any]) -> Captured | None:
        try:
            captured = Captured(self._run, arguments, self._static, self._place)
        except Exception as error:
            # It may be anything that PyTorch's calls do: they do it without a CUDA graph too.
            _log.warning("a graph is not captured: %s", error)
            self._wait = 0
            return None
        read = set(self._read())
        numbers = range(len(self._static))
        self._in_place = [n for n in numbers if self._static[n] in read]
        self._held = [n for n in numbers if self._static[n] not in read]
        return captured


def _those_at(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the arguments at these positions."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda given: [given[i] for i in places]


class Captured:
    """A CUDA graph with its memory, in a pool of its own."""

    def __init__(
        self,
        run: Callable[..., Any],
        arguments: Sequence[Any],
        static: Collection[int],
        place: torch.device,
    ) -> None:
        """Capture `run` on these arguments; it has run before, which loads what is loaded lazily.

        Raises:
            RuntimeError: it does what cannot be captured.
        """
        self._place = place
        self._graph: Any = torch.cuda.CUDAGraph()
        self._done: Any = torch.cuda.Event()
        self._stream: Any = None
        read = list(arguments)
        self._buffers: list[tuple[int, _Buffer]] = []
        capture = torch.cuda.graph(
            self._graph, stream=torch.cuda.Stream(place), capture_error_mode="thread_local"
        )
        # Replays write to the buffers in whatever mode they are called.
        with torch.inference_mode(False), torch.no_grad(), capture:
            for i, each in enumerate(arguments):
                if isinstance(each, torch.Tensor) and i not in static:
                    buffer = _Buffer(each)
                    self._buffers.append((i, buffer))
                    read[i] = buffer.tensor
            results = run(*read)
            self._results = _Results(results, read)

    def enqueue(self, arguments: Sequence[Any]) -> None:
        """Enqueue a replay on the current stream, behind the last one."""
        stream = torch.cuda.current_stream(self._place)
        if self._stream is not None and stream != self._stream:
            stream.wait_event(self._done)
        for i, buffer in self._buffers:
            buffer.write(arguments[i])
        self._graph.replay()
        self._stream = stream

    def results(self) -> Any:
        """The results of the last replay, copied on the stream that it is on."""
        results = self._results.copied()
        self._done.record(self._stream)
        return results


class _Buffer:
    """Memory of a CUDA graph for an argument, of its strides."""

    def __init__(self, given: torch.Tensor) -> None:
        """Nothing is copied yet."""
        self._repeated = [
            axis
            for axis, (size, stride) in enumerate(zip(given.shape, given.stride(), strict=True))
            if size > 1 and not stride
        ]
        kept = self._kept(given)
        self._memory = torch.empty_strided(
            kept.shape, kept.stride(), dtype=given.dtype, device=given.device
        )
        self.tensor = self._memory.expand(given.shape)

    def _kept(self, given: torch.Tensor) -> torch.Tensor:
        """Without what is repeated."""
        for axis in self._repeated:
            given = given.narrow(axis, 0, 1)
        return given

    def write(self, given: torch.Tensor) -> None:
        """Enqueue a copy."""
        self._memory.copy_(self._kept(given) if self._repeated else given)


class _Results:
    """What a CUDA graph writes, to be copied."""

    def __init__(self, results: Sequence[Any], read: Sequence[Any]) -> None:
        """Copies lie as `results` do, and share memory as they do.

        Raises:
            RuntimeError: one shares memory with an argument, which `read` are.
        """
        self._kind: Any = type(results)
        self._results = results
        self._shared: dict[int, torch.Tensor] = {}
        """Memory of several results, or with gaps, as bytes; by its address."""
        tensors = [each for each in results if isinstance(each, torch.Tensor) and each.numel()]
        counts = Counter(map(_memory, tensors))
        if any(_memory(each) in counts for each in read if isinstance(each, torch.Tensor)):
            raise RuntimeError("a result shares memory with an argument")
        for each in tensors:
            if counts[_memory(each)] > 1 or not _is_dense(each):
                self._shared[_memory(each)] = _on(each.untyped_storage(), torch.uint8)

    def copied(self) -> Any:
        """Enqueue copies."""
        shared = {at: memory.clone() for at, memory in self._shared.items()}
        return self._kind([self._copied(each, shared) for each in self._results])

    def _copied(self, result: Any, shared: dict[int, torch.Tensor]) -> Any:
        if not isinstance(result, torch.Tensor):
            return result
        memory = shared.get(_memory(result)) if shared else None
        if memory is None:
            return result.clone()
        place = result.storage_offset(), result.shape, result.stride()
        return _on(memory.untyped_storage(), result.dtype, *place)


def _on(storage: torch.UntypedStorage, dtype: torch.dtype, *place: Any) -> torch.Tensor:
    """A tensor on memory: of all its bytes, or with this offset, shape and strides."""
    return cast("Any", torch.empty(0, dtype=dtype, device=storage.device)).set_(storage, *place)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _is_dense(tensor: torch.Tensor) -> bool:
    order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))
    return tensor.is_contiguous() or tensor.permute(order).is_contiguous()
