"""`--timing`: where the wall time of a run went, as a table on stderr."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

START_UP = "start-up"
_MILLISECONDS = 1e3
_STARTTIME_FIELD = 19
"""Of /proc/self/stat, counted from the field after the command's name."""


def seconds_since_process_start() -> float:
    """The age of this process in seconds, in steps of a clock tick; 0 where it is unknown."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[_STARTTIME_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, ValueError, AttributeError):
        return 0.0


def print_timing(seconds: Mapping[str, float]) -> None:
    """Print one row per phase, in milliseconds and percent, and the total."""
    total = sum(seconds.values())
    rows = [*seconds.items(), ("total", total)]
    cells = [
        (name, f"{value * _MILLISECONDS:.1f}", f"{value / total:.1%}" if total else "-")
        for name, value in rows
    ]
    header = ("phase", "ms", "share")
    if sys.stderr.isatty():
        _print_rich(header, cells)
        return
    width = max(len(name) for name, *_ in cells)
    for name, milliseconds, share in (header, *cells):
        sys.stderr.write(f"{name:<{width}}  {milliseconds:>9}  {share:>6}\n")


def _print_rich(header: tuple[str, ...], cells: list[tuple[str, str, str]]) -> None:
    from rich.console import Console  # noqa: PLC0415  (only where a terminal shows it)
    from rich.table import Table  # noqa: PLC0415

    table = Table(*header[:1])
    for name in header[1:]:
        table.add_column(name, justify="right")
    for row in cells[:-1]:
        table.add_row(*row)
    table.add_section()
    table.add_row(*cells[-1])
    Console(stderr=True).print(table)
