"""What all convolutions of a network take: a suite's medians, times how often each line occurs.

    convir-bench --commands-file benchmarks/suites/resnet50-forward.txt --against onnxruntime \
      --json FILE
    python benchmarks/weighted_sums.py benchmarks/suites/resnet50-forward.txt FILE

A line of the suite stands behind a comment with its number of occurrences. One row per batch size
and backend: the number of convolutions, their time in ms (of the better layout, where there are
two), and the peer's over ours of the rows whose weights are given in the same way.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from math import inf
from pathlib import Path

from convir.frontends.miopen import parse_line
from convir.runtime.bench.row import OURS


def occurrences(suite: str) -> dict[str, int]:
    """How often each line of the text of a suite occurs."""
    found: dict[str, int] = {}
    count = 1
    for line in suite.splitlines():
        comment, text = line.startswith("#"), line.strip("# ")
        if comment and text.isdecimal():
            count = int(text)
        elif text and not comment:
            found[text] = count
    return found


def main() -> int:
    """Print the sums."""
    parser = argparse.ArgumentParser(description="Add up a network's convolutions.")
    parser.add_argument("suite", type=Path)
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    counts = occurrences(options.suite.read_text())
    best: dict[tuple[str, str, str], float] = {}
    totals: dict[tuple[int, str, str], float] = defaultdict(float)
    numbers: dict[tuple[int, str, str], int] = defaultdict(int)
    for row in json.loads(options.results.read_text())["rows"]:
        if row["us"] is None:
            print(f"{row['line']}: {row['backend']} failed: {row['failure']}", file=sys.stderr)
            return 1
        measured = row["line"], row["weights"], row["backend"]
        best[measured] = min(row["us"]["median"], best.get(measured, inf))
    for (line, weights, backend), us in best.items():
        (problem,) = parse_line(line).problems.values()
        key = problem.n, weights, backend
        totals[key] += counts[line] * us / 1e3
        numbers[key] += counts[line]
    for (batch, weights, backend), total in sorted(totals.items()):
        over = total / totals[batch, weights, OURS]
        print(
            f"batch {batch}: {numbers[batch, weights, backend]} convolutions, {backend}, "
            f"weights {weights}: {total:.1f} ms, {over:.2f} of ours"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
