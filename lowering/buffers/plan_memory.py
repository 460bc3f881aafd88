"""`plan-memory`: all temporaries of a program become pieces of one arena.

    rewrite: %0 = memref.alloc() : memref<A> --> %arena = rt.arena : memref<Nxi8>
                                                 %0 = rt.view %arena[offset] : … to memref<A>

A buffer lives from the call that first names it to the last call that does. Buffers are placed
from the largest to the smallest, each at the lowest offset that no buffer alive at the same time
occupies; N is the peak. Source: greedy-by-size planning, Pisarchyk and Lee, arXiv 2001.03288.

Preconditions: the function is an rt program; a temporary has a static size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import func, memref
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from convir.dialects.diagnostics import DiagnosticError, error_at
from convir.dialects.rt import ops as rt
from convir.lowering.buffers.occupied_memory import OccupiedMemory
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_workspace
from convir.passes.manager.quantities import bytes_text

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue


@dataclass(frozen=True)
class Lifetime:
    """A temporary: its size in bytes, and the positions of the first and last op that names it."""

    alloc: memref.AllocOp
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """Where every temporary of a program lies."""

    offsets: tuple[tuple[Lifetime, int], ...]
    """In program order, each with its offset in bytes."""

    @property
    def peak(self) -> int:
        """The bytes that the arena needs."""
        return max((offset + aligned(life.size) for life, offset in self.offsets), default=0)

    @property
    def total(self) -> int:
        """The bytes that the temporaries would need side by side."""
        return sum(aligned(life.size) for life, _ in self.offsets)

    def __str__(self) -> str:
        rows = [
            f"{life.alloc.memref.name_hint or i}: {bytes_text(life.size)} at {offset}, "
            f"calls {life.first} to {life.last}"
            for i, (life, offset) in enumerate(self.offsets)
        ]
        return "; ".join([f"peak {bytes_text(self.peak)} of {bytes_text(self.total)}", *rows])


def aligned(size: int) -> int:
    """`size` bytes, rounded up to the arena's alignment."""
    return -(-size // rt.ARENA_ALIGNMENT) * rt.ARENA_ALIGNMENT


def plan_memory(program: func.FuncOp) -> Plan:
    """Place every `memref.alloc` of a program."""
    lifetimes = _lifetimes(program)
    occupied = OccupiedMemory(len(program.body.block.ops))
    placed: dict[int, int] = {}
    by_size = sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].size, i))
    for i in by_size:
        life = lifetimes[i]
        placed[i] = occupied.take(aligned(life.size), life.first, life.last)
    return Plan(tuple((life, placed[i]) for i, life in enumerate(lifetimes)))


def _lifetimes(program: func.FuncOp) -> list[Lifetime]:
    position = {op: i for i, op in enumerate(program.body.block.ops)}
    lifetimes: list[Lifetime] = []
    for op in program.body.block.ops:
        if not isinstance(op, memref.AllocOp):
            continue
        users = [position[user] for user in _users(op.memref)]
        first, last = (min(users), max(users)) if users else (position[op], position[op])
        lifetimes.append(Lifetime(op, rt.buffer_bytes(op.memref.type), first, last))
    return lifetimes


def _users(buffer: SSAValue) -> list[Operation]:
    """The calls that name `buffer` or a view of it."""
    users: list[Operation] = []
    pending = [buffer]
    while pending:
        for use in pending.pop().uses:
            if isinstance(use.operation, rt.ViewOp):
                pending.append(use.operation.view)
            else:
                users.append(use.operation)
    return users


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """Place all temporaries of every rt program in one arena."""

    name = "plan-memory"

    workspace_bytes: int | None = None
    """The most that an arena may take, in bytes; None for no limit."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every rt program.

        Raises:
            DiagnosticError: a plan's peak exceeds `workspace_bytes`.
            PassFailedException: there is no such workspace.
        """
        check_workspace(self.workspace_bytes)
        for program in op.ops:
            if isinstance(program, func.FuncOp) and rt.PROGRAM_ATTR in program.attributes:
                self._plan(program)

    def _plan(self, program: func.FuncOp) -> None:
        plan = plan_memory(program)
        if self.workspace_bytes is not None and plan.peak > self.workspace_bytes:
            message = (
                f"@{program.sym_name.data} needs {plan.peak} bytes of workspace, "
                f"the budget is {self.workspace_bytes}"
            )
            raise DiagnosticError(error_at(program, message))
        if not plan.offsets:
            remarks.refused(self.name, program, "it has no temporaries")
            return
        remarks.fired(self.name, program, str(plan))
        block = program.body.block
        assert block.first_op is not None
        arena = rt.ArenaOp(plan.peak)
        Rewriter.insert_op(arena, InsertPoint.before(block.first_op))
        for life, offset in plan.offsets:
            view = rt.ViewOp(arena.memory, offset, life.alloc.memref.type)
            view.view.name_hint = life.alloc.memref.name_hint
            Rewriter.replace_op(life.alloc, view)
