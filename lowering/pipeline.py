"""The lowering, as one straight list: tensors at the top, a planned rt program at the bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.buffers.chunk_batch import ChunkedLowering
from convir.lowering.buffers.convert_to_rt import ConvertToRtPass
from convir.lowering.buffers.plan_memory import PlanMemoryPass
from convir.lowering.implementations import HOST
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.regions.form_kernel_regions import FormKernelRegionsPass
from convir.lowering.regions.fuse_epilogue import FuseEpiloguePass
from convir.lowering.regions.fuse_frames import FuseFramesPass
from convir.lowering.regions.fuse_rows import FuseRowsPass
from convir.lowering.regions.outline_kernels import OutlineKernelsPass
from convir.lowering.selection.select_kernels import SelectKernelsPass

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from convir.lowering.kernels.target import Target


def lowering_passes(
    device: str = "host",
    workspace_bytes: int | None = None,
    gpu: Target = DEFAULT_TARGET,
    records: tuple[str, ...] = (),
) -> tuple[ModulePass, ...]:
    """The passes that turn functions on tensors into rt programs, one for each of `STAGES`.

    Args:
        device: `host` or `cuda`: whose kernels are selected.
        workspace_bytes: the most that a program's temporaries may take; None for no limit.
        gpu: what cuda kernels are chosen for.
        records: files of tuning records that are asked before the shipped ones.
    """
    target = None if device == HOST else str(gpu)
    passes = (
        FuseFramesPass(device),  # chains of convolutions that compute frame by frame
        FuseRowsPass(device),  # reductions that go over the same rows, and what lies between
        FuseEpiloguePass(),  # a contraction, and what its store computes
        FormKernelRegionsPass(),  # everything else that will be one launch
        SelectKernelsPass(device, target, records),  # who computes it
        OutlineKernelsPass(),  # a function each, with its tensor body as its meaning
        ConvertToRtPass(device, target),  # buffers instead of tensors
    )
    return (
        # What does not fit is lowered in chunks of its batch, by the same passes.
        ChunkedLowering(
            (*passes, PlanMemoryPass()), workspace_bytes, None if target is None else gpu
        ),
        *passes,
        PlanMemoryPass(workspace_bytes),  # one arena instead of many buffers
    )
