"""What passes over rows take: vectors of operations, the ends of rows, and what is read."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.bodies.rows.program import Load, Reduction, RowProgram, Step

if TYPE_CHECKING:
    from convir.lowering.bodies.rows.program import Access
    from convir.lowering.kernels.host.target import CpuTarget

FUNCTION = 20.0
"""Operations of a function that a CPU has no instruction for."""
PER_CYCLE = 1.5
"""Vectors of operations."""
ROW_END = 20.0
"""Cycles of combining the lanes of a vector with each other, and of what follows for one row."""


def operations(program: RowProgram) -> float:
    """Scalar operations of all elements."""
    elements = prod(program.sizes)
    return elements * sum(
        sum(map(_weight, (program.nodes[i] for i in program.elements_of(number))))
        + len(program.reductions_of(number))
        for number in range(1, program.passes + 1)
    )


def predict(program: RowProgram, cpu: CpuTarget) -> float:
    """µs on one thread."""
    size = STORAGE_BYTES[program.element]
    lanes = cpu.lanes(8 * size)
    inner = program.sizes[-1]
    filled = inner / (-(-inner // lanes) * lanes)
    cycles = operations(program) / lanes / filled / PER_CYCLE
    if program.along_rows:
        reductions = sum(isinstance(node, Reduction) for node in program.nodes)
        cycles += program.rows * ROW_END * reductions
    accesses = [node.source for node in program.nodes if isinstance(node, Load)]
    accesses += [store.target for store in program.stores]
    moved = cpu.traffic_us(sum(_bytes(access, program) for access in accesses))
    return cpu.launch + max(cycles / cpu.clock_mhz, moved)


def _weight(node: object) -> float:
    if isinstance(node, Step) and node.op.kind.name.startswith("math."):
        return FUNCTION
    return 1.0


def _bytes(access: Access, program: RowProgram) -> int:
    used = (size for size, stride in zip(program.sizes, access.strides, strict=True) if stride)
    return STORAGE_BYTES[access.type] * prod(used)
