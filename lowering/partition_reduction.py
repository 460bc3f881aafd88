"""`partition-reduction`: how the reductions of kernels are divided over the units of a GPU.

    rewrite: kernel.region configs {cuda = "taps-wgrad … partition=data-parallel blocks=132"}
             --> kernel.region configs {cuda = "taps-wgrad … partition=stream-k:tree blocks=132"}

The kernel's template must have the choice, and the partition be legal for the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from convir.dialects.refusal import Refusal
from convir.lowering.gpu_option import gpu_of
from convir.lowering.kernels.cuda.config import ChoosesPartition
from convir.lowering.kernels.cuda.tile_schedule.partition import (
    DATA_PARALLEL,
    PERSISTENT,
    SPLIT_K,
    Partition,
)
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.template_choices import change_configs

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.kernels.cuda.config import KernelConfig
    from convir.lowering.kernels.protocol import KernelFamily

NAME = "partition-reduction"


@dataclass(frozen=True)
class PartitionReductionPass(ModulePass):
    """Divide reductions as `kind` says, and put their parts together as `reduction` says."""

    name = NAME

    kind: str
    """`data-parallel`, `split-k` or `stream-k`."""
    reduction: str = "linear"
    """`linear`, `tree`, or for split-K also `slices`."""
    parts: int = 1
    """Parts of split-K."""
    waves: str = PERSISTENT
    """What does the tiles that stream-K leaves whole: `persistent`, the blocks that stream, or
    `blocks` of their own."""
    gpu: str = str(DEFAULT_TARGET)
    """The GPU that kernels are for, as `Target` prints it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel that is selected for cuda and not launched yet.

        Raises:
            PassFailedException: the options say no partition, or no GPU.
        """
        words = {DATA_PARALLEL: [], SPLIT_K: [str(self.parts)]}.get(self.kind, [])
        words += [] if self.kind == DATA_PARALLEL else [self.reduction]
        words += [] if self.waves == PERSISTENT else [self.waves]
        try:
            partition = Partition.parse(":".join((self.kind, *words)))
        except ValueError as error:
            raise PassFailedException(str(error)) from error

        def change(family: KernelFamily, config: KernelConfig) -> KernelConfig | Refusal:
            if not isinstance(config, ChoosesPartition):
                return Refusal(f"{family.name} has no choice of partition")
            return config.with_partition(partition)

        change_configs(op, NAME, change, gpu_of(self.gpu))
