"""What the family sees of a kernel: a product, passes over its rows, and a product of those.

scores = Q · Kᵀ       rows = softmax(scores · scale + mask)       result = rows · V
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from convir.analysis.contraction import contraction_dims
from convir.analysis.dependence import operands_of
from convir.analysis.refusal import Refusal
from convir.analysis.structural_keys import once_for_equal_bodies
from convir.dialects.kernel import ops as kernel
from convir.lowering.bodies.contraction.read_kernel import contraction_readings
from convir.lowering.bodies.contraction.reading_cost import VectorUnit, reading_cost
from convir.lowering.bodies.rows.program import Load, RowProgram
from convir.lowering.bodies.rows.read import read_rows
from convir.lowering.kernels.host.reduction.kept import overwrites
from convir.lowering.regions.outline_kernels import outlined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.read_kernel import ContractionCall
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.bodies.rows.program import Access
    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget

SCORES = -1
"""The number of the scores where arguments have theirs."""

MOST_KEYS = 8 * 1024
"""Of a row of scores: a tile of 8 rows takes a quarter of a second-level cache."""

_UNIT = VectorUnit(64, 1.0)
"""By which a product is read in one of several ways."""


@dataclass(frozen=True)
class Attention:
    """A kernel as two products, with passes over the rows that they share."""

    scores: Contraction
    """Its result is dense, `[group][output pixel][key]`."""
    rows: RowProgram
    """On the scores, whose number is `SCORES`, and on arguments; its one result lies as they do."""
    values: Contraction
    """Its A is that result."""
    arguments: tuple[int, int, int]
    """The numbers of queries, keys and values."""

    @property
    def keys(self) -> int:
        """Scores of a row."""
        return self.scores.out_channels

    @property
    def queries(self) -> int:
        """Rows of a group."""
        return self.scores.phases[0].pixels


def read(body: KernelBody, cpu: CpuTarget) -> Attention | Refusal:
    """The attention that a kernel is, or why it is none."""
    del cpu
    if body.overlaps:
        return Refusal("its results share memory with its arguments")
    return read_attention(body.function)


@once_for_equal_bodies
def read_attention(callee: kernel.FuncOp) -> Attention | Refusal:
    """The attention that the body of `callee` is, or why it is none; the same for every CPU."""
    block = callee.body.block
    products = [op for op in block.ops if not isinstance(contraction_dims(op), Refusal)]
    returned = block.last_op
    assert returned is not None
    if len(products) != 2 or list(returned.operands) != [products[1].results[0]]:
        return Refusal("it is not two products, of which it returns the second")
    first, second = products
    (scores,) = first.results
    computed = _computed_from(block, first)
    behind = [x for x in second.operands if x in computed]
    if len(behind) != 1 or not isinstance(behind[0].owner, Operation):
        return Refusal("its second product does not read what is computed of the first")
    (rows,) = behind
    calls = [
        _product(_slice(block, op, without), op, without)
        for op, without in ((first, None), (second, rows))
    ]
    for call in calls:
        if isinstance(call, Refusal):
            return call
    one, other = (cast("ContractionCall", call) for call in calls)
    if other.a != SCORES:
        return Refusal("its second product does not read rows of the first")
    between = _slice(block, behind[0].owner, scores)
    program = read_rows(between, [rows], lambda value: _number(value, scores))
    if isinstance(program, Refusal):
        return program
    found = Attention(one.spec, program, other.spec, (one.a, one.other, other.other))
    return _refusal(found) or found


def _computed_from(block: Block, first: Operation) -> set[SSAValue]:
    """The values that depend on an op, its own among them."""
    found = set[SSAValue](first.results)
    for op in block.ops:
        if not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _number(value: SSAValue, scores: SSAValue | None) -> int:
    """Of an argument, or of the scores."""
    if value is scores:
        return SCORES
    if not isinstance(value, BlockArgument):
        raise TypeError("a kernel reads what is neither its argument nor computed in it")
    return value.index


def _slice(block: Block, last: Operation, without: SSAValue | None) -> list[Operation]:
    """Those ops of a block that an op is computed from, and it, but for what gives a value."""
    needed: set[SSAValue] = set()
    found: list[Operation] = []
    for op in reversed(list(block.ops)):
        if op is last or not needed.isdisjoint(op.results):
            needed.update(x for x in operands_of(op) if x is not without)
            found.append(op)
    return found[::-1]


def _product(
    ops: Sequence[Operation], product: Operation, rows: SSAValue | None
) -> ContractionCall | Refusal:
    """One of the products as a kernel of its own; `rows` is an argument of it, number `SCORES`."""
    body = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    for op in ops:
        body.add_op(op.clone(mapping))
    (result,) = product.results
    body.add_op(kernel.YieldOp(mapping[result]))
    region = kernel.RegionOp(Region(body), [result.type])
    function, captures = outlined(region, "product")
    region.erase()

    def cost(spec: Contraction) -> tuple[bool, float]:
        is_rows = spec.result == "C" and spec.c.stride == spec.a.stride == 1
        return not is_rows, reading_cost(spec, _UNIT)

    calls = contraction_readings(function, shared_by=_UNIT)
    if isinstance(calls, Refusal):
        return calls
    call = min(calls, key=lambda each: cost(each.spec))
    if call.init is not None:
        return Refusal("its products are added to an argument")
    a, other = (_number(captures[i], rows) for i in (call.a, call.other))
    return replace(call, a=a, other=other)


def _refusal(found: Attention) -> Refusal | None:
    """Why the kernel of the family does not compute what was read; None if it does."""
    scores, values, program = found.scores, found.values, found.rows
    shape = (found.scores.groups, found.queries, found.keys)
    for spec in (scores, values):
        if spec.result != "C" or len(spec.phases) != 1 or spec.taps != 1:
            return Refusal("its products are convolutions")
        if {spec.element, spec.a.type, spec.b.type, spec.c.type} != {"f32"}:
            return Refusal("its products are not of f32")
    if found.keys > MOST_KEYS:
        return Refusal(f"a row of {found.keys} scores does not stay in a cache, {MOST_KEYS} do")
    if (values.groups, values.phases[0].pixels, values.in_channels) != shape:
        return Refusal("its products do not have the same rows")
    written = [(axis.size, axis.out_stride) for axis in scores.phases[0].axes]
    if not _is_dense([(scores.groups, scores.c.group_stride), *written], scores.c.stride, shape[2]):
        return Refusal("its scores do not lie row by row")
    axes = values.phases[0].axes
    if any((axis.extent, axis.step, axis.tap_rows) != (axis.size, 1, (0,)) for axis in axes):
        return Refusal("its second product reads its rows in part")
    rows = [(axis.size, axis.row_stride) for axis in axes]
    if not _is_dense([(values.groups, values.a.group_stride), *rows], values.a.stride, shape[2]):
        return Refusal("its second product reads columns of the scores")
    return _rows_refusal(program, shape)


def _is_dense(axes: Sequence[tuple[int, int]], channel_stride: int, row: int) -> bool:
    """Whether rows of channels lie behind each other along axes, each with a size and a stride."""
    for size, stride in reversed(axes):
        if size > 1 and stride != row:
            return False
        row *= size
    return channel_stride == 1


def _rows_refusal(program: RowProgram, shape: tuple[int, int, int]) -> Refusal | None:
    """Why passes over rows do not go over the scores as they lie; None if they do."""
    groups, queries, keys = shape
    *counted, last = program.sizes
    if program.element != "f32" or program.reduced != (*(False for _ in counted), True):
        return Refusal("what is computed of its scores does not go along them")
    if (prod(counted), last) != (groups * queries, keys) or len(program.stores) != 1:
        return Refusal("what is computed of its scores has another shape")
    (store,) = program.stores
    loads = [n.source for n in program.nodes if isinstance(n, Load) and n.source.index == SCORES]
    dense = tuple(prod(program.sizes[axis + 1 :]) for axis in range(len(program.sizes)))
    every = (*loads, store.target)
    if not loads or any(not _follows(access, dense, program.sizes) for access in every):
        return Refusal("what is computed of its scores does not lie as they do")
    if any(access.type != "f32" for access in every) or overwrites(program, SCORES):
        return Refusal("what is computed of its scores does not fit into their memory")
    return None


def _follows(access: Access, dense: Sequence[int], sizes: Sequence[int]) -> bool:
    same = zip(access.strides, dense, sizes, strict=True)
    return all(size == 1 or stride == own for stride, own, size in same)
