"""A function under construction: typed values, and steps that add operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scalar_cases import DTYPES

from random_programs.types import ELEMENTS, literal, scalar, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from random_programs.choices import Choices

SMALL_SIZES = (1, 2, 3, 4, 5)
MAX_ELEMENTS = 120
"""Sums of so many values of at most 2 are exact in bf16."""


@dataclass(frozen=True)
class Value:
    """A tensor of the function."""

    name: str
    shape: tuple[int, ...]
    element: str
    small: bool
    """Whether all elements are integers of at most 2, so that sums of them are exact."""

    @property
    def type(self) -> str:
        return tensor(self.shape, self.element)

    @property
    def buffer(self) -> str:
        """What the type of a memref says between its brackets."""
        return self.type[len("tensor<") : -1]


@dataclass
class RandomFunction:
    """A function of tensors; `text` and `arguments` when it is done."""

    choices: Choices
    elements: tuple[str, ...] = ELEMENTS
    sizes: tuple[int, ...] = SMALL_SIZES
    max_elements: int = MAX_ELEMENTS
    inputs: list[Value] = field(default_factory=list[Value])
    values: list[Value] = field(default_factory=list[Value])
    lines: list[str] = field(default_factory=list[str])
    results: tuple[Value, ...] = ()
    count: int = 0

    def text(self, op: str = "func.func", name: str = "main") -> str:
        """The function as text, in the spelling of `func` or of `kernel`."""
        arguments = ", ".join(f"{v.name}: {v.type}" for v in self.inputs)
        names = ", ".join(v.name for v in self.results)
        types = ", ".join(v.type for v in self.results)
        body = "\n".join(f"  {line}" for line in self.lines)
        end = op.replace(".func", ".return")
        return f"{op} @{name}({arguments}) -> ({types}) {{\n{body}\n  {end} {names} : {types}\n}}\n"

    def arguments(self, seed: int) -> list[Any]:
        """Small integers for every input."""
        rng = np.random.default_rng(seed)
        return [
            np.asarray(
                rng.integers(0, 2, v.shape) if v.element == "i1" else rng.integers(-2, 3, v.shape)
            ).astype(DTYPES[v.element])
            for v in self.inputs
        ]

    def name(self) -> str:
        """A name that nothing has yet."""
        self.count += 1
        return f"%v{self.count - 1}"

    def line(self, op: str) -> str:
        """Add `%name = op`, which is not a value that steps see."""
        name = self.name()
        self.lines.append(f"{name} = {op}")
        return name

    def emit(self, shape: Sequence[int], element: str, op: str, *, small: bool) -> Value:
        """A value computed by `op`, which may stand for its own type as `TYPE`."""
        value = self.hidden(shape, element, op, small=small)
        self.values.append(value)
        return value

    def hidden(self, shape: Sequence[int], element: str, op: str, *, small: bool = False) -> Value:
        """As `emit`, a value that steps do not see."""
        name = self.line(op.replace("TYPE", tensor(shape, element)))
        return Value(name, tuple(shape), element, small)

    def empty(self, shape: Sequence[int], element: str) -> Value:
        """An uninitialised tensor, which no step reads."""
        return self.hidden(shape, element, "tensor.empty() : TYPE")

    def input(self, shape: Sequence[int], element: str) -> Value:
        """A new argument."""
        value = Value(f"%x{len(self.inputs)}", tuple(shape), element, small=True)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def add_input(self) -> Value:
        """A new argument of a random type."""
        rank = self.choices.integer(0, 3)
        shape = tuple(self.choices.pick(self.sizes) for _ in range(rank))
        if np.prod(shape) > self.max_elements:
            shape = shape[1:]
        return self.input(shape, self.choices.pick(self.elements))

    def like(self, value: Value) -> list[Value]:
        """All values of the type of `value`, itself included."""
        return [u for u in self.values if (u.shape, u.element) == (value.shape, value.element)]

    def of_type(self, shape: Sequence[int], element: str) -> Value:
        """A value of this type: one that is there and small, or a new argument."""
        wanted = (tuple(shape), element)
        found = [u for u in self.values if (u.shape, u.element) == wanted and u.small]
        if found and not self.choices.one_in(3):
            return self.choices.pick(found)
        return self.input(shape, element)

    def splat(self, shape: Sequence[int], element: str, number: int = 0) -> Value:
        """A constant of one number."""
        dense = f"arith.constant dense<{literal(number, element)}> : TYPE"
        return self.emit(shape, element, dense, small=True)

    def uniform(self, shape: Sequence[int], element: str, number: int = 0) -> Value:
        """A tensor of one number: a constant, a splat, a fill, or a broadcast."""
        kind = self.choices.below(4)
        if kind == 0:
            return self.splat(shape, element, number)
        if kind == 1:
            dense = f"arith.constant dense<{literal(number, element)}> : TYPE"
            source, init = self.hidden((), element, dense), self.empty(shape, element)
            operands = f"ins({source.name} : {source.type}) outs({init.name} : TYPE)"
            op = f"linalg.broadcast {operands} dimensions = {list(range(len(shape)))}"
            return self.emit(shape, element, op, small=True)
        constant = self.line(f"arith.constant {scalar(number, element)}")
        if kind == 2:
            return self.emit(shape, element, f"tensor.splat {constant} : TYPE", small=True)
        init = self.empty(shape, element)
        op = f"linalg.fill ins({constant} : {element}) outs({init.name} : TYPE) -> TYPE"
        return self.emit(shape, element, op, small=True)

    def finish(self, most_results: int = 2) -> None:
        """Return the last values."""
        computed = [v for v in self.values if v not in self.inputs]
        if not computed:
            computed = [self.splat((2,), "f32", 1)]
        self.results = tuple(computed[-self.choices.integer(1, most_results) :])


if TYPE_CHECKING:
    Step = Callable[[RandomFunction, Value], None]
