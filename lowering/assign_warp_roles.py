"""`assign-warp-roles`: which warps of kernels load, and which multiply.

    rewrite: kernel.region configs {cuda = "taps-wgrad … roles=0:8 …"}
             --> kernel.region configs {cuda = "taps-wgrad … roles=4:8 …"}

With `load=0` every warp does both. The kernel's template must have the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.passes import ModulePass

from convir.dialects.refusal import Refusal
from convir.lowering.gpu_option import gpu_of
from convir.lowering.kernels.cuda.config import ChoosesRoles
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.template_choices import change_configs

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.kernels.cuda.config import KernelConfig
    from convir.lowering.kernels.protocol import KernelFamily

NAME = "assign-warp-roles"


@dataclass(frozen=True)
class AssignWarpRolesPass(ModulePass):
    """Have `load` warps load and `math` warps multiply, in every kernel whose template can."""

    name = NAME

    load: int
    math: int
    gpu: str = str(DEFAULT_TARGET)
    """The GPU that kernels are for, as `Target` prints it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel that is selected for cuda and not launched yet."""

        def change(family: KernelFamily, config: KernelConfig) -> KernelConfig | Refusal:
            if not isinstance(config, ChoosesRoles):
                return Refusal(f"{family.name} has no choice of warp roles")
            return config.with_roles(self.load, self.math)

        change_configs(op, NAME, change, gpu_of(self.gpu))
