"""Predicted times of GPU kernels beside all recorded measurements.

    python benchmarks/predictions.py [FILE.jsonl…] [--json FILE]

Reads tuning records (default: those that are shipped, and `results/candidates/*.jsonl`) of the GPU
that kernels are planned for by default, and needs no GPU. Per family: how far predictions are from
what was measured, as the median and the 95th percentile of |log(predicted / measured)|. Per file:
on how many lines the config that `select-kernels` chooses without records takes at most 5 % and
15 % longer than the fastest one that was measured, and on how many another family is more than 1.5
times as fast as the chosen one; beside it the same of the config that a record has first, which was
the choice when it was measured. Lines whose chosen config was not measured are counted apart.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from math import exp, inf, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convir.cli.jobs.bench_problems import module_of, pipeline_of, problems_of
from convir.dialects.kernel import ops as kernel
from convir.frontends.miopen import parse_line
from convir.lowering.implementations import CUDA, GEMM, config_of
from convir.lowering.kernels.library import predict as library
from convir.lowering.kernels.registry import family_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.selection.kernel_candidates import Candidates
from convir.lowering.selection.records.read import read_records, shipped_file
from convir.lowering.selection.records.record import Record, machine_of
from convir.lowering.selection.tune import tunable
from convir.passes import run
from convir.runtime.bench.row import OURS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from convir.lowering.kernels.protocol import Problem

_log = logging.getLogger(__name__)

CANDIDATES = Path(__file__).parent / "results" / "candidates"
NEAR, FAR = 1.05, 1.15
"""Times of a choice over the best one's."""
CLIFF = 1.5
"""How much faster another family is where a choice of families is wrong."""
UNNAMED = replace(DEFAULT_TARGET, name="")
"""The same GPU, of which there are no records."""


@dataclass(frozen=True)
class Measured:
    """A kernel whose configs were measured."""

    line: str
    problem: Problem
    us: dict[str, float]
    """Medians by config, in the order of the record; configs that are not legal are left out."""
    chosen: str
    """What `select-kernels` chooses without records."""


def measured_in(file: Path) -> Iterator[Measured]:
    """The kernels of a file of tuning records whose lines are still what they were."""
    for record in read_records(file):
        if record.machine != machine_of(DEFAULT_TARGET):
            continue
        selected = _selected(record)
        if selected is None:
            _log.warning("%s: no kernel of it has the record's signature", record.problem)
            continue
        found, chosen = selected
        us: dict[str, float] = {}
        for each in record.measurements:
            refusal = None if each.us is None else found.refusal(each.config)
            if refusal is not None:
                _log.warning("%s: '%s': %s", record.problem, each.config, refusal.reason)
            elif each.us is not None:
                us[each.config] = each.us[0]
        if us:
            yield Measured(record.problem, found.problem, us, chosen)


def _selected(record: Record) -> tuple[Candidates, str] | None:
    """What may stand for the kernel of a record, and what is chosen without it."""
    for problem in problems_of([parse_line(record.problem)]):
        for allow_tf32 in (False, True):
            module = run(module_of(problem), pipeline_of(OURS, allow_tf32=allow_tf32)).module
            selected = tunable(module, UNNAMED)
            regions = [op for op in selected.module.walk() if isinstance(op, kernel.RegionOp)]
            for each in selected.kernels:
                found = each.candidates
                if isinstance(found, Candidates) and found.signature == record.signature:
                    return found, config_of(regions[each.regions[0]], CUDA) or ""
    return None


def family_name(config: str) -> str:
    """The first word of a config."""
    return config.partition(" ")[0]


def predicted(problem: Problem, config: str) -> float:
    """The predicted time of a legal config in µs.

    Raises:
        ValueError: the text is not a config.
    """
    if config == GEMM:
        return library.predict(problem.contraction, problem.epilogue, DEFAULT_TARGET)
    family = family_of(config)
    if family is None:
        raise ValueError(f"there is no family of '{config}'")
    return family.predict(problem, family.parse(config), DEFAULT_TARGET)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def errors_by_family(kernels: Iterable[Measured]) -> dict[str, list[float]]:
    """|log(predicted / measured)| of every config, by family."""
    found: dict[str, list[float]] = defaultdict(list)
    for each in kernels:
        for config, us in each.us.items():
            error = abs(log(predicted(each.problem, config) / us))
            found[family_name(config)].append(error)
    return found


