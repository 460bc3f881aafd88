"""`convir-opt`: IR in, passes over it, IR out.

IR goes to stdout and everything else to stderr. The exit status is 0, 1 after a diagnostic, and
2 where the command line is wrong.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from convir.cli.arguments.opt import TOOL, parse_arguments
from convir.cli.files.streams import guarded
from convir.cli.process import run_process

if TYPE_CHECKING:
    from collections.abc import Sequence

# What only some runs need is imported where they need it: a short run is mostly imports.


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool on `argv` and return its exit status.

    By default this is the whole process: its own arguments, and no return.
    """
    if argv is not None:
        return guarded(TOOL, argv, _main)
    return run_process(
        lambda: guarded(TOOL, sys.argv[1:], lambda args: _main(args, owns_process=True))
    )


def _main(argv: Sequence[str], *, owns_process: bool = False) -> int:
    options = parse_arguments(argv)
    if options.list_passes:
        from convir.cli.reports.list_passes import print_passes  # noqa: PLC0415

        return print_passes()
    if options.show_dialects:
        from convir.dialects.context import dialect_names  # noqa: PLC0415

        sys.stdout.write(f"Available Dialects: {', '.join(dialect_names())}\n")
        return 0
    from convir.dialects.compat import startup  # noqa: PLC0415

    startup.install()
    from convir.cli.jobs.opt_job import process_file  # noqa: PLC0415

    return process_file(options, owns_process=owns_process)


if __name__ == "__main__":
    sys.exit(main())
