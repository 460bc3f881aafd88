"""`assign-warp-roles`: which warps of a kernel are producers, and which are consumers.

    rewrite: kernel.region configs {cuda = "multi_tap_wgrad … roles=0:8 …"}
             --> kernel.region configs {cuda = "multi_tap_wgrad … roles=4:8 …"}

Producer warps copy operand tiles to shared memory; consumer warps multiply. With
`producer-warps=0` every warp does both. The kernel family must have the choice. Where the roles
contradict other fields of the config, the pass takes the candidate with these roles that differs
in the fewest fields, and the remark names those fields. Where no candidate has these roles, the
remark gives the reason.

Preconditions: the region has a config of a kernel family for `cuda`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.passes import ModulePass

from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.selection.config_choices import Choice, choose
from convir.lowering.selection.gpu_option import gpu_of

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class AssignWarpRolesPass(ModulePass):
    """Set how many warps of a block are producers (loads) and consumers (MMA and stores)."""

    name = "assign-warp-roles"

    producer_warps: int
    """Warps that copy operand tiles to shared memory; 0: every warp copies and multiplies."""
    consumer_warps: int
    """Warps that multiply and store."""
    fields: str = ""
    """Other fields of the config to set as well, as `x=shared y=async`."""
    gpu: str = str(DEFAULT_TARGET)
    """The GPU that kernels are for, as `Target` prints it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel that is selected for cuda and not launched yet."""

        roles = f"roles={self.producer_warps}:{self.consumer_warps}"
        choose(op, self.name, Choice(roles, "warp roles", self.fields), gpu_of(self.gpu))
