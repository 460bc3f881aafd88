"""From a program to the plan of one device, which is what the program cache keeps, and from that to
what runs. No plan of one device brings along what another one needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from convir.analysis.refusal import Refusal
from convir.runtime.cache.entry_fields import FormatError
from convir.runtime.devices import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from convir.runtime.cuda import early_kernels as cuda
    from convir.runtime.cuda.plan import CudaPlan
    from convir.runtime.devices import Device
    from convir.runtime.executable import DeviceProgram
    from convir.runtime.host import planner as host
    from convir.runtime.host.plan import HostPlan
    from convir.runtime.program import Program

    EarlyKernels: TypeAlias = host.EarlyKernels | cuda.EarlyKernels
    Others: TypeAlias = Callable[[int, Callable[[], Program]], DeviceProgram | Refusal]
    """What runs a batch; it is also given what lowers the program for that batch."""


_Plan = TypeVar("_Plan", "HostPlan", "CudaPlan")


def made_for(device: Device) -> tuple[object, ...]:
    """What code for a device is for, and which toolchain makes it, as the program cache asks it.

    Raises:
        NoGpuError: there is no GPU, or no NVRTC.
    """
    if device.kind == HOST:
        from convir.lowering.kernels.host.target import target  # noqa: PLC0415  (imports LLVM)
        from convir.lowering.loops.llvm.llvm_binding import VERSIONS  # noqa: PLC0415  (as above)

        return HOST, VERSIONS, target()
    from convir.runtime.cuda import toolkit  # noqa: PLC0415  (imports CuPy)

    return device.kind, device.gpu_text, toolkit.nvrtc_stamp()


def early_kernels(device: Device) -> EarlyKernels:
    """What compiles kernels for a device while the rest of a program is lowered, and then plans it;
    until a block ends."""
    if device.kind == HOST:
        from convir.lowering.kernels.host.target import target  # noqa: PLC0415  (imports LLVM)
        from convir.runtime.host import planner as host  # noqa: PLC0415  (imports xDSL)

        return host.EarlyKernels(target())
    from convir.runtime.cuda import early_kernels as cuda  # noqa: PLC0415  (imports xDSL and CuPy)

    return cuda.EarlyKernels(device.gpu)


def load_plan(
    device: Device,
    plan: HostPlan | CudaPlan,
    program: Callable[[], Program],
    threads: int | None = None,
) -> DeviceProgram:
    """What runs a plan.

    Args:
        device: what the plan is for.
        plan: what `early_kernels` planned, or the program cache.
        program: gives the program that the plan was made from, when somebody asks for it.
        threads: at most so many threads a launch on the host; None for all cores.

    Raises:
        CompileError: the code cannot be loaded.
        NoGpuError: a part of the CUDA toolkit is missing.
        GpuMemoryError: the constants do not fit on the GPU.
        FormatError: the plan is for another device.
    """
    if device.kind == HOST:
        from convir.runtime.host.device import HostProgram  # noqa: PLC0415  (imports LLVM)
        from convir.runtime.host.plan import HostPlan  # noqa: PLC0415  (as below)

        if isinstance(plan, HostPlan):
            return HostProgram.of_plan(plan, program, threads)
    else:
        from convir.runtime.cuda.device import CudaProgram  # noqa: PLC0415  (imports CuPy)
        from convir.runtime.cuda.plan import CudaPlan  # noqa: PLC0415  (as above)

        if isinstance(plan, CudaPlan):
            return CudaProgram.of_plan(plan, program, device.index)
    raise FormatError(f"a {type(plan).__name__} is not for {device.name}")


def plan_others(
    device: Device,
    loaded: DeviceProgram,
    programs: Sequence[Program],
    batches: Sequence[int],
    served: Sequence[int],
    workspace_bytes: int | None = None,
) -> Others | Refusal:
    """What runs a function for other batches, without compiling; or why nothing does.

    Args:
        device: where it runs.
        loaded: the program of the first batch there.
        programs: of some neighbouring batches, the first one's first.
        batches: each program's.
        served: the least and the largest batch that will be asked for.
        workspace_bytes: the most that temporaries may take; None for no limit.
    """
    if device.kind == HOST:
        return _others_on_host(loaded, programs, batches, served, workspace_bytes)
    from convir.runtime.batches.cuda import batches_of  # noqa: PLC0415  (imports xDSL)
    from convir.runtime.cuda.device import CudaProgram  # noqa: PLC0415  (imports CuPy)

    if not isinstance(loaded, CudaProgram):
        return Refusal(f"it does not run on {device.name}")
    found = batches_of(loaded.plan, programs, batches, device.gpu)
    if isinstance(found, Refusal):
        return found

    def other(batch: int, program: Callable[[], Program]) -> DeviceProgram | Refusal:
        plan = _fitting(found.at(batch), workspace_bytes)
        return plan if isinstance(plan, Refusal) else loaded.rebound(plan, program)

    return other


def _others_on_host(
    loaded: DeviceProgram,
    programs: Sequence[Program],
    batches: Sequence[int],
    served: Sequence[int],
    workspace_bytes: int | None,
) -> Others | Refusal:
    from convir.lowering.kernels.host.target import target  # noqa: PLC0415  (imports LLVM)
    from convir.reference.limits import memory_bytes  # noqa: PLC0415  (imports xDSL)
    from convir.runtime.batches.host import batches_of  # noqa: PLC0415  (imports xDSL)
    from convir.runtime.host.device import HostProgram  # noqa: PLC0415  (imports LLVM)

    found = batches_of(programs, batches, target(), served)
    if isinstance(found, Refusal):
        return found
    threads = loaded.threads if isinstance(loaded, HostProgram) else None

    def other(batch: int, program: Callable[[], Program]) -> DeviceProgram | Refusal:
        plan = _fitting(found.at(batch), workspace_bytes)
        if isinstance(plan, Refusal):
            return plan
        size = plan.arena_bytes + sum(spec.nbytes for spec in plan.outputs)
        if size > memory_bytes():
            return Refusal(f"it takes {size} bytes of memory")
        return HostProgram.of_plan(plan, program, threads)

    return other


def _fitting(plan: _Plan | Refusal, workspace_bytes: int | None) -> _Plan | Refusal:
    """A plan, unless passes would divide its batch for what its temporaries take."""
    if isinstance(plan, Refusal) or workspace_bytes is None:
        return plan
    if plan.arena_bytes > workspace_bytes:
        return Refusal(f"its temporaries take {plan.arena_bytes} bytes, of {workspace_bytes}")
    return plan
