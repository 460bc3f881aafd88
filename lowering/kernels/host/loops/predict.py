"""What loops take: their operations one by one, and what is read and written."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType

from convir.analysis.cost import cost_of
from convir.analysis.structured import structured

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Attribute, Operation, SSAValue

    from convir.lowering.kernels.host.target import CpuTarget

OPERATIONS = 1.5
"""In a cycle, of sums whose elements lie apart: each waits for its accumulator. Where results that
lie behind each other read elements that do, LLVM makes vectors, and they take less."""


def predict(ops: Iterable[Operation], cpu: CpuTarget) -> float:
    """µs on one thread of the ops of a kernel's body."""
    flops = moved = 0.0
    for op, times in _repeated(list(ops)):
        cost = cost_of(op)
        flops += cost.flops * times
        moved += cost.bytes
    return cpu.launch + max(flops / OPERATIONS / cpu.clock_mhz, cpu.traffic_us(moved))


def _repeated(ops: list[Operation]) -> list[tuple[Operation, float]]:
    """The ops, and how often all of each is computed: an element once for each that reads it."""
    wanted: dict[SSAValue, float] = {}
    found: list[tuple[Operation, float]] = []
    for op in reversed(ops):
        elements = max((_elements(result) for result in op.results), default=1)
        read = max((wanted.get(result, 0.0) for result in op.results), default=0.0)
        times = max(1.0, read / elements)
        found.append((op, times))
        view = structured(op)
        trips = elements if view is None else prod(bound or 1 for bound in view.bounds)
        for operand in op.operands:
            wanted[operand] = max(wanted.get(operand, 0.0), trips * times)
    return found


def _elements(value: SSAValue) -> int:
    """Of a tensor, open sizes as 1; at least 1."""
    kind = value.type
    if not isinstance(kind, TensorType):
        return 1
    shape = cast("TensorType[Attribute]", kind).get_shape()
    return prod(max(1, size) for size in shape if size != DYNAMIC_INDEX)
