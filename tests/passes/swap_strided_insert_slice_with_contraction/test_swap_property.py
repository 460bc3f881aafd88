"""Random scatters and contractions: equal before and after, and rewritten when they must be."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from convir.dialects.context import read_module
from convir.passes.manager.pass_manager import run
from convir.passes.swap_strided_insert_slice_with_contraction.pass_ import (
    MIN_PADDING_SAVING,
    SwapStridedInsertSliceWithContractionPass,
)
from convir.reference.checking.check import check

if TYPE_CHECKING:
    from collections.abc import Sequence


SWAP = SwapStridedInsertSliceWithContractionPass.name


@dataclass(frozen=True)
class Axis:
    """A dimension of the scattered operand."""

    size: int
    """Elements of the source."""
    stride: int
    low: int
    high: int
    taps: int = 1
    """1 if one loop indexes it, more if a window of that many taps does."""
    in_filter: bool = False
    """Whether the filter is indexed by its loop too."""

    @property
    def extent(self) -> int:
        """The scattered size."""
        return self.low + self.stride * (self.size - 1) + 1 + self.high

    @property
    def trips(self) -> int:
        """How often the loop over it runs."""
        return self.extent - self.taps + 1

    @property
    def gapless(self) -> bool:
        return self.size == self.extent and self.stride == 1


@dataclass(frozen=True)
class Types:
    """Element types and the arithmetic between them."""

    element: str
    accumulator: str

    @property
    def is_float(self) -> bool:
        return self.element[0] != "i"

    def zero(self, element: str) -> str:
        return self.number(0, element)

    def number(self, value: int, element: str) -> str:
        return f"{value}.0 : {element}" if self.is_float else f"{value} : {element}"


@dataclass(frozen=True)
class Case:
    """One function: a scatter, a contraction, elementwise ops."""

    space: tuple[Axis, ...]
    channels: Axis
    """Reduced; scattered too in some cases."""
    batch: int
    outputs: int
    groups: int
    """0 for no group dimension."""
    types: Types
    source_order: tuple[int, ...]
    filter_order: tuple[int, ...]
    result_order: tuple[int, ...]
    filter_first: bool
    commuted: bool
    init: int | None
    """What the init is filled with; None for an init that is an argument."""
    zeros: str
    """`constant`, `fill` or `splat`."""
    chain: tuple[str, ...]


def tensor(shape: Sequence[int], element: str) -> str:
    return "tensor<" + "".join(f"{size}x" for size in shape) + f"{element}>"


def names(entries: Sequence[str], order: Sequence[int]) -> list[str]:
    """The entries in the drawn order."""
    return [entries[position] for position in order]


class Text:
    """The MLIR text of a case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.element = case.types.element
        self.wide = case.types.accumulator
        self.space = [f"s{i}" for i in range(len(case.space))]
        group = ["g"] if case.groups else []
        self.parallel = ["n", *self.space, *group, "k"]
        self.windows = [f"r{i}" for i, axis in enumerate(case.space) if axis.taps > 1]
        self.loops = [*self.parallel, *self.windows, "c"]
        self.source = names(["n", *self.space, *group, "c"], case.source_order)
        taps = [f"s{i}" for i, axis in enumerate(case.space) if axis.in_filter]
        self.filter = names([*group, "k", *self.windows, *taps, "c"], case.filter_order)
        self.result = names(self.parallel, case.result_order)

    def axis(self, name: str) -> Axis:
        case = self.case
        if name == "c":
            return case.channels
        if name[0] == "s":
            return case.space[int(name[1:])]
        size = {"n": case.batch, "g": case.groups, "k": case.outputs}[name]
        return Axis(size, 1, 0, 0)

    def trips(self, name: str) -> int:
        if name[0] == "r":
            return self.case.space[int(name[1:])].taps
        return self.axis(name).trips

    def index(self, name: str) -> str:
        if name[0] == "s" and self.axis(name).taps > 1:
            return f"{name} + r{name[1:]}"
        return name

    def map(self, results: Sequence[str]) -> str:
        return f"affine_map<({', '.join(self.loops)}) -> ({', '.join(results)})>"

    def zeros(self, shape: str) -> str:
        zero = self.case.types.zero(self.element)
        if self.case.zeros == "constant":
            return f"  %zeros = arith.constant dense<{zero.split(' ')[0]}> : {shape}\n"
        scalar = f"  %zero = arith.constant {zero}\n"
        if self.case.zeros == "splat":
            return scalar + f"  %zeros = tensor.splat %zero : {shape}\n"
        return (
            scalar
            + f"  %ze = tensor.empty() : {shape}\n"
            + f"  %zeros = linalg.fill ins(%zero : {self.element}) outs(%ze : {shape}) -> {shape}\n"
        )

    def scatter(self, source: str, shape: str) -> str:
        axes = [self.axis(name) for name in self.source]
        slices = " ".join(
            str(list(entries))
            for entries in (
                [axis.low for axis in axes],
                [axis.size for axis in axes],
                [axis.stride for axis in axes],
            )
        )
        return f"  %s = tensor.insert_slice %x into %zeros{slices} : {source} into {shape}\n"

    def init(self, shape: str) -> str:
        if self.case.init is None:
            return ""
        number = self.case.types.number(self.case.init, self.wide)
        return (
            f"  %fill = arith.constant {number}\n  %e = tensor.empty() : {shape}\n"
            f"  %init = linalg.fill ins(%fill : {self.wide}) outs(%e : {shape}) -> {shape}\n"
        )

    def contraction(self, source: str, filter_: str, result: str) -> str:
        kind = "f" if self.case.types.is_float else "i"
        casts, left, right = "", "%a", "%b"
        if self.element != self.wide:
            extend = "arith.extf" if kind == "f" else "arith.extsi"
            casts = "".join(
                f"    %{value}w = {extend} %{value} : {self.element} to {self.wide}\n"
                for value in "ab"
            )
            left, right = "%aw", "%bw"
        operands = f"{right}, {left}" if self.case.commuted else f"{left}, {right}"
        sums = "%p, %acc" if self.case.commuted else "%acc, %p"
        iterators = [
            '"parallel"' if loop in self.parallel else '"reduction"' for loop in self.loops
        ]
        inputs = [("%s", source, self.map([self.index(name) for name in self.source]))]
        inputs.append(("%w", filter_, self.map(self.filter)))
        if self.case.filter_first:
            inputs.reverse()
        maps = [entry[2] for entry in inputs] + [self.map(self.result)]
        return (
            f"  %r0 = linalg.generic {{indexing_maps = [{', '.join(maps)}],"
            f" iterator_types = [{', '.join(iterators)}]}}"
            f" ins({', '.join(entry[0] for entry in inputs)} :"
            f" {', '.join(entry[1] for entry in inputs)}) outs(%init : {result}) {{\n"
            f"  ^bb0(%a: {self.element}, %b: {self.element}, %acc: {self.wide}):\n{casts}"
            f"    %p = arith.mul{kind} {operands} : {self.wide}\n"
            f"    %t = arith.add{kind} {sums} : {self.wide}\n"
            f"    linalg.yield %t : {self.wide}\n  }} -> {result}\n"
        )

    def elementwise(self, number: int, op: str, shape: list[int]) -> tuple[str, list[int]]:
        """The text of one op of the chain, and the shape of its result."""
        order = list(range(len(shape)))
        if op == "transpose":
            order.reverse()
        after = [shape[dim] for dim in order]
        before_type, after_type = tensor(shape, self.wide), tensor(after, self.wide)
        loops = ", ".join(f"d{i}" for i in range(len(shape)))
        results = ", ".join(f"d{i}" for i in order)
        maps = f"affine_map<({loops}) -> ({loops})>, affine_map<({loops}) -> ({results})>"
        kind = "f" if self.case.types.is_float else "i"
        constant = f"    %c = arith.constant {self.case.types.number(3, self.wide)}\n"
        body = {
            "transpose": "",
            "add": f"{constant}    %y = arith.add{kind} %v, %c : {self.wide}\n",
            "scale": f"{constant}    %y = arith.mul{kind} %v, %c : {self.wide}\n",
            "square": f"    %y = arith.mul{kind} %v, %v : {self.wide}\n",
            "accumulate": f"    %y = arith.add{kind} %v, %o : {self.wide}\n",
        }[op]
        yielded = "%v" if op == "transpose" else "%y"
        init = f"  %e{number} = tensor.empty() : {after_type}\n"
        if op == "accumulate":
            five = self.case.types.number(5, self.wide).split(" ")[0]
            init = f"  %e{number} = arith.constant dense<{five}> : {after_type}\n"
        parallel = ", ".join('"parallel"' for _ in shape)
        text = (
            f"{init}  %r{number + 1} = linalg.generic {{indexing_maps = [{maps}],"
            f" iterator_types = [{parallel}]}} ins(%r{number} : {before_type})"
            f" outs(%e{number} : {after_type}) {{\n"
            f"  ^bb0(%v: {self.wide}, %o: {self.wide}):\n{body}"
            f"    linalg.yield {yielded} : {self.wide}\n  }} -> {after_type}\n"
        )
        return text, after

    def module(self) -> str:
        case = self.case
        source = tensor([self.axis(name).size for name in self.source], self.element)
        scattered = tensor([self.axis(name).extent for name in self.source], self.element)
        filter_ = tensor([self.trips(name) for name in self.filter], self.element)
        shape = [self.trips(name) for name in self.result]
        result = tensor(shape, self.wide)
        arguments = f"%x: {source}, %w: {filter_}"
        if case.init is None:
            arguments += f", %init: {result}"
        body = (
            self.zeros(scattered)
            + self.scatter(source, scattered)
            + self.init(result)
            + self.contraction(scattered, filter_, result)
        )
        for number, op in enumerate(case.chain):
            text, shape = self.elementwise(number, op, shape)
            body += text
        final = tensor(shape, self.wide)
        return (
            f"func.func @main({arguments}) -> {final} {{\n{body}"
            f"  return %r{len(case.chain)} : {final}\n}}\n"
        )


