"""Functions of any number of operations, as MLIR text, in the shapes that graphs have.

Every function is `@main`, on tensors of f32 of at most a few hundred KiB, and has about as many
operations as it is asked for, those of nested regions included: none for a function that returns
its argument. What is computed is never computed twice, and all of it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WIDTH = 16
"""Elements of the vectors in chains and diamonds."""
SIDE = 4
"""Rows, and columns, of the matrices of a random graph."""

_SUMS = ("addf", "subf", "maximumf", "minimumf")
"""Operations whose results stay small in a chain of thousands."""
_LATELY = 24
"""A random graph mostly reads one of so many values before."""


@dataclass
class _Function:
    """A function under construction."""

    lines: list[str] = field(default_factory=list[str])
    ops: int = 0
    """How many operations `lines` hold."""

    def value(self, text: str, ops: int = 1) -> str:
        """Add `%name = text`, which are `ops` operations."""
        name = f"%{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        self.ops += ops
        return name

    def sum_of(self, a: str, b: str, shape: str, name: str = "addf") -> str:
        """Add an elementwise operation of `arith`."""
        return self.value(f"arith.{name} {a}, {b} : {_tensor(shape)}")

    def generic_sum_of(self, a: str, b: str, shape: str) -> str:
        """Add the sum as a `linalg.generic`."""
        of, rank = _tensor(shape), shape.count("x") + 1
        dims = ", ".join(f"d{i}" for i in range(rank))
        maps = ", ".join([f"affine_map<({dims}) -> ({dims})>"] * 3)
        loops = ", ".join(['"parallel"'] * rank)
        out = self.value(f"tensor.empty() : {of}")
        return self.value(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{loops}]}} "
            f"ins({a}, {b} : {of}, {of}) outs({out} : {of}) {{\n"
            "  ^bb0(%a: f32, %b: f32, %c: f32):\n"
            "    %d = arith.addf %a, %b : f32\n"
            "    linalg.yield %d : f32\n"
            f"  }} -> {of}",
            ops=3,
        )

    def slice_of(self, a: str, offset: int, size: int, of: int) -> str:
        """Add the `size` elements of a vector of `of` from `offset` on."""
        return self.value(
            f"tensor.extract_slice {a}[{offset}] [{size}] [1] : {_tensor(of)} to {_tensor(size)}"
        )

    def pad_of(self, a: str, low: str, high: str, before: str, after: str) -> str:
        """Add `a` of shape `before` between zeros, which has shape `after`."""
        indices = ", ".join(f"%i{i}: index" for i in range(before.count("x") + 1))
        return self.value(
            f"tensor.pad {a} low[{low}] high[{high}] {{\n"
            f"  ^bb0({indices}):\n"
            "    tensor.yield %zero : f32\n"
            f"  }} : {_tensor(before)} to {_tensor(after)}",
            ops=2,
        )

    def tree_of(self, values: Sequence[str], shape: str) -> str:
        """Add a balanced tree of sums."""
        level = list(values)
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            odd = level[len(level) & ~1 :]
            level = [self.sum_of(a, b, shape) for a, b in pairs] + odd
        return level[0]

    def text(self, arguments: Sequence[tuple[str, object]], results: Sequence[str], of: str) -> str:
        """The module, whose function returns `results`, all of shape `of`."""
        given = ", ".join(f"{name}: {_tensor(shape)}" for name, shape in arguments)
        types = ", ".join([_tensor(of)] * len(results))
        body = "".join(f"{line}\n" for line in self.lines)
        return (
            f"func.func @main({given}) -> ({types}) {{\n"
            f"  %zero = arith.constant 0.000000e+00 : f32\n{body}"
            f"  return {', '.join(results)} : {types}\n}}\n"
        )


def _tensor(shape: object) -> str:
    return f"tensor<{shape}xf32>"


def chain(ops: int) -> str:
    """Each elementwise operation of `arith` reads the one before and an argument."""
    f, shape = _Function(), str(WIDTH)
    last = "%x"
    for i in range(ops):
        last = f.sum_of(last, "%y", shape, _SUMS[i % len(_SUMS)])
    return f.text([("%x", shape), ("%y", shape)], [last], shape)


def generic_chain(ops: int) -> str:
    """Each `linalg.generic` reads the one before and an argument."""
    f, shape = _Function(), f"{SIDE}x{SIDE}"
    last = "%x"
    while f.ops < ops:
        last = f.generic_sum_of(last, "%y", shape)
    return f.text([("%x", shape), ("%y", shape)], [last], shape)


def pad_diamond(ops: int) -> str:
    """Two slices of the value before, their sum, and that padded to its old size."""
    f = _Function()
    last = "%x"
    while f.ops < ops:
        low, high = (f.slice_of(last, offset, WIDTH - 1, WIDTH) for offset in (0, 1))
        total = f.sum_of(low, high, str(WIDTH - 1))
        last = f.pad_of(total, "1", "0", str(WIDTH - 1), str(WIDTH))
    return f.text([("%x", WIDTH)], [last], str(WIDTH))


def slice_diamond(ops: int) -> str:
    """Two slices of the value before and their sum, each level an element shorter."""
    f = _Function()
    levels = -(-ops // 3)
    last = "%x"
    for size in range(WIDTH + levels, WIDTH, -1):
        low, high = (f.slice_of(last, offset, size - 1, size) for offset in (0, 1))
        last = f.sum_of(low, high, str(size - 1))
    return f.text([("%x", WIDTH + levels)], [last], str(WIDTH))


def _fan(f: _Function, ops: int) -> tuple[list[str], int]:
    """So many slices of one value, each at an offset of its own, and the size of that value."""
    size = WIDTH + ops
    return [f.slice_of("%x", i, WIDTH, size) for i in range(ops)], size


def tree_fan(ops: int) -> str:
    """One value is read by half of the operations; a balanced tree of the others sums those."""
    f = _Function()
    values, size = _fan(f, ops // 2)
    result = f.tree_of(values, str(WIDTH)) if values else "%y"
    return f.text([("%x", size), ("%y", WIDTH)], [result], str(WIDTH))


def chain_fan(ops: int) -> str:
    """One value is read by half of the operations, which are summed one by one."""
    f = _Function()
    values, size = _fan(f, ops // 2)
    last = "%y"
    for value in values:
        last = f.sum_of(last, value, str(WIDTH))
    return f.text([("%x", size), ("%y", WIDTH)], [last], str(WIDTH))


def result_fan(ops: int) -> str:
    """One value is read by half of the operations; the function returns a sum with each."""
    f = _Function()
    values, size = _fan(f, ops // 2)
    results = [f.sum_of(value, "%y", str(WIDTH)) for value in values]
    return f.text([("%x", size), ("%y", WIDTH)], results or ["%y"], str(WIDTH))


def random_graph(ops: int, seed: int = 0) -> str:
    """Sums, slices with pads, transposes and small products of matrices, of random values."""
    f, draw = _Function(), Random(seed)
    shape = f"{SIDE}x{SIDE}"
    of = _tensor(shape)
    values, unread = ["%x", "%y"], ["%x", "%y"] if ops else ["%x"]

    def read() -> str:
        """A value that nothing has read yet, one of the last few, or any."""
        among = draw.choice((unread or values, values[-_LATELY:], values[-_LATELY:], values))
        value = draw.choice(among)
        if value in unread:
            unread.remove(value)
        return value

    def part(value: str) -> str:
        row, column = draw.randrange(2), draw.randrange(2)
        small = f"{SIDE - 1}x{SIDE - 1}"
        part = f.value(
            f"tensor.extract_slice {value}[{row}, {column}] [{SIDE - 1}, {SIDE - 1}] [1, 1] : "
            f"{of} to {_tensor(small)}"
        )
        return f.pad_of(part, f"{row}, 0", f"{1 - row}, 1", small, shape)

    def transposed(value: str) -> str:
        out = f.value(f"tensor.empty() : {of}")
        return f.value(
            f"linalg.transpose ins({value} : {of}) outs({out} : {of}) permutation = [1, 0]", ops=2
        )

    def product(a: str, b: str) -> str:
        out = f.value(f"tensor.empty() : {of}")
        zeros = f.value(f"linalg.fill ins(%zero : f32) outs({out} : {of}) -> {of}", ops=2)
        return f.value(
            f"linalg.matmul ins({a}, {b} : {of}, {of}) outs({zeros} : {of}) -> {of}", ops=4
        )

    while f.ops + len(unread) - 1 < ops:
        kind = draw.randrange(16)
        if kind < 10:
            new = f.sum_of(read(), read(), shape, draw.choice(_SUMS))
        elif kind < 13:
            new = part(read())
        elif kind < 15:
            new = transposed(read())
        else:
            new = product(read(), read())
        values.append(new)
        unread.append(new)
    return f.text([("%x", shape), ("%y", shape)], [f.tree_of(unread, shape)], shape)


KINDS: Mapping[str, Callable[[int], str]] = {
    "chain": chain,
    "generic-chain": generic_chain,
    "pad-diamond": pad_diamond,
    "slice-diamond": slice_diamond,
    "tree-fan": tree_fan,
    "chain-fan": chain_fan,
    "result-fan": result_fan,
    "random": random_graph,
}
"""What each kind is called, and what writes it with so many operations."""
