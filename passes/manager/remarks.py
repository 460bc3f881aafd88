"""Remarks: what a pass did or refused to do, as data.

A pass reports through `fired` and `refused`; nothing is kept unless somebody listens:

    with collect() as remarks:
        some_pass.apply(ctx, module)
    for remark in remarks: ...
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import NameLoc
from xdsl.dialects.func import FuncOp

from convir.dialects.diagnostics import file_location

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdsl.ir import Operation


@dataclass(frozen=True)
class Remark:
    """One decision of one pass about one operation."""

    pass_name: str
    """The pass, in kebab case."""
    op: str
    """The name of the operation it looked at, e.g. `tensor.insert_slice`."""
    location: str
    """`file:line:col`, or `-` where the location is unknown."""
    fired: bool
    """True if the pass rewrote the operation, False if it refused."""
    reason: str
    """What was gained, or which precondition failed; one clause, no full stop."""
    function: str = ""
    """The name of the function that the operation is in, or is; empty where there is none."""
    verb: str = "rewritten"
    """What was done to the operation where the pass fired."""
    node: str = ""
    """The node of a model that the operation comes from; empty where there is none."""

    @property
    def message(self) -> str:
        """All but the place and the function, on one line."""
        verb = self.verb if self.fired else f"not {self.verb}"
        return f"[{self.pass_name}] {self.op} {verb}: {self.reason}"

    def __str__(self) -> str:
        return f"{self.location}: remark: {self.message}"


@dataclass(frozen=True)
class _Collector:
    """The remarks inside one block, each once."""

    remarks: list[Remark] = field(default_factory=list[Remark])
    seen: set[Remark] = field(default_factory=set[Remark])

    def add(self, remark: Remark) -> None:
        if remark not in self.seen:
            self.seen.add(remark)
            self.remarks.append(remark)


_listeners: ContextVar[tuple[_Collector, ...]] = ContextVar("convir_remarks", default=())


@contextmanager
def collect() -> Generator[list[Remark]]:
    """Collect the remarks of every pass run inside the block, nested collectors included."""
    collector = _Collector()
    token = _listeners.set((*_listeners.get(), collector))
    try:
        yield collector.remarks
    finally:
        _listeners.reset(token)


@contextmanager
def muted() -> Generator[None]:
    """Drop the remarks of every pass run inside the block: it only tries something out."""
    token = _listeners.set(())
    try:
        yield
    finally:
        _listeners.reset(token)


def location_of(op: Operation) -> str:
    """`file:line:col` of `op`, or `-` if it carries no file location."""
    loc = file_location(op.location)
    return "-" if loc is None else f"{loc.filename.data}:{loc.line.data}:{loc.column.data}"


def node_of(op: Operation) -> str:
    """The node of a model that `op` comes from; empty where its location names none."""
    return op.location.desc.data if isinstance(op.location, NameLoc) else ""


def function_of(op: Operation) -> str:
    """The name of the function that `op` is in, or is; empty where there is none."""
    around: Operation | None = op
    while around is not None:
        if isinstance(around, FuncOp):
            return around.sym_name.data
        around = around.parent_op()
    return ""


def fired(pass_name: str, op: Operation, reason: str, verb: str = "rewritten") -> None:
    """Report that `pass_name` is about to rewrite, or has rewritten, `op`; or what else it did."""
    _emit(pass_name, op, True, reason, verb)


def refused(pass_name: str, op: Operation, reason: str) -> None:
    """Report that `pass_name` looked at `op` and left it, and why."""
    _emit(pass_name, op, False, reason)


def _emit(
    pass_name: str, op: Operation, did_fire: bool, reason: str, verb: str = "rewritten"
) -> None:
    listeners = _listeners.get()
    if not listeners:
        return
    place, function, node = location_of(op), function_of(op), node_of(op)
    remark = Remark(pass_name, op.name, place, did_fire, reason, function, verb, node)
    for collector in listeners:
        collector.add(remark)
