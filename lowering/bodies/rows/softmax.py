"""What is known of exponentials of numbers less the maximum of their row, as a softmax has them.

They are of numbers that are not positive. And a NaN that the maximum passes over is in the sum of
the exponentials: where that is in every result, the maximum need not have it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from convir.lowering.bodies.rows.program import (
    MAXIMUM,
    MAXIMUM_OF_NUMBERS,
    SUM,
    Reduction,
    Step,
    operands_of,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.rows.program import RowProgram

_KEEP_NAN = {
    *("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.negf"),
    *("arith.extf", "arith.truncf", "math.log"),
}
"""Ops whose result is NaN where an operand is."""


def exponentials_of_negative(program: RowProgram) -> frozenset[int]:
    """The nodes that are exponentials of a number less the maximum of its row."""
    return frozenset(
        number
        for number, node in enumerate(program.nodes)
        if _is(program, number, "math.exp") and _is_difference(program, operands_of(node)[0])
    )


def with_maxima_of_numbers(program: RowProgram) -> RowProgram:
    """The program with maxima that pass over NaN, where no result differs for that."""
    return replace(
        program,
        nodes=tuple(
            replace(node, combiner=MAXIMUM_OF_NUMBERS)
            if isinstance(node, Reduction) and _need_not_be_nan(program, number)
            else node
            for number, node in enumerate(program.nodes)
        ),
    )


def _is(program: RowProgram, number: int, op: str) -> bool:
    node = program.nodes[number]
    return isinstance(node, Step) and node.op.kind.name == op


def _is_difference(program: RowProgram, number: int) -> bool:
    """Whether a node is an element less the maximum of its row."""
    operands = operands_of(program.nodes[number])
    if not _is(program, number, "arith.subf") or len(operands) != 2:
        return False
    most = program.nodes[operands[1]]
    is_most = isinstance(most, Reduction) and most.combiner in (MAXIMUM, MAXIMUM_OF_NUMBERS)
    return is_most and operands_of(most)[0] == operands[0]


def _need_not_be_nan(program: RowProgram, maximum: int) -> bool:
    """Whether all that reads a maximum are differences, and every result has a sum of their
    exponentials."""
    nodes = program.nodes
    readers = [i for i, node in enumerate(nodes) if maximum in operands_of(node)]
    if not all(_is_difference(program, i) and operands_of(nodes[i])[0] != maximum for i in readers):
        return False
    exponentials = {
        i for i in exponentials_of_negative(program) if operands_of(nodes[i])[0] in readers
    }
    has_nan: list[bool] = []
    for node in nodes:
        is_sum = isinstance(node, Reduction) and node.combiner == SUM
        of_sum = is_sum and operands_of(node)[0] in exponentials
        keeps = isinstance(node, Step) and node.op.kind.name in _KEEP_NAN
        has_nan.append(of_sum or (keeps and any(has_nan[i] for i in operands_of(node))))
    return bool(readers) and all(has_nan[store.node] for store in program.stores)
