"""`partition-reduction`: how the reductions of kernels are divided over the units of a GPU.

    rewrite: kernel.region configs {cuda = "multi_tap_wgrad … partition=data-parallel …"}
             --> kernel.region configs {cuda = "multi_tap_wgrad … partition=stream-k:tree …"}

The kernel's kernel family must have the choice, and the partition be legal for the kernel. Where it
contradicts other fields of the config, as those of a cluster that adds splits, the candidate with
this partition that differs in the fewest fields takes its place, and the remark names them.

Preconditions: the region has a config of a kernel family for `cuda`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from convir.lowering.kernels.cuda.old_spelling import read_config
from convir.lowering.kernels.cuda.tile_schedule.partition import (
    DATA_PARALLEL,
    PERSISTENT,
    SPLIT_K,
    Partition,
)
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.selection.config_choices import Choice, choose
from convir.lowering.selection.gpu_option import gpu_of

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class PartitionReductionPass(ModulePass):
    """Divide reductions as `kind` says, and add their splits as `reduction` says."""

    name = "partition-reduction"

    kind: str
    """`data-parallel`, `split-k` or `stream-k`."""
    reduction: str = "linear"
    """`linear`, `tree`, or for split-K also `reduce-scatter`."""
    parts: int = 1
    """Splits of split-K."""
    waves: str = PERSISTENT
    """What does the tiles that stream-K leaves whole: `persistent`, the blocks that stream, or
    `blocks` of their own."""
    fields: str = ""
    """Other fields to set, those that the partition contradicts, as `cluster=1`."""
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
            partition = Partition.parse(read_config(":".join((self.kind, *words))))
        except ValueError as error:
            raise PassFailedException(str(error)) from error
        asked = Choice(f"partition={partition}", "partition", self.fields)
        choose(op, self.name, asked, gpu_of(self.gpu))
