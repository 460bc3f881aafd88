"""Random passes with random valid options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.target import named
from convir.lowering.pipeline import lowering_passes
from convir.passes.assign_layout import LAYOUTS, AssignLayoutPass
from convir.passes.batch_gemms.pass_ import BatchGemmsPass
from convir.passes.bind_sizes.pass_ import BindSizesPass
from convir.passes.bind_sizes.size_rules import spelled
from convir.passes.convert_filter_to_channels_last import ConvertFilterToChannelsLastPass
from convir.passes.convert_strided_insert_slice_to_generic.pass_ import (
    ConvertStridedInsertSliceToGenericPass,
)
from convir.passes.decompose_strided_dgrad.pass_ import DecomposeStridedDgradPass
from convir.passes.fold_constants import FoldConstantsPass
from convir.passes.manager.registry import load_pass

if TYPE_CHECKING:
    from collections.abc import Callable

    from random_programs.choices import Choices
    from random_programs.programs import Program
    from xdsl.passes import ModulePass

DEVICES = ("host", "host", "cuda")
COSTS = ("", "", str(named("h200").costs))
"""Those of products that read images and pack, and of a library that does neither."""


def _scatters(c: Choices, program: Program) -> ModulePass:
    return ConvertStridedInsertSliceToGenericPass(
        force=c.below(4) > 0,
        only_contraction_inputs=c.one_in(4),
        pads=c.below(2) > 0,
        # Sizes of random graphs may be 0.
        assume_nonempty=program.kind != "graph" and c.one_in(4),
    )


OPTIONS: dict[str, Callable[[Choices, Program], ModulePass]] = {
    "assign-layout": lambda c, _: AssignLayoutPass(c.pick(LAYOUTS), c.pick(DEVICES)),
    "batch-gemms": lambda c, _: BatchGemmsPass(c.pick((None, 0, 64, 1024, 1 << 20)), c.pick(COSTS)),
    "bind-sizes": lambda _, program: BindSizesPass(
        tuple(spelled(argument.shape) for argument in program.arguments)
    ),
    "convert-filter-to-channels-last": lambda c, _: ConvertFilterToChannelsLastPass(
        c.pick(("fhwc", "hwfc"))
    ),
    "convert-strided-insert-slice-to-generic": _scatters,
    "decompose-strided-dgrad": lambda c, _: DecomposeStridedDgradPass(c.below(4) > 0),
    "fold-constants": lambda c, _: FoldConstantsPass(
        c.pick((1 << 28, 0, 16, 256)), c.pick((False, True))
    ),
}


def random_pass(c: Choices, program: Program, name: str) -> ModulePass:
    """The pass called `name`, with random options."""
    return OPTIONS[name](c, program) if name in OPTIONS else load_pass(name)()


def random_passes(c: Choices, program: Program, names: tuple[str, ...]) -> list[ModulePass]:
    """One to four passes of `names`, or all if there is one."""
    if len(names) == 1:
        return [random_pass(c, program, names[0])]
    return [random_pass(c, program, c.pick(names)) for _ in range(c.integer(1, 4))]


def lowering(c: Choices) -> tuple[ModulePass, ...]:
    """The lowering for a device, with a random limit of workspace."""
    return lowering_passes(c.pick(DEVICES), c.pick((None, None, None, 0, 256, 4096)))
