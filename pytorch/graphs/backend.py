"""The backend `convir` of `torch.compile`, which PyTorch finds by its entry point."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]

from convir.frontends.pytorch.exported import decompositions
from convir.lowering.kernels.target import cpu_costs
from convir.pytorch.graphs.options import options_of
from convir.pytorch.graphs.partition import partitioned
from convir.pytorch.graphs.piece import Piece
from convir.pytorch.graphs.replay import Replayed, read_in_place, why_not
from convir.pytorch.graphs.report import GraphReport, add
from convir.runtime.devices import CUDA, HOST, Device

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import fx

    from convir.pytorch.graphs.options import Options

    Compiled = Callable[..., Any]

SHAPES = 16
"""Sets of sizes that a graph of open sizes is kept compiled for."""

_log = logging.getLogger(__name__)


def backend(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """Compile a graph of Dynamo's.

    A graph that autograd records runs on PyTorch, its convolutions on `convir.pytorch.enable()`.

    Args:
        graph: what it computes.
        example_inputs: tensors and sizes, as its first call has them.
        mode: as `torch.compile` takes it: there is one way here.
        options: see `Options`.

    Raises:
        ValueError: there is no such option.
    """
    asked = options_of(options)
    if mode not in (None, "default"):
        _log.info("mode '%s' means nothing to the backend convir", mode)
    if torch.is_grad_enabled() and any(_wants_gradient(each) for each in example_inputs):
        return _for_training(graph)
    held = _attributes(graph)
    given = [*held, *example_inputs]
    known = _constants(held, example_inputs) if asked.constants else {}

    def compiler(functional: fx.GraphModule, fakes: Sequence[Any]) -> Compiled:
        static = _matching(known, fakes, given)
        # Tensors that are made meanwhile are real ones.
        with _disable_current_modes():
            return _boxed(_compiled(functional, fakes, static, asked))

    lowered: Any = aot_autograd(
        fw_compiler=compiler, inference_compiler=compiler, decompositions=decompositions()
    )
    return lowered(graph, example_inputs)


def _wants_gradient(given: Any) -> bool:
    return isinstance(given, torch.Tensor) and given.requires_grad


def _for_training(graph: fx.GraphModule) -> Compiled:
    from convir.pytorch.override import enable, is_enabled  # noqa: PLC0415  (not for inference)

    _log.warning("autograd records this graph: PyTorch runs it, its convolutions on convir")
    if not is_enabled():
        enable()
    return graph.forward


def _attributes(graph: fx.GraphModule) -> list[torch.Tensor]:
    """The parameters and buffers that a graph holds, which AOTAutograd hands over before all
    inputs: Dynamo leaves them there where Inductor's `freezing` is on."""
    named = (graph.named_parameters, graph.named_buffers)
    return [tensor for each in named for _, tensor in each(remove_duplicate=False)]


