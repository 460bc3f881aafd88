"""Steps of random graphs, on tensors of static sizes and on scalars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from random_programs.graph import MAX_ELEMENTS, MAX_RANK, UNKNOWN_INDICES, filled, tensor

if TYPE_CHECKING:
    from random_programs.graph import Graph


def extract_slice(graph: Graph) -> None:
    name, shape = graph.recent()
    region = graph.region(shape)
    small = graph.reduced(region[1])
    text = graph.slice_text(region)
    graph.emit(f"tensor.extract_slice {name}{text} : {tensor(shape)} to {tensor(small)}", small)


def insert_slice(graph: Graph) -> None:
    name, shape = graph.recent()
    region = graph.region(shape)
    small = graph.reduced(region[1])
    source = graph.of_shape(small)
    text = graph.slice_text(region)
    graph.emit(
        f"tensor.insert_slice {source} into {name}{text} : {tensor(small)} into {tensor(shape)}",
        shape,
    )


def collapse(graph: Graph) -> None:
    name, shape = graph.recent()
    if not shape:
        return
    groups: list[list[int]] = [[0]]
    for dim in range(1, len(shape)):
        if graph.below(2) == 0:
            groups.append([dim])
        else:
            groups[-1].append(dim)
    if math.prod(shape) == 1 and set(shape) == {1} and graph.below(2) == 0:
        groups = []
    small = tuple(math.prod(shape[dim] for dim in group) for group in groups)
    graph.emit(
        f"tensor.collapse_shape {name} {groups} : {tensor(shape)} into {tensor(small)}", small
    )


def expand(graph: Graph) -> None:
    name, shape = graph.recent()
    if len(shape) > MAX_RANK:
        return
    sizes: list[int] = [] if shape else [1] * (1 + graph.below(MAX_RANK))
    groups: list[list[int]] = []
    for size in shape:
        divisors = [d for d in range(1, size + 1) if size % d == 0] or [1]
        factor = divisors[graph.below(len(divisors))]
        parts = [factor, size // factor] if graph.below(2) == 0 else [size]
        groups.append(list(range(len(sizes), len(sizes) + len(parts))))
        sizes += parts
    large = tuple(sizes)
    graph.emit(
        f"tensor.expand_shape {name} {groups} output_shape {sizes} : "
        f"{tensor(shape)} into {tensor(large)}",
        large,
    )


def pad(graph: Graph) -> None:
    name, shape = graph.recent()
    low = [graph.below(2) for _ in shape]
    high = [graph.below(2) for _ in shape]
    large = tuple(lo + size + hi for lo, size, hi in zip(low, shape, high, strict=True))
    if math.prod(large) > MAX_ELEMENTS:
        return
    scalar = graph.scalar()
    block = ", ".join(f"%p{dim}: index" for dim in range(len(shape)))
    graph.emit(
        f"tensor.pad {name} low{low} high{high} {{\n  ^bb0({block}):\n"
        f"    tensor.yield {scalar} : f32\n  }} : {tensor(shape)} to {tensor(large)}",
        large,
    )


def transpose(graph: Graph) -> None:
    name, shape = graph.recent()
    order = graph.permutation(len(shape))
    result = tuple(shape[dim] for dim in order)
    init = graph.of_shape(result)
    graph.emit(
        f"linalg.transpose ins({name} : {tensor(shape)}) outs({init} : {tensor(result)}) "
        f"permutation = {list(order)}",
        result,
    )


def elementwise(graph: Graph) -> None:
    """A generic over one permutation of the loops, whose body may ignore any of its operands."""
    name, shape = graph.recent()
    names = [name, graph.of_shape(shape)]
    if graph.below(2) == 0:
        names.append(names[graph.below(2)])
    init = graph.of_shape(shape)
    loops = [f"d{dim}" for dim in range(len(shape))]
    results = [loops[dim] for dim in graph.permutation(len(shape))]
    indexing_map = f"affine_map<({', '.join(loops)}) -> ({', '.join(results)})>"
    reads = [f"%i{k}" for k in range(len(names))] + ["%out"]
    body = ["arith.addf", "arith.mulf", "arith.maximumf", "yield"][graph.below(4)]
    lhs, rhs = graph.pick(reads), graph.pick([*reads, graph.scalar()])
    statement = "" if body == "yield" else f"    %r = {body} {lhs}, {rhs} : f32\n"
    block = ", ".join(f"{read}: f32" for read in reads)
    kinds = ", ".join([tensor(shape)] * len(names))
    maps = ", ".join([indexing_map] * (len(names) + 1))
    iterators = ", ".join(['"parallel"'] * len(shape))
    graph.emit(
        f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}} "
        f"ins({', '.join(names)} : {kinds}) outs({init} : {tensor(shape)}) {{\n  ^bb0({block}):\n"
        f"{statement}    linalg.yield {lhs if body == 'yield' else '%r'} : f32\n"
        f"  }} -> {tensor(shape)}",
        shape,
    )


def reduce_rows(graph: Graph) -> None:
    """A generic that sums over its last dimension, or that keeps the last element it meets."""
    name, shape = graph.recent()
    if not shape:
        return
    result = shape[:-1]
    init = graph.of_shape(result)
    loops = [f"d{dim}" for dim in range(len(shape))]
    maps = [
        f"affine_map<({', '.join(loops)}) -> ({', '.join(used)})>" for used in (loops, loops[:-1])
    ]
    kinds = ['"parallel"'] * len(result) + ['"reduction"']
    read = "%out" if graph.below(2) == 0 else "%in"
    graph.emit(
        f"linalg.generic {{indexing_maps = [{', '.join(maps)}], "
        f"iterator_types = [{', '.join(kinds)}]}} ins({name} : {tensor(shape)}) "
        f"outs({init} : {tensor(result)}) {{\n  ^bb0(%in: f32, %out: f32):\n"
        f"    %r = arith.addf {read}, %in : f32\n    linalg.yield %r : f32\n"
        f"  }} -> {tensor(result)}",
        result,
    )


def copy(graph: Graph) -> None:
    name, shape = graph.recent()
    init = graph.of_shape(shape)
    kind = tensor(shape)
    graph.emit(f"linalg.copy ins({name} : {kind}) outs({init} : {kind}) -> {kind}", shape)


def refill(graph: Graph) -> None:
    name, shape = graph.recent()
    graph.emit(filled(graph.scalar(), name, shape), shape)


def extract(graph: Graph) -> None:
    name, shape = graph.recent()
    if 0 in shape:
        return
    indices: list[str] = []
    for size in shape:
        value = graph.below(min(size, UNKNOWN_INDICES))
        kind = graph.below(2)
        index = f"%c{value}" if kind == 0 else f"%n{value}"
        indices.append(index)
    graph.emit(f"tensor.extract {name}[{', '.join(indices)}] : {tensor(shape)}", None)


def from_elements(graph: Graph) -> None:
    shape = ((), (1,), (2,), (3,))[graph.below(4)]
    elements = ", ".join(graph.scalar() for _ in range(math.prod(shape)))
    graph.emit(f"tensor.from_elements {elements} : {tensor(shape)}", shape)


def arithmetic(graph: Graph) -> None:
    name = ["addf", "subf", "mulf", "divf", "maximumf", "minimumf"][graph.below(6)]
    graph.emit(f"arith.{name} {graph.scalar()}, {graph.scalar()} : f32", None)


def rounding(graph: Graph) -> None:
    half = f"%h{graph.count}"
    graph.lines.append(f"  {half} = arith.truncf {graph.scalar()} : f32 to f16")
    graph.emit(f"arith.extf {half} : f16 to f32", None)
