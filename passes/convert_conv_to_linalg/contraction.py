"""A conv op as one contraction over named dimensions, whatever its layouts and groups.

The dimensions of an input are called `n c h0 h1 …`, of a filter `k c r0 r1 …` and of an output
`n k p0 p1 …`. With groups, the dimension that holds all of them is split, and `g` comes before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir.affine import AffineExpr

from convir.analysis.values.zeros import is_zero
from convir.dialects.conv.geometry import ROLES
from convir.passes.convert_conv_to_linalg.named_tensors import (
    GROUP,
    NamedTensor,
    TensorBuilder,
    split_names,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.builder import Builder
    from xdsl.ir import Block, SSAValue

    from convir.dialects.conv.geometry import Role
    from convir.dialects.conv.layouts import Layout
    from convir.dialects.conv.ops import ConvOp
    from convir.dialects.conv.windows import Window
    from convir.passes.convert_conv_to_linalg.named_tensors import Element


def _names(role: Role, layout: Layout) -> tuple[str, ...]:
    """The names of an operand's dimensions: n c h0 h1, k c r0 r1 or n k p0 p1, as laid out."""
    outer, channel, spatial = {
        "input": ("n", "c", "h"),
        "filter": ("k", "c", "r"),
        "output": ("n", "k", "p"),
    }[role]
    names = {layout.outer: outer, "C": channel}
    names.update({letter: f"{spatial}{i}" for i, letter in enumerate(layout.spatial)})
    return tuple(names[letter] for letter in layout.letters)


_GROUPED_DIMENSION: Mapping[Role, str] = {"input": "c", "filter": "k", "output": "k"}
"""The dimension of each operand that holds all groups."""


@dataclass(frozen=True)
class Walk:
    """A dimension that moves with two loops: `outer * stride + tap * dilation`."""

    outer: str
    tap: str
    stride: int
    dilation: int


@dataclass(frozen=True)
class _Result:
    """The result's dimensions with groups split, its element type, and the init as it is given."""

    names: tuple[str, ...]
    sizes: Mapping[str, int]
    element: Element
    init: NamedTensor


@dataclass(frozen=True)
class ConvLowering:
    """One conv op being lowered: its operands with named, group-split dimensions."""

    op: ConvOp
    builder: TensorBuilder
    groups: int
    windows: tuple[Window, ...]
    lhs: NamedTensor
    rhs: NamedTensor
    result: _Result

    @staticmethod
    def of(op: ConvOp) -> ConvLowering:
        """Name the dimensions of `op`'s operands and split the grouped ones."""
        builder, geometry = TensorBuilder(op), op.geometry
        layouts = dict(zip(ROLES, geometry.layouts, strict=True))
        lhs, rhs, init = (
            NamedTensor(value, _names(role, layouts[role]))
            for role, value in zip(op.DIRECTION.roles, (op.lhs, op.rhs, op.init), strict=True)
        )
        for operand in (lhs, rhs, init):
            builder.bind_dynamic(operand)
        groups = geometry.groups
        names, sizes = init.names, init.sizes
        if groups > 1:
            in_lhs, in_rhs, in_result = (_GROUPED_DIMENSION[role] for role in op.DIRECTION.roles)
            lhs = builder.split(lhs, in_lhs, groups)
            rhs = builder.split(rhs, in_rhs, groups)
            names = split_names(names, in_result)
            sizes = {**sizes, GROUP: groups, in_result: sizes[in_result] // groups}
        result = _Result(names, sizes, init.element, init)
        return ConvLowering(op, builder, groups, op.windows, lhs, rhs, result)

    def contract(self, lhs: NamedTensor, rhs: NamedTensor, walks: Mapping[str, Walk]) -> SSAValue:
        """Accumulate products into the init, round once, merge the groups.

        Loops are the result's dimensions, then the remaining ones of `rhs`; a dimension in
        `walks` is not a loop but moves with two.
        """
        reductions = tuple(name for name in rhs.names if name not in self.result.names)
        loops = (*self.result.names, *reductions)
        start = self._start()
        value = self.builder.generic(
            [(operand.value, _expressions(operand, loops, walks)) for operand in (lhs, rhs)],
            (start.value, _expressions(start, loops, walks)),
            len(self.result.names),
            len(reductions),
            _multiply_add,
        )
        total = self.builder.cast(NamedTensor(value, self.result.names), self.result.element)
        return total.value if self.groups == 1 else self.builder.merge_groups(total).value

    def _start(self) -> NamedTensor:
        """What the accumulation starts from."""
        result, accumulator = self.result, self.op.accumulator
        init, is_split = result.init, self.groups > 1
        if (is_split or init.element != accumulator) and is_zero(init.value):
            return self.builder.zeros(result.names, result.sizes, accumulator)
        if is_split:
            grouped = _GROUPED_DIMENSION[self.op.DIRECTION.roles[2]]
            init = self.builder.split(init, grouped, self.groups)
        return self.builder.cast(init, accumulator)


def _expressions(
    operand: NamedTensor, loops: Sequence[str], walks: Mapping[str, Walk]
) -> list[AffineExpr]:
    """The indexing map of an operand, as one expression per dimension."""

    def scaled(loop: str, step: int) -> AffineExpr:
        position = AffineExpr.dimension(loops.index(loop))
        return position if step == 1 else position * step

    expressions: list[AffineExpr] = []
    for name in operand.names:
        walk = walks.get(name)
        if walk is None:
            expressions.append(scaled(name, 1))
        else:
            expressions.append(scaled(walk.outer, walk.stride) + scaled(walk.tap, walk.dilation))
    return expressions


def _multiply_add(builder: Builder, block: Block) -> SSAValue:
    """The body of a contraction: factors are extended to the accumulator's type."""
    left, right, total = block.args
    if total.type == i32:
        unsigned = builder.insert(arith.ExtUIOp(left, i32)).result
        signed = builder.insert(arith.ExtSIOp(right, i32)).result
        product = builder.insert(arith.MuliOp(unsigned, signed)).result
        return builder.insert(arith.AddiOp(total, product)).result
    factors = [
        value
        if value.type == total.type
        else builder.insert(arith.ExtFOp(value, total.type)).result
        for value in (left, right)
    ]
    product = builder.insert(arith.MulfOp(factors[0], factors[1]))
    return builder.insert(arith.AddfOp(total, product)).result
