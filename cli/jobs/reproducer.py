"""Reproducers: a file with the IR and the pipeline that a failure needs, as MLIR writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import UsageError
from convir.cli.files.streams import write_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

_PIPELINE = re.compile(rb'mlir_reproducer:\s*\{[^}]*?pipeline:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")


@dataclass
class Reproducer:
    """`--crash-reproducer`: keeps what the pass at work began with, for the case that it fails."""

    path: str
    text_of: Callable[[ModuleOp], str]
    _text: str = ""
    _pipeline: str = ""

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Keep what `module_pass` starts from."""
        self._text = self.text_of(module)
        self._pipeline = pipeline_text((module_pass,))

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Nothing: the pass did not fail, and the next one begins anew."""

    def write(self) -> None:
        """Write the file that `--run-reproducer` runs.

        Raises:
            UsageError: it cannot be written.
        """
        pipeline = self._pipeline.replace("\\", "\\\\").replace('"', '\\"')
        resources = (
            "{-#\n  external_resources: {\n    mlir_reproducer: {\n"
            f'      pipeline: "{pipeline}",\n'
            "      disable_threading: true,\n      verify_each: true\n    }\n  }\n#-}\n"
        )
        write_output(
            self.path, f"// convir-opt --run-reproducer {self.path}\n{self._text}{resources}"
        )


def pipeline_text(passes: tuple[ModulePass, ...]) -> str:
    """The pipeline of `passes`, anchored as in MLIR."""
    return f"builtin.module({','.join(map(str, passes))})"


def pipeline_of(data: bytes, name: str) -> str:
    """The pipeline that a reproducer runs.

    Raises:
        UsageError: the text of `name` is not a reproducer.
    """
    found = _PIPELINE.search(data)
    if found is None:
        raise UsageError(f"--run-reproducer: {name} names no pipeline: it is not a reproducer")
    return _ESCAPED.sub(r"\1", found[1].decode(errors="replace"))
