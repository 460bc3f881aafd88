"""Random straight-line functions of tensor, linalg and arith operations, as MLIR text.

What canonicalization looks for is made likely: operands are mostly recent values, slices mostly
repeat the region of an earlier one, scalars and splats are mostly 0.0, -0.0 and 1.0, and some
numbers are written as arguments so that a pass does not know them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from random_programs.choices import Choices

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

    choices: Choices
    lines: list[str] = field(default_factory=list[str])
    tensors: list[tuple[str, Shape]] = field(default_factory=list[tuple[str, Shape]])
    scalars: list[str] = field(default_factory=list[str])
    arguments: list[tuple[str, Shape]] = field(default_factory=list[tuple[str, Shape]])
    regions: list[tuple[Shape, Region]] = field(default_factory=list[tuple[Shape, Region]])
    count: int = 0

    def below(self, end: int) -> int:
        """A number from 0 to `end` - 1."""
        return self.choices.below(end)

    def permutation(self, rank: int) -> list[int]:
        """The numbers below `rank` in a random order."""
        return self.choices.permutation(rank)

    def pick(self, items: Sequence[str]) -> str:
        return self.choices.pick(items)

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
