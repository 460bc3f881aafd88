"""The passes of a pipeline for the device that they run for: they know none themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from convir.lowering.implementations import HOST
from convir.lowering.kernels.target import DEFAULT_TARGET, Target, cpu_costs
from convir.passes.assign_layout import AssignLayoutPass
from convir.passes.batch_gemms.pass_ import BatchGemmsPass
from convir.passes.convert_integer_conv_to_float import ConvertIntegerConvToFloatPass
from convir.passes.convert_strided_insert_slice_to_generic.pass_ import (
    ConvertStridedInsertSliceToGenericPass,
)
from convir.passes.decompose_strided_dgrad.pass_ import DecomposeStridedDgradPass
from convir.passes.manager.fixpoint import FixpointPass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.passes import ModulePass


def passes_for(
    device: str, passes: Iterable[ModulePass], gpu: Target = DEFAULT_TARGET
) -> tuple[ModulePass, ...]:
    """`passes`, told whose kernels compute what they leave and what those cost.

    Args:
        device: `host` or `cuda`.
        passes: those of a pipeline; costs that one was given stay.
        gpu: the GPU, if `device` is one.
    """
    if device != HOST:
        return _all_told(passes, device, str(gpu.costs))
    from convir.lowering.kernels.host.target import target  # noqa: PLC0415  (imports LLVM)

    return _all_told(passes, device, str(cpu_costs(target())))


def _all_told(passes: Iterable[ModulePass], device: str, costs: str) -> tuple[ModulePass, ...]:
    return tuple(_told(one, device, costs) for one in passes)


def _told(one: ModulePass, device: str, costs: str) -> ModulePass:
    match one:
        case FixpointPass():
            return FixpointPass(_all_told(one.passes, device, costs))
        case AssignLayoutPass() | ConvertIntegerConvToFloatPass():
            return replace(one, device=device)
        case (
            BatchGemmsPass()
            | ConvertStridedInsertSliceToGenericPass()
            | DecomposeStridedDgradPass()
        ):
            return one if one.costs else replace(one, costs=costs)
        case _:
            return one
