"""`convir-run`: a module and arrays in, results out.

What the results are goes to stdout, everything else to stderr. The exit status is 0, 1 after a
diagnostic or a failed check, and 2 where the command line is wrong.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from convir.cli.arguments.run import TOOL, parse_arguments
from convir.cli.files.streams import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool on `argv`, by default the process's own arguments; returns its exit status."""
    return guarded(TOOL, sys.argv[1:] if argv is None else argv, _main)


def _main(argv: Sequence[str]) -> int:
    options = parse_arguments(argv)
    from convir.dialects.compat import startup  # noqa: PLC0415  (xDSL takes a while to import)

    startup.install()
    from convir.cli.jobs.run_job import run_file  # noqa: PLC0415  (so does NumPy)

    return run_file(options)


if __name__ == "__main__":
    sys.exit(main())
