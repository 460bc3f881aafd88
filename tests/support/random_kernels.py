"""Random kernels: tensor ops of every kind on top of each other, with values that stay exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from scalar_cases import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "i16", "i32", "i64", "index")
ELEMENTS = (*FLOATS, *INTEGERS, "i1")
SMALL_SIZES = (1, 2, 3, 4, 5)
VECTOR_SIZES = (1, 2, 3, 4, 6, 8, 16)
"""Sizes of dimensions that vectors of 2 to 16 elements divide, and others between them."""
MAX_ELEMENTS = 120
"""Sums of so many values of at most 2 are exact in bf16."""
MAX_VECTOR_ELEMENTS = 512
"""Sums of so many values between -2 and 2 are exact in bf16 unless most have the same sign."""


@dataclass(frozen=True)
class Value:
    name: str
    shape: tuple[int, ...]
    element: str
    small: bool
    """Whether all elements are integers of at most 2, so that sums of them are exact."""

    @property
    def type(self) -> str:
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element}>"

    @property
    def buffer(self) -> str:
        return f"{''.join(f'{size}x' for size in self.shape)}{self.element}"


@dataclass
class RandomKernel:
    """A kernel being drawn; `text` and `arguments` when it is done."""

    draw: Callable[[Any], Any]
    sizes: tuple[int, ...] = SMALL_SIZES
    max_elements: int = MAX_ELEMENTS
    inputs: list[Value] = field(default_factory=list[Value])
    values: list[Value] = field(default_factory=list[Value])
    lines: list[str] = field(default_factory=list[str])
    results: tuple[Value, ...] = ()

    @property
    def text(self) -> str:
        arguments = ", ".join(f"{v.name}: {v.type}" for v in self.inputs)
        names = ", ".join(v.name for v in self.results)
        types = ", ".join(v.type for v in self.results)
        body = "\n".join(f"  {line}" for line in self.lines)
        return (
            f"kernel.func @k({arguments}) -> ({types}) {{\n{body}\n"
            f"  kernel.return {names} : {types}\n}}"
        )

    def arguments(self, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [
            np.asarray(
                rng.integers(0, 2, v.shape) if v.element == "i1" else rng.integers(-2, 3, v.shape)
            ).astype(DTYPES[v.element])
            for v in self.inputs
        ]

    def pick(self, options: Iterable[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def emit(self, shape: tuple[int, ...], element: str, op: str, *, small: bool) -> Value:
        """A value computed by `op`, which may stand for its own type as `TYPE`."""
        value = Value(f"%v{len(self.lines)}", shape, element, small)
        self.lines.append(f"{value.name} = {op.replace('TYPE', value.type)}")
        self.values.append(value)
        return value

    def add_input(self) -> None:
        rank = self.integer(0, 3)
        shape = tuple(self.pick(self.sizes) for _ in range(rank))
        if np.prod(shape) > self.max_elements:
            shape = shape[1:]
        element = self.pick(ELEMENTS)
        value = Value(f"%x{len(self.inputs)}", shape, element, small=True)
        self.inputs.append(value)
        self.values.append(value)

    def splat(self, shape: tuple[int, ...], element: str, number: int = 0) -> Value:
        literal = f"{number}.0" if element in FLOATS else str(number)
        literal = ("true" if number else "false") if element == "i1" else literal
        return self.emit(shape, element, f"arith.constant dense<{literal}> : TYPE", small=True)

    def step(self) -> None:
        value = self.pick(self.values)
        self.pick(STEPS)(self, value)


def pointwise(k: RandomKernel, v: Value) -> None:
    if v.element == "i1":
        op = k.pick(("andi", "ori", "xori", "addi", "maxsi", "minui"))
        k.emit(v.shape, v.element, f"arith.{op} {v.name}, {v.name} : TYPE", small=True)
        return
    like = [u for u in k.values if (u.shape, u.element) == (v.shape, v.element)]
    other = k.pick(like)
    floats = ("addf", "subf", "mulf", "maximumf", "minimumf", "divf")
    integers = ("addi", "subi", "muli", "maxsi", "minui", "andi", "xori")
    op = k.pick(floats if v.element in FLOATS else integers)
    small = v.small and other.small and op in ("maximumf", "minimumf", "maxsi")
    k.emit(v.shape, v.element, f"arith.{op} {v.name}, {other.name} : TYPE", small=small)


def convert(k: RandomKernel, v: Value) -> None:
    if v.element in FLOATS:
        place = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2}
        wider = [e for e in FLOATS if place[e] > place[v.element]]
        narrower = [e for e in FLOATS if place[e] < place[v.element]]
        result = k.pick([*wider, *narrower])
        op = "extf" if result in wider else "truncf"
    elif v.element == "index":
        result, op = k.pick(("i8", "i32", "i64")), "index_cast"
    else:
        result = k.pick(FLOATS)
        op = k.pick(("sitofp", "uitofp"))
    small = v.small and op != "uitofp"
    k.emit(v.shape, result, f"arith.{op} {v.name} : {v.type} to TYPE", small=small)


def compare(k: RandomKernel, v: Value) -> None:
    """An elementwise generic: what is at least 1 becomes 1, or the other way round."""
    op, predicate = ("cmpf", "olt") if v.element in FLOATS else ("cmpi", k.pick(("slt", "uge")))
    one = k.splat(v.shape, v.element, 1)
    init = k.emit(v.shape, v.element, "tensor.empty() : TYPE", small=False)
    k.values.remove(init)
    loops = ", ".join(f"d{i}" for i in range(len(v.shape)))
    identity = f"affine_map<({loops}) -> ({loops})>"
    kinds = ", ".join(['"parallel"'] * len(v.shape))
    arguments = ", ".join(f"%{name}: {v.element}" for name in "abo")
    k.emit(
        v.shape,
        v.element,
        f"linalg.generic {{indexing_maps = [{identity}, {identity}, {identity}], "
        f"iterator_types = [{kinds}]}} ins({v.name}, {one.name} : {v.type}, {v.type}) "
        f"outs({init.name} : TYPE) {{\n  ^bb0({arguments}):\n"
        f"    %p = arith.{op} {predicate}, %a, %b : {v.element}\n"
        f"    %r = arith.select %p, %a, %b : {v.element}\n"
        f"    linalg.yield %r : {v.element}\n  }} -> TYPE",
        small=v.small,
    )


def transpose(k: RandomKernel, v: Value) -> None:
    order: list[int] = k.draw(st.permutations(range(len(v.shape))))
    shape = tuple(v.shape[i] for i in order)
    init = k.emit(shape, v.element, "tensor.empty() : TYPE", small=False)
    k.values.remove(init)
    line = f"linalg.transpose ins({v.name} : {v.type}) outs({init.name} : TYPE)"
    k.emit(shape, v.element, f"{line} permutation = {list(order)}", small=v.small)


def broadcast(k: RandomKernel, v: Value) -> None:
    if len(v.shape) > 2 or np.prod(v.shape) * max(k.sizes) > k.max_elements:
        return
    size, place = k.pick(k.sizes), k.integer(0, len(v.shape))
    shape = (*v.shape[:place], size, *v.shape[place:])
    init = k.emit(shape, v.element, "tensor.empty() : TYPE", small=False)
    k.values.remove(init)
    line = f"linalg.broadcast ins({v.name} : {v.type}) outs({init.name} : TYPE)"
    k.emit(shape, v.element, f"{line} dimensions = [{place}]", small=v.small)


def extract_slice(k: RandomKernel, v: Value) -> None:
    offsets: list[int] = []
    sizes: list[int] = []
    strides: list[int] = []
    for size in v.shape:
        offsets.append(k.integer(0, size - 1))
        strides.append(k.integer(1, 3))
        sizes.append(k.integer(1, 1 + (size - 1 - offsets[-1]) // strides[-1]))
    line = f"tensor.extract_slice {v.name}{offsets} {sizes} {strides} : {v.type} to TYPE"
    k.emit(tuple(sizes), v.element, line, small=v.small)


def insert_slice(k: RandomKernel, v: Value) -> None:
    offsets: list[int] = []
    strides: list[int] = []
    shape: list[int] = []
    for size in v.shape:
        offsets.append(k.integer(0, 2))
        strides.append(k.integer(1, 3))
        shape.append(offsets[-1] + (size - 1) * strides[-1] + 1 + k.integer(0, 2))
    if np.prod(shape) > k.max_elements:
        return
    fitting = [u for u in k.values if (u.shape, u.element) == (tuple(shape), v.element)]
    dest = k.pick([k.splat(tuple(shape), v.element, k.integer(0, 1)), *fitting])
    line = f"tensor.insert_slice {v.name} into {dest.name}{offsets} {list(v.shape)} {strides}"
    k.emit(tuple(shape), v.element, f"{line} : {v.type} into TYPE", small=v.small and dest.small)


def pad(k: RandomKernel, v: Value) -> None:
    low = [k.integer(0, 2) for _ in v.shape]
    high = [k.integer(0, 2) for _ in v.shape]
    shape = tuple(a + size + b for a, size, b in zip(low, v.shape, high, strict=True))
    if not shape or np.prod(shape) > k.max_elements:
        return
    literal = "1.0" if v.element in FLOATS else ("true" if v.element == "i1" else "1")
    constant = f"arith.constant {literal}" + ("" if v.element == "i1" else f" : {v.element}")
    indices = ", ".join(f"%i{d}: index" for d in range(len(shape)))
    block = f"^bb0({indices}):\n    %c = {constant}\n    tensor.yield %c : {v.element}"
    line = f"tensor.pad {v.name} low{low} high{high} {{\n  {block}\n  }} : {v.type} to TYPE"
    k.emit(shape, v.element, line, small=v.small)


def collapse(k: RandomKernel, v: Value) -> None:
    if v.shape and all(size == 1 for size in v.shape) and k.integer(0, 1):
        k.emit(
            (), v.element, f"tensor.collapse_shape {v.name} [] : {v.type} into TYPE", small=v.small
        )
        return
    if len(v.shape) < 2:
        return
    place = k.integer(0, len(v.shape) - 2)
    shape = (*v.shape[:place], v.shape[place] * v.shape[place + 1], *v.shape[place + 2 :])
    dims = list(range(len(v.shape)))
    groups = [
        *[[d] for d in dims[:place]],
        dims[place : place + 2],
        *[[d] for d in dims[place + 2 :]],
    ]
    line = f"tensor.collapse_shape {v.name} {groups} : {v.type} into TYPE"
    k.emit(shape, v.element, line, small=v.small)


def expand(k: RandomKernel, v: Value) -> None:
    if not v.shape or len(v.shape) > 2:
        return
    place = k.integer(0, len(v.shape) - 1)
    size = v.shape[place]
    factor: int = k.pick([f for f in range(1, size + 1) if size % f == 0])
    shape = (*v.shape[:place], factor, size // factor, *v.shape[place + 1 :])
    groups = [[d] for d in range(place)] + [[place, place + 1]]
    groups += [[d + 1] for d in range(place + 1, len(v.shape))]
    line = f"tensor.expand_shape {v.name} {groups} output_shape {list(shape)} : {v.type} into TYPE"
    k.emit(shape, v.element, line, small=v.small)


def concat(k: RandomKernel, v: Value) -> None:
    if not v.shape or 2 * np.prod(v.shape) > k.max_elements:
        return
    dim = k.integer(0, len(v.shape) - 1)
    shape = (*v.shape[:dim], 2 * v.shape[dim], *v.shape[dim + 1 :])
    other = k.pick([u for u in k.values if (u.shape, u.element) == (v.shape, v.element)])
    line = f"tensor.concat dim({dim}) {v.name}, {other.name} : ({v.type}, {other.type}) -> TYPE"
    k.emit(shape, v.element, line, small=v.small and other.small)


def reduce(k: RandomKernel, v: Value) -> None:
    """One or two results over the same loops; sums of small values only."""
    if not v.shape:
        return
    dim = k.integer(0, len(v.shape) - 1)
    shape = (*v.shape[:dim], *v.shape[dim + 1 :])
    loops = [f"d{i}" for i in range(len(v.shape))]
    kept = [loop for i, loop in enumerate(loops) if i != dim]
    if v.element in FLOATS:
        op = k.pick(("addf", "maximumf") if v.small else ("maximumf", "minimumf"))
    else:
        op = k.pick(("addi", "xori", "maxsi", "minui"))
    inits = [k.splat(shape, v.element, 1) for _ in range(k.integer(1, 2))]
    maps = [f"affine_map<({', '.join(loops)}) -> ({', '.join(loops)})>"]
    maps += [f"affine_map<({', '.join(loops)}) -> ({', '.join(kept)})>"] * len(inits)
    kinds = ", ".join('"reduction"' if i == dim else '"parallel"' for i in range(len(loops)))
    types = ", ".join(init.type for init in inits)
    outs = ", ".join(init.name for init in inits)
    accumulators = [f"%o{i}" for i in range(len(inits))]
    arguments = ", ".join(f"{o}: {v.element}" for o in accumulators)
    body = "".join(
        f"    %r{i} = arith.{op} {o}, %a : {v.element}\n" for i, o in enumerate(accumulators)
    )
    yielded = ", ".join(f"%r{i}" for i in range(len(inits)))
    elements = ", ".join([v.element] * len(inits))
    result = f"%v{len(k.lines)}"
    suffix = f":{len(inits)}" if len(inits) > 1 else ""
    returned = f"({types})" if len(inits) > 1 else types
    k.lines.append(
        f"{result}{suffix} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
        f"iterator_types = [{kinds}]}} ins({v.name} : {v.type}) outs({outs} : {types}) {{\n"
        f"  ^bb0(%a: {v.element}, {arguments}):\n{body}"
        f"    linalg.yield {yielded} : {elements}\n  }} -> {returned}"
    )
    for i in range(len(inits)):
        name = f"{result}#{i}" if len(inits) > 1 else result
        k.values.append(Value(name, shape, v.element, small=False))


def gather(k: RandomKernel, v: Value) -> None:
    """A generic that reads a tensor at indices it computes: reversed, or every other one."""
    if not v.shape:
        return
    rank, dim = len(v.shape), k.integer(0, len(v.shape) - 1)
    size = v.shape[dim]
    loops = ", ".join(f"d{i}" for i in range(rank))
    identity = f"affine_map<({loops}) -> ({loops})>"
    init = k.emit(v.shape, v.element, "tensor.empty() : TYPE", small=False)
    k.values.remove(init)
    op = k.pick(("floordivsi", "ceildivsi", "remsi", "reverse"))
    lines = [f"%i{d} = linalg.index {d} : index" for d in range(rank)]
    lines += ["%two = arith.constant 2 : index", f"%last = arith.constant {size - 1} : index"]
    if op == "reverse":
        lines.append(f"%at = arith.subi %last, %i{dim} : index")
    else:
        lines.append(f"%m = arith.{op} %i{dim}, %two : index")
        lines.append("%at = arith.minsi %m, %last : index")
    indices = ", ".join("%at" if d == dim else f"%i{d}" for d in range(rank))
    lines.append(f"%e = tensor.extract {v.name}[{indices}] : {v.type}")
    body = "\n    ".join(lines)
    kinds = ", ".join(['"parallel"'] * rank)
    k.emit(
        v.shape,
        v.element,
        f"linalg.generic {{indexing_maps = [{identity}], iterator_types = [{kinds}]}} "
        f"outs({init.name} : TYPE) {{\n  ^bb0(%o: {v.element}):\n    {body}\n"
        f"    linalg.yield %e : {v.element}\n  }} -> TYPE",
        small=v.small,
    )


STEPS = (
    pointwise,
    convert,
    compare,
    transpose,
    broadcast,
    extract_slice,
    insert_slice,
    pad,
    collapse,
    expand,
    concat,
    reduce,
    gather,
)


@st.composite
def random_kernels(draw: Callable[[Any], Any], *, vectors: bool = False) -> RandomKernel:
    """A kernel of up to eight ops on up to three inputs, with one or two results.

    With `vectors`, its rows are long enough for accesses of 16 bytes.
    """
    k = RandomKernel(draw)
    if vectors:
        k = RandomKernel(draw, VECTOR_SIZES, MAX_VECTOR_ELEMENTS)
    for _ in range(k.integer(1, 3)):
        k.add_input()
    for _ in range(k.integer(1, 8)):
        k.step()
    computed = [v for v in k.values if v not in k.inputs]
    if not computed:
        computed = [k.splat((2,), "f32", 1)]
    k.results = tuple(computed[-k.integer(1, 2) :])
    return k
