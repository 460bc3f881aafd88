"""What may stand for a kernel on a device by measured times, and what these times belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.selection.records.record import machine_of

if TYPE_CHECKING:
    from convir.analysis.refusal import Refusal
    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.target import Target
    from convir.lowering.selection.kernel_candidates import Candidates
    from convir.lowering.selection.planar_candidates import PlanarCandidates
    from convir.lowering.selection.records.record import Machine


def machine_for(gpu: Target | None) -> Machine:
    """What times on a GPU belong to, or on the host if it is None."""
    if gpu is not None:
        return machine_of(gpu)
    # A GPU needs none of the host's families, and no LLVM.
    from convir.lowering.kernels.host.target import target  # noqa: PLC0415
    from convir.lowering.selection.planar_candidates import machine_of_cpu  # noqa: PLC0415

    return machine_of_cpu(target())


def candidates_for(
    function: kernel.FuncOp, gpu: Target | None
) -> Candidates | PlanarCandidates | Refusal:
    """The configs of a kernel on a GPU, or on the host if it is None; or why there are none."""
    if gpu is None:
        from convir.lowering.kernels.host.target import target  # noqa: PLC0415  (as above)
        from convir.lowering.selection import planar_candidates as planar  # noqa: PLC0415

        return planar.planar_candidates_of(function, target())
    # What reads contractions for a GPU is not needed before.
    from convir.lowering.selection.kernel_candidates import candidates_of  # noqa: PLC0415

    return candidates_of(function, gpu)
