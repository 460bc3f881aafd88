"""Two results of `convir-bench --json` side by side: what became faster, slower, new or missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console
from rich.text import Text

from convir.cli.arguments.parser import UsageError
from convir.cli.files.bench_lines import canonical, short_name
from convir.cli.files.streams import EXIT_OK, read_input
from convir.runtime.bench.session import geomean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Record: TypeAlias = "Mapping[str, Any]"
Key: TypeAlias = tuple[str, str, str, str]
"""A problem in its one spelling, backend, layout and weights."""

_SAME_MACHINE = ("device", "cpu", "threads", "gpu", "driver", "clock")
"""What of the environment makes times comparable."""


def read_report(path: str) -> Record:
    """What `--json` wrote.

    Raises:
        UsageError: the file cannot be read, or is something else.
    """
    try:
        report = json.loads(read_input(path))
        rows = report["rows"]
        for row in rows:
            _key(row)
            if row["us"] is not None:
                all(row["us"][name] > 0 for name in ("median", "p20", "p80"))
        dict(report["environment"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--compare {path}: is not what convir-bench --json writes") from error
    return report


def print_comparison(old: Record, new: Record) -> int:
    """Print what changed; returns the exit status."""
    console = Console(highlight=False)
    for line in comparison(old, new):
        console.print(Text(line), soft_wrap=True)
    return EXIT_OK


def comparison(old: Record, new: Record) -> list[str]:
    """What changed, as lines of text."""
    before, after = _by_key(old["rows"]), _by_key(new["rows"])
    both = [key for key in before if key in after]
    timed = [key for key in both if _us(before[key]) is not None and _us(after[key]) is not None]
    lines = _environments(old["environment"], new["environment"])
    lines += _table([before[key] for key in timed], [after[key] for key in timed])
    lines += _means(before, after, timed)
    lines += [
        f"{what}: {_named(row)}: {row['failure']}"
        for key in both
        for what, row, other in (
            ("failed before", before[key], after[key]),
            ("fails now", after[key], before[key]),
        )
        if _us(row) is None and _us(other) is not None
    ]
    lines += [f"only in the old file: {_named(before[key])}" for key in before if key not in after]
    lines += [f"only in the new file: {_named(after[key])}" for key in after if key not in before]
    return lines


def _environments(old: Record, new: Record) -> list[str]:
    """Why times should not be compared, if they should not."""
    return [
        f"warning: {name} differs: {old.get(name)}, now {new.get(name)}"
        for name in _SAME_MACHINE
        if old.get(name) != new.get(name)
    ]


def _table(old: Sequence[Record], new: Sequence[Record]) -> list[str]:
    head = ("old µs", "new µs", "new/old", "")
    figures = [
        (
            f"{before['us']['median']:.1f}",
            f"{after['us']['median']:.1f}",
            f"{after['us']['median'] / before['us']['median']:.2f}",
            _verdict(before["us"], after["us"]),
        )
        for before, after in zip(old, new, strict=True)
    ]
    if not figures:
        return ["no row has a time in both files"]
    widths = [max(map(len, column)) for column in zip(head, *figures, strict=True)]

    def line(cells: tuple[str, ...], name: str) -> str:
        *numbers, verdict = zip(cells, widths, strict=True)
        texts = [text.rjust(size) for text, size in numbers]
        return "  ".join([*texts, verdict[0].ljust(verdict[1]), name])

    rows = [line(cells, _named(after)) for cells, after in zip(figures, new, strict=True)]
    return [line(head, "row"), *rows, ""]


def _verdict(old: Record, new: Record) -> str:
    """Whether a time changed by more than its spread."""
    if new["p80"] < old["p20"]:
        return "faster"
    return "slower" if new["p20"] > old["p80"] else "within the spread"


def _means(
    before: Mapping[Key, Record], after: Mapping[Key, Record], timed: Sequence[Key]
) -> list[str]:
    found: list[str] = []
    for backend in dict.fromkeys(key[1] for key in timed):
        ratios = [
            after[key]["us"]["median"] / before[key]["us"]["median"]
            for key in timed
            if key[1] == backend
        ]
        found.append(
            f"{backend}: geomean of new over old {geomean(ratios):.3f} of {len(ratios)} rows, "
            f"from {min(ratios):.2f} to {max(ratios):.2f} (below 1.0 = faster now)"
        )
    return found


def _by_key(rows: Sequence[Record]) -> dict[Key, Record]:
    return {_key(row): row for row in rows}


def _key(row: Record) -> Key:
    return canonical(row["line"]), row["backend"], row["layout"], row["weights"]


def _us(row: Record) -> Record | None:
    return row["us"]


def _named(row: Record) -> str:
    return f"{short_name(row['line'])}, {row['backend']} {row['layout']} {row['weights']}"