def must_fire(case: Case) -> bool:
    """The preconditions that the pass documents; a window that stands still has one loop."""
    alone = [
        axis
        for axis in (*case.space, case.channels)
        if (axis.taps == 1 or axis.trips == 1) and not axis.gapless
    ]
    saving = prod(axis.extent / axis.size for axis in alone)
    if saving <= 1:
        return False
    strided = any(axis.stride != 1 and axis.size > 1 for axis in alone)
    return strided or saving >= MIN_PADDING_SAVING


TYPES = st.sampled_from(
    [
        Types("f16", "f32"),
        Types("bf16", "f32"),
        Types("f32", "f32"),
        Types("f64", "f64"),
        Types("i32", "i32"),
        Types("i8", "i32"),
    ]
)


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    axis = Axis(draw(st.integers(1, 4)), draw(st.integers(1, 3)), low, high)
    taps = draw(st.sampled_from([1, 1, 1, 2, 3]))
    if taps > axis.extent:
        taps = 1
    in_filter = taps == 1 and draw(st.booleans())
    return Axis(axis.size, axis.stride, low, high, taps, in_filter)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    space = tuple(draw(st.lists(axes(), min_size=1, max_size=3)))
    channels = Axis(draw(st.integers(1, 3)), 1, 0, 0)
    if draw(st.integers(0, 3)) == 0:
        channels = Axis(channels.size, draw(st.integers(1, 3)), draw(st.integers(0, 1)), 1)
    groups = draw(st.sampled_from([0, 0, 1, 2]))
    rank = len(space) + 2 + bool(groups)
    filter_rank = 2 + bool(groups) + sum(axis.taps > 1 or axis.in_filter for axis in space)
    return Case(
        space=space,
        channels=channels,
        batch=draw(st.integers(1, 2)),
        outputs=draw(st.integers(1, 3)),
        groups=groups,
        types=draw(TYPES),
        source_order=tuple(draw(st.permutations(range(rank)))),
        filter_order=tuple(draw(st.permutations(range(filter_rank)))),
        result_order=tuple(draw(st.permutations(range(rank)))),
        filter_first=draw(st.booleans()),
        commuted=draw(st.booleans()),
        init=draw(st.sampled_from([0, 0, 2, -1, None])),
        zeros=draw(st.sampled_from(["constant", "fill", "splat"])),
        chain=tuple(
            draw(
                st.lists(
                    st.sampled_from(["add", "scale", "square", "transpose", "accumulate"]),
                    max_size=3,
                    unique=True,
                )
            )
        ),
    )


@settings(max_examples=150, deadline=None)
@given(cases())
def test_the_result_is_the_same_and_the_pass_fires_when_it_must(case: Case) -> None:
    text = Text(case).module()
    before = read_module(text, "case.mlir")
    result = run(before, SWAP)
    fired = any(remark.fired for remark in result.remarks)
    assert fired == must_fire(case), text
    report = check(before, result.module, "main")
    assert (report.passed, report.exact) == (True, True), f"{report}\n{text}\n{result.module}"
