"""`--pass-statistics`: what each pass did to a module, as a table on stderr."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.passes.manager.fixpoint import are_the_same, parts_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from convir.passes.manager.remarks import Remark

_HEADER = ("pass", "runs", "changed", "ops added", "rewritten", "not rewritten")


@dataclass
class _Counts:
    """What one pass did, in all its runs."""

    runs: int = 0
    changed: int = 0
    """Runs that left another module than they found."""
    added: int = 0
    """Operations after it minus operations before it."""
    fired: int = 0
    refused: int = 0


@dataclass
class Statistics:
    """Counts what the passes of all chunks do."""

    counts: dict[str, _Counts] = field(default_factory=dict[str, _Counts])
    _before: list[object] = field(default_factory=list[object])
    _ops_before: int = 0

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Remember what `module_pass` starts from."""
        self._before = parts_of(module)
        self._ops_before = _ops(module)

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Count one run of `module_pass`."""
        counts = self.counts.setdefault(module_pass.name, _Counts())
        counts.runs += 1
        counts.changed += not are_the_same(self._before, parts_of(module))
        counts.added += _ops(module) - self._ops_before

    def count_remarks(self, remarks: list[Remark]) -> None:
        """Count what the passes said of themselves."""
        for remark in remarks:
            counts = self.counts.setdefault(remark.pass_name, _Counts())
            counts.fired += remark.fired
            counts.refused += not remark.fired

    def print(self) -> None:
        """Print one row per pass, in the order of their first runs."""
        rows: list[tuple[str, ...]] = [_HEADER]
        for name, c in self.counts.items():
            numbers = (str(c.runs), str(c.changed), f"{c.added:+}", str(c.fired), str(c.refused))
            rows.append((name, *numbers))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for name, *cells in rows:
            numbers = "  ".join(map(str.rjust, cells, widths[1:]))
            sys.stderr.write(f"{name:<{widths[0]}}  {numbers}\n")


def _ops(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())
