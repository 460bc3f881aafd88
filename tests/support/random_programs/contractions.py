"""Steps that contract: windows, strides, dilations, groups, permuted operands, two scatters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from random_programs.scatters import scatter
from random_programs.types import FLOATS, affine, header

if TYPE_CHECKING:
    from random_programs.choices import Choices
    from random_programs.function import RandomFunction, Value

ACCUMULATORS = {
    "f16": ("f32", "f16"),
    "bf16": ("f32", "f32", "bf16"),
    "f32": ("f32", "f32", "f64"),
    "f64": ("f64",),
    "i8": ("i32", "i8"),
    "i16": ("i32", "i64"),
    "i32": ("i32", "i64"),
    "i64": ("i64",),
    "index": ("index",),
}
"""What products of a type are summed in."""
MAX_PRODUCTS = 4000


@dataclass
class Loops:
    """The loops of one contraction, and what indexes each operand."""

    bounds: dict[str, int] = field(default_factory=dict[str, int])
    summed: set[str] = field(default_factory=set[str])
    lhs: list[str] = field(default_factory=list[str])
    rhs: list[str] = field(default_factory=list[str])

    def loop(self, prefix: str, bound: int, *, summed: bool = False) -> str:
        """A new loop."""
        name = f"{prefix}{len(self.bounds)}"
        self.bounds[name] = bound
        if summed:
            self.summed.add(name)
        return name

    def read(self, choices: Choices, size: int) -> None:
        """Index a dimension of the first operand that has `size` elements."""
        kind = choices.below(5)
        if kind < 2:  # a window
            taps = choices.integer(1, min(size, 3))
            dilation = choices.integer(1, 2) if taps > 1 else 1
            reach = dilation * (taps - 1) + 1
            if reach > size:
                dilation, reach = 1, taps
            stride = choices.pick((1, 1, 2, 3))
            p = self.loop("p", (size - reach) // stride + 1)
            r = self.loop("r", taps, summed=True)
            self.lhs.append(f"{_times(p, stride)} + {_times(r, dilation)}")
            self.rhs.append(r)
            return
        loop = self.loop("g" if kind == 3 else "c" if kind == 2 else "m", size, summed=kind == 2)
        self.lhs.append(loop)
        if kind < 4:
            self.rhs.append(loop)


def _times(loop: str, factor: int) -> str:
    return loop if factor == 1 else f"{loop} * {factor}"


def contraction(k: RandomFunction, v: Value) -> None:
    """A multiply-add nest over `v` and a tensor that fits it, in any order and layout."""
    if v.element not in ACCUMULATORS or not v.small or 0 in v.shape:
        return
    c, loops = k.choices, Loops()
    for size in v.shape:
        loops.read(c, size)
    for _ in range(c.pick((0, 1, 1, 2))):
        loops.rhs.append(loops.loop("n", c.pick(k.sizes)))
    if np.prod([*loops.bounds.values(), 1]) > MAX_PRODUCTS:
        return
    loops.rhs = [loops.rhs[i] for i in c.permutation(len(loops.rhs))]
    shape = [loops.bounds[loop] for loop in loops.rhs]
    if np.prod(shape) > 4 * k.max_elements:
        return
    w = _second(k, shape, v.element)
    kept = [loop for loop in loops.bounds if loop not in loops.summed]
    kept = [kept[i] for i in c.permutation(len(kept))]
    names = list(loops.bounds)
    names = [names[i] for i in c.permutation(len(names))]
    element = c.pick(ACCUMULATORS[v.element])
    _emit(k, (v, w), loops, names, kept, element)


def _second(k: RandomFunction, shape: list[int], element: str) -> Value:
    """The other operand: an argument, or often one that is scattered as well."""
    value = k.of_type(shape, element)
    if not k.choices.one_in(4):
        return value
    # Scattered backwards: every second element of a value that is as large.
    sizes = [-(-size // 2) for size in shape]
    source = k.of_type(sizes, element)
    strides = [2 if size > 1 else 1 for size in shape]
    zeros = k.uniform(shape, element)
    op = f"tensor.insert_slice {source.name} into {zeros.name}{[0] * len(shape)} {sizes} {strides}"
    return k.emit(shape, element, f"{op} : {source.type} into TYPE", small=True)


def _emit(
    k: RandomFunction,
    operands: tuple[Value, Value],
    loops: Loops,
    names: list[str],
    kept: list[str],
    element: str,
) -> None:
    c = k.choices
    shape = [loops.bounds[loop] for loop in kept]
    init = (
        k.of_type(shape, element) if c.one_in(4) else k.uniform(shape, element, c.pick((0, 0, 2)))
    )
    inputs = [(operands[0], loops.lhs, "%a"), (operands[1], loops.rhs, "%b")]
    if c.one_in(3):
        inputs.reverse()
    maps = [affine(names, index) for _, index, _ in inputs] + [affine(names, kept)]
    kinds = ["reduction" if loop in loops.summed else "parallel" for loop in names]
    kind = "f" if element in FLOATS else "i"
    narrow = operands[0].element
    lines, factors = [], ["%a", "%b"]
    if narrow != element:
        extend = "extf" if kind == "f" else c.pick(("extsi", "extsi", "extui"))
        lines = [f"%{x}w = arith.{extend} %{x} : {narrow} to {element}" for x in "ab"]
        factors = ["%aw", "%bw"]
    if c.one_in(3):
        factors.reverse()
    sums = ["%o", "%p"] if c.below(3) else ["%p", "%o"]
    lines.append(f"%p = arith.mul{kind} {', '.join(factors)} : {element}")
    lines.append(f"%s = arith.add{kind} {', '.join(sums)} : {element}")
    block = ", ".join([f"{name}: {narrow}" for _, _, name in inputs] + [f"%o: {element}"])
    names_text = ", ".join(value.name for value, _, _ in inputs)
    types = ", ".join(value.type for value, _, _ in inputs)
    body = "\n    ".join([*lines, f"linalg.yield %s : {element}"])
    op = (
        f"{header(maps, kinds)} ins({names_text} : {types}) outs({init.name} : TYPE) {{\n"
        f"  ^bb0({block}):\n    {body}\n  }} -> TYPE"
    )
    k.emit(shape, element, op, small=False)


def scattered_contraction(k: RandomFunction, v: Value) -> None:
    """A scatter, and a contraction that reads it."""
    before = len(k.values)
    scatter(k, v)
    if len(k.values) > before:
        contraction(k, k.values[-1])