def choices(kernels: Sequence[Measured], *, by_prediction: bool) -> dict[str, Any]:
    """How good the choices are over what was measured: shares of lines, and counts."""
    ratios: list[float] = []
    cliffs: list[str] = []
    for each in kernels:
        chosen = each.chosen if by_prediction else next(iter(each.us))
        us = each.us.get(chosen)
        if us is None:
            continue
        ratios.append(us / min(each.us.values()))
        name = family_name(chosen)
        others = [t for config, t in each.us.items() if family_name(config) != name]
        if others and us > CLIFF * min(others):
            cliffs.append(each.line)
    unmeasured = len(kernels) - len(ratios)
    ratios = ratios or [inf]
    count = len(ratios)
    return {
        "not measured": unmeasured,
        "within 5 %": round(sum(ratio <= NEAR for ratio in ratios) / count, 3),
        "within 15 %": round(sum(ratio <= FAR for ratio in ratios) / count, 3),
        "geomean": round(exp(sum(map(log, ratios)) / count), 3),
        "worst": round(max(ratios), 2),
        "another family 1.5x faster": len(cliffs),
        "cliffs": cliffs,
    }


def summary(files: dict[str, list[Measured]]) -> dict[str, Any]:
    """All figures, for JSON."""
    everything = [kernel for kernels in files.values() for kernel in kernels]
    families = {
        name: {
            "configs": len(errors),
            "median": round(exp(quantile(errors, 0.5)) - 1, 3),
            "p95": round(exp(quantile(errors, 0.95)), 2),
        }
        for name, errors in sorted(errors_by_family(everything).items())
    }
    by_file = {
        name: {
            "lines": len(kernels),
            "predicted": choices(kernels, by_prediction=True),
            "first": choices(kernels, by_prediction=False),
        }
        for name, kernels in files.items()
        if kernels
    }
    return {"target": DEFAULT_TARGET.name, "families": families, "files": by_file}


def table(found: dict[str, Any]) -> str:
    """The same as text."""
    lines = [f"{'family':<20} {'configs':>7} {'median error':>12} {'p95':>6}"]
    for name, row in found["families"].items():
        lines.append(f"{name:<20} {row['configs']:>7} {row['median']:>12.1%} {row['p95']:>5.2f}x")
    lines.append("")
    lines.append(f"{'file':<40} lines choice    unmeasured <=5 % <=15 % geomean worst  >1.5x")
    for name, row in found["files"].items():
        for what in ("predicted", "first"):
            each = row[what]
            lines.append(
                f"{name:<40} {row['lines']:>5} {what:<9} {each['not measured']:>10} "
                f"{each['within 5 %']:>5.1%} "
                f"{each['within 15 %']:>6.1%} {each['geomean']:>7.3f} {each['worst']:>5.2f} "
                f"{each['another family 1.5x faster']:>6}"
            )
    return "\n".join(lines)


def default_files() -> list[Path]:
    """The records that are shipped, and what candidates took."""
    shipped = shipped_file(machine_of(DEFAULT_TARGET))
    return [*([shipped] if shipped.exists() else []), *sorted(CANDIDATES.glob("*.jsonl"))]


def main() -> int:
    """Print the tables, and write the JSON."""
    parser = argparse.ArgumentParser(description="Hold predictions against measurements.")
    parser.add_argument("files", type=Path, nargs="*", help="tuning records")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    files: list[Path] = options.files or default_files()
    found = summary({file.name: list(measured_in(file)) for file in files})
    print(table(found))
    if options.json is not None:
        text = json.dumps(found, indent=1, ensure_ascii=False)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
