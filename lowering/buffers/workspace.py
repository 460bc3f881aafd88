"""The memory of a launch beside its operands: workspace in the plan, and what persists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import CUDA, HOST, config_of

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
    if config is None:
        return 0
    # A GPU needs none of the host's families.
    from convir.lowering.kernels.host.problem import KernelBody  # noqa: PLC0415
    from convir.lowering.kernels.host.workspace import workspace_bytes  # noqa: PLC0415

    return workspace_bytes(KernelBody(callee), config, constants)


def launch_scratch(callee: kernel.FuncOp, gpu: Target | None) -> int:
    """Bytes of workspace of one launch of `callee` on a GPU, which stand behind the arena; none on
    the host, whose arenas hold it.
    """
    config = None if gpu is None else config_of(callee, CUDA)
    if gpu is None or config is None:
        return 0
    # The host needs none of the kernel families.
    from convir.lowering.kernels.registry import plan_kernel  # noqa: PLC0415

    plan = plan_kernel(callee, config, gpu)
    return 0 if isinstance(plan, Refusal) else sum(plan.workspace)


def launch_state(callee: kernel.FuncOp, gpu: Target | None) -> tuple[int, ...]:
    """Bytes of each persistent memory of a launch of `callee` on a GPU; none on the host.

    It is zeros before the first launch, and every launch leaves it zeros.
    """
    config = None if gpu is None else config_of(callee, CUDA)
    if gpu is None or config is None:
        return ()
    # The host needs none of the kernel families.
    from convir.lowering.kernels.registry import plan_kernel  # noqa: PLC0415

    plan = plan_kernel(callee, config, gpu)
    return () if isinstance(plan, Refusal) else plan.state
