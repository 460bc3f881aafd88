"""Memory that a launch needs beside its operands, as one piece of the program's arena.

A program says the same on every machine, so its workspace is what the CPU that needs most needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.host.launch import HostLaunch
from convir.lowering.kernels.host.registry import (
    ATTENTION,
    CONTRACTIONS,
    ON_TILES,
    families_of,
    plan_kernel,
)
from convir.lowering.kernels.host.target import register_files

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from convir.lowering.kernels.host.launch import Buffer
    from convir.lowering.kernels.host.problem import KernelBody

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""


@dataclass(frozen=True)
class Workspace:
    """Where the buffers of a launch lie in one piece of memory."""

    offsets: Mapping[Buffer, int]
    """In bytes, by the buffer's name."""
    nbytes: int


def layout_workspace(launch: HostLaunch, *, constant_weights: bool) -> Workspace:
    """Lay out the buffers of `launch`; constant weights are packed elsewhere, where they stay."""
    offsets: dict[Buffer, int] = {}
    end = 0
    for name, nbytes in launch.workspace.items():
        if name == "packed" and constant_weights:
            continue
        offsets[name] = end
        end += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return Workspace(offsets, end)


def workspace_bytes(body: KernelBody, config: str, constants: Collection[int]) -> int:
    """Bytes of workspace with which a config of a kernel runs on every CPU.

    Args:
        body: the kernel.
        config: of the host.
        constants: the numbers of the arguments that are constants of the program.
    """
    families = families_of(config)
    if not any(family in (ATTENTION, *CONTRACTIONS) for family in families):
        return 0
    needed = 0
    for cpu in register_files():
        if cpu.tiles and families[0] not in ON_TILES:
            continue  # It is computed on vectors there, too.
        launch = plan_kernel(body, config, cpu)
        if isinstance(launch, HostLaunch):
            contraction = body.contraction(cpu)
            is_one = not isinstance(contraction, Refusal)
            constant = is_one and contraction.has_constant_weights(constants)
            needed = max(needed, layout_workspace(launch, constant_weights=constant).nbytes)
    return needed
