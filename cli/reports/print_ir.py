"""`--print-ir-…`: the module before and after passes, on stderr or in a tree of files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import UsageError
from convir.cli.files.streams import write_output
from convir.dialects.nearest import did_you_mean
from convir.passes.manager.registry import ALL_PASSES, find_pass

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from pathlib import Path

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


@dataclass(frozen=True)
class Moments:
    """When the module is printed."""

    before_all: bool
    after_all: bool
    after_change: bool
    """After passes that changed the module, and no others."""
    before: frozenset[str]
    """The names of passes before which it is printed."""
    after: frozenset[str]
    """The names of passes after which it is printed."""

    @staticmethod
    def of(options: Namespace) -> Moments | None:
        """What a command line asks for, or None where it asks for nothing.

        A tree of files without a moment is one of what every pass left.

        Raises:
            UsageError: there is no pass of a name that stands there.
        """
        for name in (*options.print_ir_before, *options.print_ir_after):
            if find_pass(name) is None:
                near = did_you_mean(name, ALL_PASSES)
                raise UsageError(
                    f"--print-ir-before, --print-ir-after: unknown pass '{name}'{near}"
                )
        moments = Moments(
            options.print_ir_before_all,
            options.print_ir_after_all,
            options.print_ir_after_change,
            frozenset(options.print_ir_before),
            frozenset(options.print_ir_after),
        )
        if moments != NEVER:
            return moments
        return None if options.print_ir_tree_dir is None else Moments.after_every_pass()

    @staticmethod
    def after_every_pass() -> Moments:
        """After every pass, changed or not."""
        return Moments(False, True, False, frozenset(), frozenset())


NEVER = Moments(False, False, False, frozenset(), frozenset())


@dataclass
class PrintIR:
    """Prints the module before and after passes, headed as mlir-opt heads it."""

    text_of: Callable[[ModuleOp], str]
    moments: Moments
    folder: Path | None = None
    """Where each print is a file `NUMBER_PASS.mlir`; stderr if None."""
    _text_before: str = ""
    _printed: int = 0

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Print, or remember, what `module_pass` starts from."""
        if self.moments.before_all or module_pass.name in self.moments.before:
            self._dump("Before", module_pass, self.text_of(module))
        if self.moments.after_change:
            self._text_before = self.text_of(module)

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Print what `module_pass` made, unless only changes are wanted and there is none."""
        moments = self.moments
        is_named = module_pass.name in moments.after
        # As in MLIR, `after_change` restricts what is asked for; alone it is about every pass.
        if not (moments.after_all or is_named or (moments.after_change and not moments.after)):
            return
        text = self.text_of(module)
        if not moments.after_change or text != self._text_before:
            self._dump("After", module_pass, text)

    def _dump(self, when: str, module_pass: ModulePass, text: str) -> None:
        heading = f"// -----// IR Dump {when} {module_pass} //----- //\n"
        if self.folder is None:
            sys.stderr.write(f"{heading}{text}\n")
            return
        path = self.folder / f"{self._printed}_{module_pass.name}.mlir"
        write_output(str(path), f"{heading}{text}")
        self._printed += 1
