"""The memory of a launch beside its operands: workspace in the plan, and what persists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import CUDA, HOST, config_of
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.workspace import workspace_bytes

if TYPE_CHECKING:
    from collections.abc import Collection

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.target import Target


def launch_workspace(callee: kernel.FuncOp, device: str, constants: Collection[int]) -> int:
    """Bytes of workspace of one launch of `callee` on `device`.

    Args:
        callee: the kernel, with its config.
        device: `host` or `cuda`.
        constants: the numbers of the arguments that are constants of the program.
    """
    config = config_of(callee, HOST) if device == HOST else None
    return 0 if config is None else workspace_bytes(KernelBody(callee), config, constants)


def launch_state(callee: kernel.FuncOp, device: str, gpu: Target) -> tuple[int, ...]:
    """Bytes of each persistent memory of a launch of `callee` on `device`, which may be `gpu`.

    It is zeros before the first launch, and every launch leaves it zeros.
    """
    config = config_of(callee, CUDA) if device == CUDA else None
    if config is None:
        return ()
    # The host needs none of the kernel families.
    from convir.lowering.kernels.registry import (  # noqa: PLC0415
        names_family,
        plan_kernel,
    )

    plan = (
        plan_kernel(callee, config, gpu)
        if names_family(config)
        else Refusal("it is no config of a family")
    )
    return () if isinstance(plan, Refusal) else plan.state
