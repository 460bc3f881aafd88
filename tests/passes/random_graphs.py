"""Random straight-line functions of tensor, linalg and arith operations, as MLIR text.

What canonicalization looks for is made likely: operands are mostly recent values, slices mostly
repeat the region of an earlier one, scalars and splats are mostly 0.0, -0.0 and 1.0, and some
numbers are written as arguments so that a pass does not know them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Shape = tuple[int, ...]
Region = tuple[Shape, Shape, Shape]

SCALARS = ("0.000000e+00", "-0.000000e+00", "1.000000e+00", "2.500000e+00")
UNKNOWN_INDICES = 4
"""The arguments %n0, %n1, … hold 0, 1, …"""
MAX_RANK = 3
MAX_SIZE = 4
MAX_ELEMENTS = 64


@dataclass
class Graph:
    """A function under construction; every value is a static tensor of f32 or a scalar of f32."""

    draw: Callable[..., int]
    lines: list[str] = field(default_factory=list[str])
    tensors: list[tuple[str, Shape]] = field(default_factory=list[tuple[str, Shape]])
    scalars: list[str] = field(default_factory=list[str])
    arguments: list[tuple[str, Shape]] = field(default_factory=list[tuple[str, Shape]])
    regions: list[tuple[Shape, Region]] = field(default_factory=list[tuple[Shape, Region]])
    count: int = 0

    def below(self, end: int) -> int:
        """A number from 0 to `end` - 1."""
        return self.draw(st.integers(0, end - 1))

    def permutation(self, rank: int) -> list[int]:
        """The numbers below `rank` in a random order."""
        left = list(range(rank))
        return [left.pop(self.below(len(left))) for _ in range(rank)]

    def pick(self, items: Sequence[str]) -> str:
        return items[self.below(len(items))]

    def line(self, text: str) -> str:
        """Add `%name = text`, a value that no other step uses."""
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {text}")
        return name

    def emit(self, text: str, shape: Shape | None) -> str:
        """Add `%name = text` and remember the value; a shape of None is a scalar."""
        name = self.line(text)
        if shape is None:
            self.scalars.append(name)
        else:
            self.tensors.append((name, shape))
        return name

    def recent(self) -> tuple[str, Shape]:
        """A tensor, usually the last."""
        if self.below(4) == 0:
            return self.tensors[self.below(len(self.tensors))]
        return self.tensors[-1]

    def of_shape(self, shape: Shape) -> str:
        """A tensor of `shape`: one that is there, or a new one."""
        same = [name for name, other in self.tensors if other == shape]
        if same and self.below(3) > 0:
            return same[-1 - self.below(len(same))]
        return self.new_tensor(shape)

    def new_tensor(self, shape: Shape) -> str:
        kind = self.below(6)
        if kind > 2:
            name = f"%a{len(self.arguments)}"
            self.arguments.append((name, shape))
            self.tensors.append((name, shape))
            return name
        if kind == 0:
            return self.emit(f"arith.constant dense<{self.pick(SCALARS)}> : {tensor(shape)}", shape)
        if kind == 1:
            return self.emit(f"tensor.splat {self.scalar()} : {tensor(shape)}", shape)
        init = self.emit(f"tensor.empty() : {tensor(shape)}", shape)
        self.tensors.pop()
        return self.emit(filled(self.scalar(), init, shape), shape)

    def scalar(self) -> str:
        if self.scalars and self.below(3) > 0:
            return self.scalars[self.below(len(self.scalars))]
        if self.below(4) == 0:
            return "%x"
        return self.emit(f"arith.constant {self.pick(SCALARS)} : f32", None)

    def shape(self) -> Shape:
        sizes = [
            self.below(MAX_SIZE) + (self.below(8) > 0) for _ in range(self.below(MAX_RANK) + 1)
        ]
        return tuple(sizes) if self.below(8) else (1,) * self.below(MAX_RANK)

    def number(self, value: int) -> str:
        """`value`, sometimes as an argument that holds it."""
        known = value >= UNKNOWN_INDICES or self.below(5) > 0
        return str(value) if known else f"%n{value}"

    def region(self, shape: Shape) -> Region:
        """A slice of a tensor of `shape`, often one that was taken before."""
        repeated = [region for other, region in self.regions if other == shape]
        if repeated and self.below(2) == 0:
            return repeated[self.below(len(repeated))]
        offsets: list[int] = []
        sizes: list[int] = []
        strides: list[int] = []
        for size in shape:
            whole = self.below(2) == 0 or size == 0
            offset = 0 if whole else self.below(size)
            stride = 1 if whole else 1 + self.below(2)
            count = size if whole else 1 + self.below(-(-(size - offset) // stride))
            offsets.append(offset)
            strides.append(stride)
            sizes.append(count)
        region = (tuple(offsets), tuple(sizes), tuple(strides))
        self.regions.append((shape, region))
        return region

    def slice_text(self, region: Region) -> str:
        """Offsets and strides may be arguments; a dynamic size would change the type."""
        offsets, sizes, strides = region
        return (
            f"[{', '.join(map(self.number, offsets))}] [{', '.join(map(str, sizes))}] "
            f"[{', '.join(map(self.number, strides))}]"
        )

    def reduced(self, sizes: Shape) -> Shape:
        """`sizes`, sometimes without those of 1."""
        return tuple(size for size in sizes if size != 1) if self.below(3) == 0 else sizes


def tensor(shape: Shape) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def filled(scalar: str, init: str, shape: Shape) -> str:
    kind = tensor(shape)
    return f"linalg.fill ins({scalar} : f32) outs({init} : {kind}) -> {kind}"


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

THEMES: tuple[tuple[Callable[[Graph], None], ...], ...] = (
    (extract_slice, insert_slice),
    (extract_slice, insert_slice, pad),
    (collapse, expand),
    (transpose, copy),
    (pad, refill),
    (elementwise, reduce_rows),
    (through_dynamic, through_dynamic, extract_slice, collapse),
    (extract, from_elements, arithmetic, rounding),
)
"""Steps that simplify together, so that often several of one theme follow each other."""


@st.composite
def functions(draw: Callable[..., int], max_steps: int = 8) -> tuple[str, tuple[np.ndarray, ...]]:
    """The text of a module with one function `main`, and arguments for it."""
    graph = Graph(draw)
    graph.new_tensor(graph.shape())
    theme = THEMES[0]
    for _ in range(1 + graph.below(max_steps)):
        if graph.below(3) == 0:
            theme = THEMES[graph.below(len(THEMES))]
        theme[graph.below(len(theme))](graph)
    results = graph.tensors[-3:]
    kinds = ", ".join(tensor(shape) for _, shape in results)
    constants = [f"  %c{i} = arith.constant {i} : index\n" for i in range(UNKNOWN_INDICES)]
    parameters = ["%x: f32"]
    parameters += [f"%n{i}: index" for i in range(UNKNOWN_INDICES)]
    parameters += [f"{name}: {tensor(shape)}" for name, shape in graph.arguments]
    text = (
        f"func.func @main({', '.join(parameters)}) -> ({kinds}) {{\n{''.join(constants)}"
        + "\n".join(graph.lines)
        + f"\n  return {', '.join(name for name, _ in results)} : {kinds}\n}}\n"
    )
    return text, arguments(graph, draw(st.integers(0, 2**16)))


def arguments(graph: Graph, seed: int) -> tuple[np.ndarray, ...]:
    """Numbers that show a wrong sign of zero, a lost infinity or NaN, and a missing rounding."""
    rng = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 2049.0, 1 / 3], np.float32)

    def numbers(shape: Shape) -> np.ndarray:
        return rng.choice(special, size=shape).astype(np.float32)

    indices = [np.array(i, np.int64) for i in range(UNKNOWN_INDICES)]
    return (numbers(()), *indices, *(numbers(shape) for _, shape in graph.arguments))
