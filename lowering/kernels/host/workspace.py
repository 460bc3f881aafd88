"""Memory that a contraction needs beside its operands, as one piece of the program's arena.

A program says the same on every machine, so its workspace is what the CPU that needs most needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.contraction_launch import plan_contraction
from convir.lowering.kernels.host.target import register_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.host.contraction_launch import Buffer, ContractionPlan

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""


@dataclass(frozen=True)
class Workspace:
    """Where the buffers of a plan lie in one piece of memory."""

    offsets: Mapping[Buffer, int]
    """In bytes, by the buffer's name."""
    nbytes: int


def layout_workspace(plan: ContractionPlan, *, constant_weights: bool) -> Workspace:
    """Lay out the buffers of `plan`; constant weights are packed elsewhere, where they stay."""
    offsets: dict[Buffer, int] = {}
    end = 0
    for name, nbytes in plan.workspace.items():
        if name == "packed" and constant_weights:
            continue
        offsets[name] = end
        end += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return Workspace(offsets, end)


def workspace_bytes(spec: Contraction, *, constant_weights: bool) -> int:
    """Bytes of workspace with which `spec` runs on every CPU."""
    plans = [plan_contraction(spec, cpu) for cpu in register_files()]
    return max(layout_workspace(p, constant_weights=constant_weights).nbytes for p in plans)
