"""`--remarks=FILE.json`: what passes did or refused to do, as data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.cli.files.streams import write_output
from convir.cli.reports.reporter import located

if TYPE_CHECKING:
    from convir.dialects.diagnostics import Diagnostic
    from convir.passes.manager.remarks import Remark


@dataclass
class RemarkFile:
    """The remarks of one run, and what `--check-each` found, with unknown places as line 0.

    {"remarks": [{"pass", "op", "function", "file", "line", "column", "fired", "verb",
                  "reason"}],
     "checks": [{"file", "line", "column", "severity", "message"}]}
    """

    path: str
    remarks: list[Remark] = field(default_factory=list["Remark"])
    checks: list[Diagnostic] = field(default_factory=list["Diagnostic"])

    def write(self) -> None:
        """Write the file.

        Raises:
            UsageError: it cannot be written.
        """
        found = {
            "remarks": list(map(_remark, self.remarks)),
            "checks": list(map(_check, self.checks)),
        }
        write_output(self.path, json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _remark(remark: Remark) -> dict[str, object]:
    file, line, column = located(remark.location)
    return {
        "pass": remark.pass_name,
        "op": remark.op,
        "function": remark.function,
        "file": file,
        "line": line,
        "column": column,
        "fired": remark.fired,
        "verb": remark.verb,
        "reason": remark.reason,
    }


def _check(found: Diagnostic) -> dict[str, object]:
    return {
        "file": found.file,
        "line": found.line,
        "column": found.col,
        "severity": found.severity,
        "message": found.message,
    }