def _constants(held: Sequence[torch.Tensor], inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """What the graph holds, and its inputs that are parameters or buffers of modules, by their
    positions; not those made in inference mode, of which PyTorch does not count writes."""
    found = [*held, *(each if _is_constant(each) else None for each in inputs)]
    return {i: x for i, x in enumerate(found) if x is not None and not x.is_inference()}


def _is_constant(given: Any) -> bool:
    is_parameter = isinstance(given, torch.nn.Parameter)
    return is_parameter or hasattr(given, "_dynamo_static_input_type")


def _matching(
    known: Mapping[int, torch.Tensor], fakes: Sequence[Any], given: Sequence[Any]
) -> Mapping[int, torch.Tensor]:
    """`known`, where the functional graph has the inputs that Dynamo's has; else nothing is."""
    if len(fakes) != len(given):
        return {}
    same = all(
        isinstance(fake, torch.Tensor) and fake.shape == known[i].shape
        for i, fake in enumerate(fakes)
        if i in known
    )
    return known if same else {}


def _boxed(function: Compiled) -> Compiled:
    """As AOTAutograd calls what it compiled: with one list, which is emptied."""

    def boxed(arguments: list[Any]) -> Any:
        given = tuple(arguments)
        arguments.clear()
        return function(*given)

    boxed._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return boxed


def _compiled(
    graph: fx.GraphModule,
    fakes: Sequence[Any],
    known: Mapping[int, torch.Tensor],
    options: Options,
) -> Compiled:
    if any(map(_is_open, fakes)):
        return _Specialising(graph, known, options)
    return _in_pieces(graph, known, options)


def _is_open(fake: Any) -> bool:
    if isinstance(fake, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in (*fake.shape, *fake.stride()))
    return isinstance(fake, torch.SymInt | int)


class _Specialising:
    """A graph of open sizes, compiled for each set of sizes that it is called with."""

    def __init__(
        self, graph: fx.GraphModule, known: Mapping[int, torch.Tensor], options: Options
    ) -> None:
        self._graph, self._known, self._options = graph, known, options
        self._made: dict[tuple[Any, ...], Compiled] = {}

    def __call__(self, *arguments: Any) -> Any:
        key = tuple(
            (each.shape, each.stride()) if isinstance(each, torch.Tensor) else each
            for i, each in enumerate(arguments)
            if i not in self._known
        )
        found = self._made.pop(key, None)
        if found is None:
            found = self._specialised(arguments)
        self._made[key] = found  # The latest last.
        if len(self._made) > SHAPES:
            del self._made[next(iter(self._made))]
        return found(*arguments)

    def _specialised(self, arguments: Sequence[Any]) -> Compiled:
        with torch.no_grad():
            traced = make_fx(self._graph, tracing_mode="fake")(*arguments)
        return _in_pieces(traced, self._known, self._options)


def _in_pieces(
    graph: fx.GraphModule, known: Mapping[int, torch.Tensor], options: Options
) -> Compiled:
    """The graph with its pieces compiled; as it is where it has none."""
    report = GraphReport()
    device = _device_of(graph)
    if device is None:
        return graph.forward
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    tensors = {placeholders[i].name: tensor for i, tensor in known.items()}
    before = {name for name, _ in graph.named_children()}
    kind = "cpu" if device.kind == HOST else CUDA
    whole = partitioned(graph, kind, _bytes_per_us(device), report, tensors)
    for node in whole.graph.nodes:
        if node.op == "call_module" and node.target not in before:
            piece = whole.get_submodule(str(node.target))
            static = {
                i: tensors[each.name]
                for i, each in enumerate(node.args)
                if isinstance(each, torch.fx.Node) and each.name in tensors
            }
            assert isinstance(piece, torch.fx.GraphModule)
            compiled = Piece(piece, static, device, options)
            whole.set_submodule(str(node.target), compiled)
            if not compiled.is_compiled:
                report.give_back(compiled.calls)
    whole.recompile()
    run: Compiled = whole.forward
    if device.kind == CUDA:
        run = _replayed(whole, known, device, options, report)
    add(report)
    return run


def _replayed(
    whole: fx.GraphModule,
    known: Mapping[int, torch.Tensor],
    device: Device,
    options: Options,
    report: GraphReport,
) -> Compiled:
    """The graph as replays of a CUDA graph, where that computes the same."""
    refused = why_not(whole) if options.cuda_graphs else "the option cuda_graphs is off"
    if refused is not None:
        report.not_replayed = refused
        return whole.forward
    pieces = [each for each in whole.children() if isinstance(each, Piece)]
    place = torch.device(CUDA, device.index)
    return Replayed(whole.forward, pieces, known, place, lambda: read_in_place(whole, known))


def _device_of(graph: fx.GraphModule) -> Device | None:
    """Where its tensors lie; None where they lie elsewhere than on the CPU or one GPU."""
    places = {
        value.device
        for node in graph.graph.nodes
        if isinstance(value := node.meta.get("val"), torch.Tensor)
    }
    gpus = {place for place in places if place.type == "cuda"}
    if any(place.type not in ("cpu", "cuda") for place in places) or len(gpus) > 1:
        _log.info("a graph on %s stays PyTorch's", ", ".join(sorted(map(str, places))))
        return None
    return Device(CUDA, next(iter(gpus)).index or 0) if gpus else Device(HOST)


def _bytes_per_us(device: Device) -> float:
    """What it copies."""
    if device.kind != HOST:
        return device.gpu.costs.copy_bytes_per_us
    from convir.lowering.kernels.host.target import target  # noqa: PLC0415  (imports LLVM)

    return cpu_costs(target()).copy_bytes_per_us
