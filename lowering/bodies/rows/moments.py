"""Sums of squared deviations from a mean, which one pass over a row computes with the mean.

    s = sum of x;  m = s / count;  q = sum of (x - m)²   -->   s, and q as DEVIATIONS of x

Merging the counts, sums and squared deviations of parts of a row is as accurate as a second pass
(Chan, Golub and LeVeque 1983); what a kernel cannot keep on chip is read once less.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import Float32Type, Float64Type

from convir.lowering.bodies.contraction.scalar_program import Result
from convir.lowering.bodies.rows.program import SUM, Number, Reduction, Step, operands_of

if TYPE_CHECKING:
    from convir.lowering.bodies.rows.program import Node, RowProgram

DEVIATIONS: Final = "squared deviations"
"""The combiner of a reduction that adds up the squares of what differs from the row's mean."""


def in_one_pass(program: RowProgram) -> RowProgram:
    """The program with sums of squared deviations that do not wait for the mean."""
    lengths = zip(program.sizes, program.reduced, strict=True)
    count = prod(size for size, reduced in lengths if reduced)
    nodes = [_deviations(program, node, count) or node for node in program.nodes]
    return _without_unread(replace(program, nodes=tuple(nodes)))


def _deviations(program: RowProgram, node: Node, count: int) -> Reduction | None:
    """What a reduction is without the mean, if it sums squared deviations from one."""
    if not _is_plain_sum(program, node):
        return None
    assert isinstance(node, Reduction)
    square = _operands(program, node.operand, "arith.mulf")
    if square is None or square[0] != square[1]:
        return None
    difference = _operands(program, square[0], "arith.subf")
    if difference is None:
        return None
    element, mean = difference
    total = _total_of_mean(program, mean, count)
    if total is None:
        return None
    summed = program.nodes[total]
    if not _is_plain_sum(program, summed) or not isinstance(summed, Reduction):
        return None
    if summed.operand != element or summed.kind != node.kind:
        return None
    return replace(node, combiner=DEVIATIONS, operand=element)


def _total_of_mean(program: RowProgram, mean: int, count: int) -> int | None:
    """The sum that a node divides by the length of a row."""
    quotient = _operands(program, mean, "arith.divf")
    if quotient is not None and _number(program, quotient[1]) == count:
        return quotient[0]
    product = _operands(program, mean, "arith.mulf")
    if product is None or count & (count - 1):
        return None
    a, b = product
    for total, share in ((a, b), (b, a)):
        if _number(program, share) == 1 / count:
            return total
    return None


def _is_plain_sum(program: RowProgram, node: Node) -> bool:
    is_sum = isinstance(node, Reduction) and node.combiner == SUM
    if not is_sum or not isinstance(node, Reduction):
        return False
    return isinstance(node.kind, Float32Type | Float64Type) and _number(program, node.init) == 0.0


def _operands(program: RowProgram, number: int, name: str) -> tuple[int, int] | None:
    node = program.nodes[number]
    if not isinstance(node, Step) or node.op.kind.name != name:
        return None
    a, b = node.op.operands
    assert isinstance(a, Result)
    assert isinstance(b, Result)
    return a.step, b.step


def _number(program: RowProgram, number: int) -> float | None:
    node = program.nodes[number]
    return node.value.value.data if isinstance(node, Number) else None


def _without_unread(program: RowProgram) -> RowProgram:
    """Without nodes that no result needs, whose passes would be made."""
    needed: set[int] = set()
    pending = [store.node for store in program.stores]
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.add(number)
            pending += operands_of(program.nodes[number])
    order = {old: new for new, old in enumerate(sorted(needed))}
    nodes: list[Node] = []
    for old in order:
        node = program.nodes[old]
        match node:
            case Reduction():
                node = replace(node, operand=order[node.operand], init=order[node.init])
            case Step():
                terms = tuple(
                    Result(order[term.step]) if isinstance(term, Result) else term
                    for term in node.op.operands
                )
                node = Step(replace(node.op, operands=terms))
            case _:
                pass
        nodes.append(node)
    stores = tuple(replace(store, node=order[store.node]) for store in program.stores)
    return replace(program, nodes=tuple(nodes), stores=stores)
