"""LLVM IR of attention: the kernels of its parts, called for one block of queries after another.

    for item:                 a block of queries of a group
      scores of the block     ─> memory of the thread
      passes over its rows    in place
      rows · values           ─> the result

Each part is written as it is elsewhere, for all queries; it gets the address at which its operand
would begin if the whole of it were there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.bodies.rows.program import Load
from convir.lowering.kernels.host.attention.blocking import SCORE_BYTES, Cuts
from convir.lowering.kernels.host.attention.problem import SCORES
from convir.lowering.kernels.host.code.builder import (
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    value,
)
from convir.lowering.kernels.host.code.entry import CONTRACT, KERNEL_PARAMETERS
from convir.lowering.kernels.host.implicit_gemm.kernel import RowKernel as ProductKernel
from convir.lowering.kernels.host.reduction.kernel import ENTRY as ROWS
from convir.lowering.kernels.host.reduction.kernel import RowKernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.kernels.host.attention.problem import Attention
    from convir.lowering.kernels.host.code.builder import Module, Value
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

ENTRY = "attend"
"""The kernel's name; its arguments are the addresses of queries, keys, values, the result, and of
what the passes over rows read beside the scores."""


def read_beside(problem: Attention) -> list[int]:
    """The arguments that passes over rows read beside the scores."""
    loads = [node.source.index for node in problem.rows.nodes if isinstance(node, Load)]
    return sorted({*loads} - {SCORES})


@dataclass(frozen=True)
class AttentionKernel:
    """Writes the kernel of one attention for one CPU."""

    problem: Attention
    """Its rows of scores lie as far apart as the cuts say."""
    lanes: Lanes
    cuts: Cuts

    @property
    def items(self) -> int:
        """How many items of work there are."""
        return self.problem.scores.groups * self._blocks

    @property
    def _blocks(self) -> int:
        return len(self.cuts.bounds) - 1

    def write(self, module: Module) -> None:
        """Add the function `attend` to `module`, and what it calls."""
        problem, cuts, lanes = self.problem, self.cuts, self.lanes
        parts: list[Function] = []
        for prefix, kernel, entry in (
            ("scores.", ProductKernel(problem.scores, lanes, cuts.scores), CONTRACT),
            ("between.", RowKernel(problem.rows, lanes.cpu), ROWS),
            ("values.", ProductKernel(problem.values, lanes, cuts.values), CONTRACT),
        ):
            inside = module.within(prefix)
            kernel.write(inside)
            parts.append(inside.called_inside(entry))
        module.add(self._entry(parts, module.table("blocks", cuts.bounds)))

    def _entry(self, parts: Sequence[Function], bounds: Value) -> Function:
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        beside = read_beside(self.problem)
        memory = f.stack(self.cuts.block_bytes, LINE_BYTES, "scores")
        names = ("queries", "keys", "values", "result", *(f"beside{i}" for i in beside))
        q, k, v, result, *others = (
            f.load(PTR, f.offset(f.argument("args"), POINTER_BYTES * i), POINTER_BYTES, name)
            for i, name in enumerate(names)
        )
        counts = (3, len(beside) + 2, 3)
        tables = [f.stack(POINTER_BYTES * n, POINTER_BYTES, "arguments") for n in counts]
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            group = f.div(item.index, self._blocks, "group")
            bound = f.element(bounds, f.rem(item.index, self._blocks, "block"), POINTER_BYTES)
            before = f.mul(group, self.problem.queries, "before")
            first, last = (
                f.add(before, f.load(I64, f.offset(bound, at), POINTER_BYTES, "query"))
                for at in (0, POINTER_BYTES)
            )
            back = f.mul(f.sub(value(0), first), self.cuts.line * SCORE_BYTES, "back")
            scores = f.offset(memory, back, "all.scores")
            given = ((q, k, scores), (scores, *others, scores), (scores, v, result))
            following = f.add(item.index, 1)
            ranges = ((item.index, following), (first, last), (item.index, following))
            for part, table, addresses, items in zip(parts, tables, given, ranges, strict=True):
                for i, address in enumerate(addresses):
                    f.store(address, f.offset(table, POINTER_BYTES * i), POINTER_BYTES)
                f.call(part, table, *items, f.argument("worker"))
        return f
