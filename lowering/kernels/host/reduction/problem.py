"""What the family sees of a kernel: passes over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import BlockArgument

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.rows.read import read_rows

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from convir.lowering.bodies.rows.program import RowProgram
    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget


def read(body: KernelBody, cpu: CpuTarget) -> RowProgram | Refusal:
    """The passes over rows that a kernel is, or why it is none."""
    del cpu
    if body.overlaps:
        return Refusal("its results share memory with its arguments")
    block = body.function.body.block
    returned = block.last_op
    assert returned is not None
    return read_rows(list(block.ops), list(returned.operands), _argument)


def _argument(value: SSAValue) -> int:
    if not isinstance(value, BlockArgument):
        raise TypeError("a kernel reads what is neither its argument nor computed in it")
    return value.index
