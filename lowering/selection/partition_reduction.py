"""`partition-reduction`: how the blocks of a kernel divide its reductions (split-K, stream-K).

    rewrite: kernel.region configs {cuda = "multi_tap_wgrad … partition=data-parallel …"}
             --> kernel.region configs {cuda = "multi_tap_wgrad … partition=stream-k:tree …"}

The kernel family must have the choice, and the partition must be legal for the kernel. Where the
partition contradicts other fields of the config (a cluster that adds splits is one), the pass takes
the candidate with this partition that differs in the fewest fields, and the remark names those
fields.

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
    """Divide the reduction of a kernel: data-parallel, split-K or stream-K, and its fix-up."""

    name = "partition-reduction"

    kind: str
    """`data-parallel`, `split-k` or `stream-k`."""
    reduction: str = "linear"
    """`linear`, `tree`, or for split-K also `reduce-scatter`."""
    splits: int = 1
    """Splits of the reduction of each tile, for split-K."""
    waves: str = PERSISTENT
    """Which blocks compute the tiles that stream-K does not split: `persistent`, the persistent
    blocks after their shares, or `blocks`, one block for each tile."""
    fields: str = ""
    """Other fields of the config to set as well, as `cluster=1`."""
    gpu: str = str(DEFAULT_TARGET)
    """The GPU that kernels are for, as `Target` prints it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel that is selected for cuda and not launched yet.

        Raises:
            PassFailedException: the options are no partition, or no GPU.
        """
        words = {DATA_PARALLEL: [], SPLIT_K: [str(self.splits)]}.get(self.kind, [])
        words += [] if self.kind == DATA_PARALLEL else [self.reduction]
        words += [] if self.waves == PERSISTENT else [self.waves]
        try:
            partition = Partition.parse(read_config(":".join((self.kind, *words))))
        except ValueError as error:
            raise PassFailedException(str(error)) from error
        asked = Choice(f"partition={partition}", "partition", self.fields)
        choose(op, self.name, asked, gpu_of(self.gpu))
