"""Random slices, pads and reshapes between the source of a scatter and the contraction."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from hypothesis import find, given, settings
from hypothesis import strategies as st

from convir.dialects.context import read_module
from convir.passes.manager.pass_manager import run
from convir.passes.swap_strided_insert_slice_with_contraction.pass_ import (
    SwapStridedInsertSliceWithContractionPass,
)
from convir.reference.checking.check import check

if TYPE_CHECKING:
    from collections.abc import Sequence

SWAP = SwapStridedInsertSliceWithContractionPass.name

MAX_ELEMENTS = 400
MAX_RANK = 4
STEPS = ("insert", "insert", "pad", "extract", "collapse", "expand", "negate")
PARALLEL = '"parallel"'


def tensor(shape: Sequence[int], element: str) -> str:
    return "tensor<" + "".join(f"{size}x" for size in shape) + f"{element}>"


@dataclass
class Views:
    """A source, and a random path of slices, pads and reshapes from it."""

    source: tuple[int, ...]
    shape: list[int]
    text: str = ""
    steps: int = 0

    def step(self, op: str, shape: list[int]) -> None:
        """Add `op`, with {x} for the last value and {old} and {new} for the types."""
        old, new = tensor(self.shape, "f32"), tensor(shape, "f32")
        line = op.format(x=f"%v{self.steps}", old=old, new=new, n=self.steps)
        self.steps += 1
        self.text += line.replace("%y", f"%v{self.steps}")
        self.shape = shape

    def insert(self, low: list[int], strides: list[int], high: list[int]) -> None:
        shape = [
            lo + st * (n - 1) + 1 + hi
            for lo, st, n, hi in zip(low, strides, self.shape, high, strict=True)
        ]
        self.step(
            "  %z{n} = arith.constant dense<0.0> : {new}\n"
            f"  %y = tensor.insert_slice {{x}} into %z{{n}}{low} {self.shape} {strides}"
            " : {old} into {new}\n",
            shape,
        )

    def pad(self, low: list[int], high: list[int]) -> None:
        shape = [lo + n + hi for lo, n, hi in zip(low, self.shape, high, strict=True)]
        arguments = ", ".join(f"%i{dim}: index" for dim in range(len(shape)))
        self.step(
            f"  %y = tensor.pad {{x}} low{low} high{high} {{{{\n  ^bb0({arguments}):\n"
            "    tensor.yield %zero : f32\n  }} : {old} to {new}\n",
            shape,
        )

    def extract(self, offsets: list[int], sizes: list[int], strides: list[int]) -> None:
        self.step(
            f"  %y = tensor.extract_slice {{x}}{offsets} {sizes} {strides} : {{old}} to {{new}}\n",
            sizes,
        )

    def collapse(self, dim: int) -> None:
        groups = [[i] for i in range(dim)] + [[dim, dim + 1]]
        groups += [[i] for i in range(dim + 2, len(self.shape))]
        shape = [prod(self.shape[i] for i in group) for group in groups]
        self.step(f"  %y = tensor.collapse_shape {{x}} {groups} : {{old}} into {{new}}\n", shape)

    def expand(self, dim: int, inner: int) -> None:
        groups = [[i] for i in range(dim)] + [[dim, dim + 1]]
        groups += [[i + 1] for i in range(dim + 1, len(self.shape))]
        shape = [*self.shape[:dim], self.shape[dim] // inner, inner, *self.shape[dim + 1 :]]
        self.step(
            f"  %y = tensor.expand_shape {{x}} {groups} output_shape {shape}"
            " : {old} into {new}\n",
            shape,
        )

    def negate(self, order: list[int]) -> None:
        """An elementwise op that also permutes the dimensions."""
        shape = [self.shape[dim] for dim in order]
        loops = ", ".join(f"d{dim}" for dim in range(len(shape)))
        results = ", ".join(f"d{dim}" for dim in order)
        iterators = ", ".join([PARALLEL] * len(shape))
        self.step(
            "  %e{n} = tensor.empty() : {new}\n  %y = linalg.generic {{indexing_maps = ["
            f"affine_map<({loops}) -> ({loops})>, affine_map<({loops}) -> ({results})>],"
            f" iterator_types = [{iterators}]}}}} ins({{x}} : {{old}}) outs(%e{{n}} : {{new}})"
            " {{\n  ^bb0(%a: f32, %o: f32):\n    %m = arith.negf %a : f32\n"
            "    linalg.yield %m : f32\n  }} -> {new}\n",
            shape,
        )


@st.composite
def views(draw: st.DrawFn) -> Views:
    source = draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    path = Views(tuple(source), source)
    for _ in range(draw(st.integers(1, 5))):
        rank = len(path.shape)

        def each(low: int, high: int, rank: int = rank) -> list[int]:
            return [draw(st.integers(low, high)) for _ in range(rank)]

        match draw(st.sampled_from(STEPS)):
            case "insert" if prod(path.shape) < MAX_ELEMENTS:
                path.insert(each(0, 1), each(1, 3), each(0, 1))
            case "pad" if prod(path.shape) < MAX_ELEMENTS:
                path.pad(each(0, 1), each(0, 2))
            case "extract":
                offsets = [draw(st.integers(0, n - 1)) for n in path.shape]
                strides = each(1, 2)
                sizes = [
                    draw(st.integers(1, (n - o - 1) // s + 1))
                    for n, o, s in zip(path.shape, offsets, strides, strict=True)
                ]
                path.extract(offsets, sizes, strides)
            case "negate":
                path.negate(list(draw(st.permutations(range(rank)))))
            case "collapse" if rank > 1:
                path.collapse(draw(st.integers(0, rank - 2)))
            case "expand" if rank < MAX_RANK:
                dim = draw(st.integers(0, rank - 1))
                size = path.shape[dim]
                path.expand(dim, draw(st.sampled_from([d for d in range(1, 13) if size % d == 0])))
            case _:
                continue
    return path


@st.composite
def functions(draw: st.DrawFn) -> str:
    """A path, contracted over some of its dimensions with a matrix that has columns besides."""
    path = draw(views())
    rank = len(path.shape)
    reduced = sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1)))
    kept = draw(st.permutations([dim for dim in range(rank) if dim not in reduced]))
    loops = [f"d{dim}" for dim in range(rank)]
    maps = [
        f"affine_map<({', '.join([*loops, 'k'])}) -> ({', '.join(results)})>"
        for results in (
            loops,
            [f"d{dim}" for dim in reduced] + ["k"],
            [f"d{dim}" for dim in kept] + ["k"],
        )
    ]
    iterators = ['"reduction"' if dim in reduced else '"parallel"' for dim in range(rank)]
    source, last = tensor(path.source, "f32"), tensor(path.shape, "f32")
    matrix = tensor([*(path.shape[dim] for dim in reduced), 2], "f32")
    result = tensor([*(path.shape[dim] for dim in kept), 2], "f32")
    arguments, init = f"%v0: {source}, %w: {matrix}", ""
    if draw(st.booleans()):
        init = f"  %init = arith.constant dense<1.0> : {result}\n"
    else:
        arguments += f", %init: {result}"
    return (
        f"func.func @main({arguments}) -> {result} {{\n"
        f"  %zero = arith.constant 0.0 : f32\n{path.text}{init}"
        f"  %r = linalg.generic {{indexing_maps = [{', '.join(maps)}],"
        f" iterator_types = [{', '.join([*iterators, PARALLEL])}]}}"
        f" ins(%v{path.steps}, %w : {last}, {matrix}) outs(%init : {result}) {{\n"
        "  ^bb0(%a: f32, %b: f32, %acc: f32):\n"
        "    %p = arith.mulf %a, %b : f32\n    %t = arith.addf %acc, %p : f32\n"
        f"    linalg.yield %t : f32\n  }} -> {result}\n  return %r : {result}\n}}\n"
    )


@settings(max_examples=150, deadline=None)
@given(functions())
def test_the_result_is_the_same(text: str) -> None:
    before = read_module(text, "path.mlir")
    result = run(before, SWAP)
    report = check(before, result.module, "main")
    assert (report.passed, report.exact) == (True, True), f"{report}\n{text}\n{result.module}"


def test_the_paths_are_not_vacuous() -> None:
    def fires_behind_a_reshape(text: str) -> bool:
        fired = any(remark.fired for remark in run(text, SWAP).remarks)
        return fired and "tensor.collapse_shape" in text and "tensor.insert_slice" in text

    find(functions(), fires_behind_a_reshape, settings=settings(max_examples=500, deadline=None))
