"""Steps of random graphs, on tensors whose sizes are hidden by a cast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from random_programs.graph import UNKNOWN_INDICES, tensor

if TYPE_CHECKING:
    from random_programs.graph import Graph, Shape


def through_dynamic(graph: Graph) -> None:
    """A step on a tensor whose sizes are hidden, and shown again afterwards."""
    name, shape = graph.recent()
    if not 0 < len(shape) <= UNKNOWN_INDICES:
        return
    kind, hidden = tensor(shape), dynamic(shape)
    value = graph.line(f"tensor.cast {name} : {kind} to {hidden}")
    step = HIDDEN_STEPS[graph.below(len(HIDDEN_STEPS))]
    value = step(graph, value, shape)
    graph.emit(f"tensor.cast {value} : {hidden} to {kind}", shape)


def dynamic(shape: Shape) -> str:
    return f"tensor<{'?x' * len(shape)}f32>"


def hidden_sizes(graph: Graph, value: str, shape: Shape) -> str:
    """The sizes of `value`, each asked for or given as an argument."""
    sizes: list[str] = []
    for dim, size in enumerate(shape):
        given = size < UNKNOWN_INDICES and graph.below(3) == 0
        asked = f"tensor.dim {value}, %c{dim} : {dynamic(shape)}"
        sizes.append(f"%n{size}" if given else graph.line(asked))
    return ", ".join(sizes)


def hidden_slice(graph: Graph, value: str, shape: Shape) -> str:
    zeros, ones = [0] * len(shape), [1] * len(shape)
    text = f"{value}{zeros} [{hidden_sizes(graph, value, shape)}] {ones}"
    kind = dynamic(shape)
    if graph.below(2) == 0:
        return graph.line(f"tensor.extract_slice {text} : {kind} to {kind}")
    other = graph.line(f"tensor.cast {graph.of_shape(shape)} : {tensor(shape)} to {kind}")
    return graph.line(f"tensor.insert_slice {other} into {text} : {kind} into {kind}")


def hidden_fill(graph: Graph, value: str, shape: Shape) -> str:
    kind = dynamic(shape)
    made = graph.line(f"tensor.empty({hidden_sizes(graph, value, shape)}) : {kind}")
    below = graph.line(f"linalg.fill ins({graph.scalar()} : f32) outs({made} : {kind}) -> {kind}")
    return graph.line(f"linalg.fill ins({graph.scalar()} : f32) outs({below} : {kind}) -> {kind}")


def hidden_reshape(graph: Graph, value: str, shape: Shape) -> str:
    groups, singles = [list(range(len(shape)))], [[dim] for dim in range(len(shape))]
    if graph.below(3) == 0:
        groups = singles
    flat, kind = dynamic(shape[: len(groups)]), dynamic(shape)
    for _ in range(1 + graph.below(2)):
        down = graph.line(f"tensor.collapse_shape {value} {groups} : {kind} into {flat}")
        sizes = hidden_sizes(graph, value, shape)
        value = graph.line(
            f"tensor.expand_shape {down} {groups} output_shape [{sizes}] : {flat} into {kind}"
        )
    return value


def hidden_pad(graph: Graph, value: str, shape: Shape) -> str:
    zeros, kind = [0] * len(shape), dynamic(shape)
    block = ", ".join(f"%p{dim}: index" for dim in range(len(shape)))
    return graph.line(
        f"tensor.pad {value} low{zeros} high{zeros} {{\n  ^bb0({block}):\n"
        f"    tensor.yield {graph.scalar()} : f32\n  }} : {kind} to {kind}"
    )


HIDDEN_STEPS = (hidden_slice, hidden_slice, hidden_fill, hidden_reshape, hidden_pad)
