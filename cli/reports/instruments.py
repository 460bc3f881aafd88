"""What watches a pipeline from the command line: printing remarks, and counting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from convir.passes.manager.remarks import Remark


@dataclass
class PrintRemarks:
    """Reports the remarks of each pass when it is done."""

    report: Callable[[Remark], None]
    remarks: list[Remark]
    """All remarks so far; passes append to it."""
    _reported: int = 0

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Nothing: a pass that has not run has said nothing."""

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Report what `module_pass` said."""
        self.flush()

    def flush(self) -> None:
        """Report what has not been reported yet, as after a pass that failed."""
        for remark in self.remarks[self._reported :]:
            self.report(remark)
        self._reported = len(self.remarks)
