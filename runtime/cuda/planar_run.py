"""Neighbouring launches of planar programs as one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.planar.read import read_planar
from convir.lowering.implementations import CUDA, PLANAR, config_of
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.loops.cuda.planar import PlanarLaunch, planar_code
from convir.runtime.program import Buffer, Copy, Launch, Space, buffers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from convir.lowering.kernels.target import Target
    from convir.lowering.loops.cuda.planar import PlanarCode
    from convir.runtime.program import Array, Call

PACKED = Pointer("workspace")
"""What stands for the array of all weights."""


def is_planar(call: Call) -> bool:
    """Whether `call` launches a planar program."""
    return isinstance(call, Launch) and config_of(call.kernel, CUDA) == PLANAR


def in_runs(calls: Iterable[Call]) -> list[tuple[Call, ...]]:
    """Calls in an order that means the same, planar launches that are neighbours together.

    A copy from an argument to a result comes first where no call before it touches that result: it
    says where a state begins, which in a stream is the same memory.
    """
    first: list[Call] = []
    rest: list[Call] = []
    touched = set[int]()
    for call in calls:
        begins = isinstance(call, Copy) and call.source.space is Space.INPUT
        out = call.out if isinstance(call, Copy) else None
        is_first = begins and out is not None and out.space is Space.OUTPUT
        if is_first and out is not None and out.index not in touched:
            first.append(call)
        else:
            rest.append(call)
        touched |= {buffer.index for buffer in buffers_of(call) if buffer.space is Space.OUTPUT}
    runs: list[tuple[Call, ...]] = []
    for call in (*first, *rest):
        if runs and is_planar(call) and is_planar(runs[-1][0]):
            runs[-1] = (*runs[-1], call)
        else:
            runs.append((call,))
    return runs


def planar_run(
    launches: Sequence[Launch], gpu: Target
) -> tuple[PlanarCode, dict[Pointer, Buffer]] | Refusal:
    """The kernel of neighbouring launches and what its pointers are, or why there is none."""
    pointers: dict[tuple[Space, int, int], Pointer] = {}
    buffers: dict[Pointer, Buffer] = {}
    read: list[PlanarLaunch] = []
    for launch in launches:
        found = read_planar(launch.kernel, splits=False)
        if isinstance(found, Refusal):
            return found
        for insertion in found.insertions:
            if launch.inputs[insertion.argument] != launch.outputs[insertion.result]:
                return Refusal("what it writes in part is not an argument's memory")
        arguments: list[Pointer] = []
        for buffer in (*launch.inputs, *launch.outputs):
            place = buffer.space, buffer.index, buffer.offset
            pointer = pointers.setdefault(place, Pointer("input", len(pointers)))
            buffers[pointer] = buffer
            arguments.append(pointer)
        read.append(PlanarLaunch(found.program, found.binding, tuple(arguments)))
    code = planar_code(read, PACKED, gpu)
    if isinstance(code, Refusal):
        return code
    if any(buffers[kept.argument].space is not Space.CONSTANT for kept in code.kept):
        return Refusal("its weights are computed")
    return code, buffers


def packed(code: PlanarCode, buffers: dict[Pointer, Buffer], constants: Sequence[Array]) -> Array:
    """The array of all weights: f32[`code.kept_floats`]."""
    content = np.zeros(max(1, code.kept_floats), np.float32)
    for kept in code.kept:
        buffer = buffers[kept.argument]
        numbers = np.ascontiguousarray(constants[buffer.index]).reshape(-1).view(np.uint8)
        found = numbers[buffer.offset :].view(np.float32)
        content[kept.place : kept.place + kept.count] = found[: kept.count]
    return content
