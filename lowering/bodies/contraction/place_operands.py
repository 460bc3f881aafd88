"""Where an epilogue finds the elements of its operands: strides along a contraction's loops."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.fused import EpilogueOperand, PhaseOffsets

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.functor import Read
    from convir.lowering.bodies.contraction.spec import Contraction, Phase, StorageType


@dataclass(frozen=True)
class _Strides:
    """An operand's element for every element of a dense result."""

    offset: int
    operand: tuple[int, ...]
    """Elements of the operand per dimension of the result."""
    dense: tuple[int, ...]
    """Elements of the result per dimension."""
    shape: tuple[int, ...]

    def along_axis(self, stride: int) -> int:
        """The operand's stride along a loop over one dimension, given the result's."""
        for step, dense, length in zip(self.operand, self.dense, self.shape, strict=True):
            if length > 1 and dense <= stride < dense * length:
                return step * (stride // dense)
        return 0

    def along_channels(self, stride: int, size: int) -> int | None:
        """The operand's stride along a dense loop, which may stand for several dimensions.

        None if the operand's are not in lockstep.
        """
        found = [
            (step, dense // stride)
            for step, dense, length in zip(self.operand, self.dense, self.shape, strict=True)
            if length > 1 and stride <= dense < stride * size
        ]
        base = found[-1][0] if found else 0
        return base if all(step == base * ratio for step, ratio in found) else None

    def at(self, element: int) -> int:
        """The operand's element for an element of the result."""
        total = self.offset
        for step, dense, length in zip(self.operand, self.dense, self.shape, strict=True):
            total += step * (element // dense % length)
        return total


def place_operand(
    read: Read, stored: StorageType, spec: Contraction, shape: tuple[int, ...]
) -> EpilogueOperand | Refusal:
    """The strides of what an epilogue reads, for a contraction whose dense result has `shape`."""
    strides = _strides(read, shape)
    is_same = strides.offset == 0 and all(
        length == 1 or step == dense
        for step, dense, length in zip(strides.operand, strides.dense, shape, strict=True)
    )
    if spec.result == "B":
        if is_same:
            return EpilogueOperand(read.argument, stored, follows_result=True)
        return Refusal("its epilogue broadcasts over the gradient of the weights")
    column = strides.along_channels(spec.c.stride, spec.out_channels)
    group = strides.along_channels(spec.c.group_stride, spec.groups)
    if column is None or group is None:
        return Refusal("an operand of its epilogue is not linear in output channels and groups")
    phases = tuple(_phase(strides, phase) for phase in spec.phases)
    return EpilogueOperand(read.argument, stored, is_same, phases, column, group)


def _phase(strides: _Strides, phase: Phase) -> PhaseOffsets:
    along = tuple(
        strides.along_axis(axis.out_stride) if axis.size > 1 else 0 for axis in phase.axes
    )
    return PhaseOffsets(strides.at(phase.out_offset), along)


def _strides(read: Read, shape: tuple[int, ...]) -> _Strides:
    dense = tuple(prod(read.shape[dim + 1 :]) for dim in range(len(read.shape)))
    offset = sum(form.constant * step for form, step in zip(read.index, dense, strict=True))
    steps = tuple(
        sum(form.coefficient(dim) * step for form, step in zip(read.index, dense, strict=True))
        for dim in range(len(shape))
    )
    of_result = tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))
    return _Strides(offset, steps, of_result, shape)
