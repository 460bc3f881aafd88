"""What watches a pipeline from the command line: printing remarks and the IR."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from xdsl.printer import Printer

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from convir.passes.manager.remarks import Remark


def module_text(module: ModuleOp, ctx: Context, *, generic: bool = False) -> str:
    """The text of `module` with the resources of `ctx`'s dialects, ending in one newline."""
    stream = StringIO()
    printer = Printer(stream=stream, print_generic_format=generic)
    printer.print_op(module)
    printer.print_metadata(ctx.loaded_dialects)
    stream.write("\n")
    return stream.getvalue()


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


@dataclass
class PrintIR:
    """Prints the module to stderr before and after passes, headed as mlir-opt heads it."""

    text_of: Callable[[ModuleOp], str]
    before_all: bool
    after_all: bool
    after_change: bool
    _text_before: str = ""

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Print, or remember, what `module_pass` starts from."""
        if self.before_all:
            self._dump("Before", module_pass, self.text_of(module))
        if self.after_change:
            self._text_before = self.text_of(module)

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Print what `module_pass` made, unless only changes are wanted and there is none."""
        if not self.after_all and not self.after_change:
            return
        text = self.text_of(module)
        if self.after_all or text != self._text_before:
            self._dump("After", module_pass, text)

    def _dump(self, when: str, module_pass: ModulePass, text: str) -> None:
        sys.stderr.write(f"// -----// IR Dump {when} {module_pass} //----- //\n{text}\n")
