"""A kernel's body as a chain of stages on rows of frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.planar.read import read_planar

if TYPE_CHECKING:
    from convir.dialects.kernel import ops as kernel
    from convir.lowering.bodies.planar.read import PlanarKernel


@dataclass(frozen=True)
class Chain:
    """A kernel that is one chain."""

    entry: str
    """The name of its code."""
    reading: PlanarKernel
    arguments: tuple[int, int]
    """How many inputs and outputs it has."""


def read_chain(callee: kernel.FuncOp) -> Chain | Refusal:
    """The body of `callee` as one chain, or why it is none."""
    reading = read_planar(callee)
    if isinstance(reading, Refusal):
        return reading
    types = callee.function_type
    entry = f"planar_{callee.sym_name.data}"
    return Chain(entry, reading, (len(types.inputs), len(types.outputs)))
