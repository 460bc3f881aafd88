"""`assign-warp-roles`: which warps of kernels load, and which multiply.

    rewrite: kernel.region configs {cuda = "multi_tap_wgrad … roles=0:8 …"}
             --> kernel.region configs {cuda = "multi_tap_wgrad … roles=4:8 …"}

With `load=0` every warp does both. The kernel's kernel family must have the choice. Where these
roles contradict other fields of the config, the candidate with these roles that differs in the
fewest fields takes its place, and the remark names them; where there is none, the remark says why
not.

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
    """Have `load` warps load and `math` warps multiply, in every kernel whose family can."""

    name = "assign-warp-roles"

    load: int
    math: int
    fields: str = ""
    """Other fields to set, those that the roles contradict, as `x=shared y=async`."""
    gpu: str = str(DEFAULT_TARGET)
    """The GPU that kernels are for, as `Target` prints it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel that is selected for cuda and not launched yet."""

        asked = Choice(f"roles={self.load}:{self.math}", "warp roles", self.fields)
        choose(op, self.name, asked, gpu_of(self.gpu))
