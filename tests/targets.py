"""Every suite line on every target: what is selected, compiled by NVRTC for its architecture.

`make targets`, or `python tests/targets.py [--target NAME]… [--suite NAME]… [--jobs N]`; needs no
GPU. The table has a row for each target and family: contractions that the family takes, those that
it is selected for, those of them that compile, those that it refuses, and the commonest reason.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.passes import PassPipeline

from convir.analysis.refusal import Refusal
from convir.cli.jobs.bench_problems import module_of, pipeline_of, problems_of
from convir.dialects.context import new_context
from convir.frontends.miopen import parse_line, strip_comment
from convir.lowering.implementations import CUDA, config_of
from convir.lowering.kernel_code import cuda_plans
from convir.lowering.kernels.cuda.problem import read_problem
from convir.lowering.kernels.registry import FAMILIES
from convir.lowering.kernels.target import named, names
from convir.lowering.pipeline import lowering_passes
from convir.lowering.tensor_passes import passes_for
from convir.passes import run
from convir.passes.manager.pipeline_text import parse_pipeline
from convir.runtime.bench.row import OURS
from convir.runtime.compile_error import CompileError
from convir.runtime.cuda.toolchain.compile import compile_cubin

if TYPE_CHECKING:
    from convir.lowering.kernels.protocol import Problem
    from convir.lowering.kernels.target import Target

SUITES = Path(__file__).parents[1] / "benchmarks" / "suites"
LOOPS = "generated loops"
"""The row of kernels of no family."""
MOST_REASON = 70
"""Characters of a reason in the table."""


@dataclass
class Row:
    """One family on one target, counted in contractions."""

    taken: int = 0
    selected: int = 0
    compiled: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])

    def add(self, other: Row) -> None:
        """Count those of `other` too."""
        self.taken += other.taken
        self.selected += other.selected
        self.compiled += other.compiled
        self.refused += other.refused


def rows_of(line: str, target: str) -> tuple[dict[str, Row], list[str]]:
    """What each family does with a line's contractions on a target, and what does not compile."""
    gpu = named(target)
    rows = {name: Row() for name in (*(family.name for family in FAMILIES), LOOPS)}
    failures: list[str] = []
    for problem in problems_of([parse_line(line)]):
        passes = passes_for(CUDA, parse_pipeline(pipeline_of(OURS)), gpu)
        module = run(module_of(problem), passes).module
        PassPipeline(lowering_passes(CUDA, gpu=gpu)).apply(new_context(), module)
        for callee, plan in cuda_plans(module, gpu):
            found = read_problem(callee)
            if not isinstance(found, Refusal):
                _count(found, gpu, rows)
            config = config_of(callee, CUDA) or LOOPS
            row = rows.get(config.split()[0], rows[LOOPS])
            row.selected += 1
            try:
                for kernel in plan.kernels:
                    compile_cubin(kernel.source, gpu.arch)
            except CompileError as error:
                failures.append(f"{target}: {line}: '{config}': {error}")
            else:
                row.compiled += 1
    return rows, failures


def _count(problem: Problem, gpu: Target, rows: dict[str, Row]) -> None:
    """Which families take a problem, and why others do not."""
    for family in FAMILIES:
        configs = family.candidates(problem, gpu)
        if isinstance(configs, Refusal):
            rows[family.name].refused[configs.reason] += 1
        else:
            rows[family.name].taken += 1


def say(line: str) -> None:
    """Write a line of the table at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Print the table; 1 if anything does not compile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", choices=names())
    parser.add_argument("--suite", action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    suites = [SUITES / f"{name}.txt" for name in options.suite or ()] or sorted(
        SUITES.glob("*.txt")
    )
    texts = [strip_comment(line) for suite in suites for line in suite.read_text().splitlines()]
    lines = list(dict.fromkeys(line for line in texts if line.strip()))
    say(f"{'target':8}{'family':22}{'taken':>7}{'selected':>9}{'compiled':>9}{'refused':>8}  why")
    failed: list[str] = []
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for target in options.target or names():
            total: dict[str, Row] = {}
            for rows, failures in pool.map(partial(rows_of, target=target), lines):
                failed += failures
                for name, row in rows.items():
                    total.setdefault(name, Row()).add(row)
            for name, row in total.items():
                reason, count = next(iter(row.refused.most_common(1)), ("", 0))
                why = f"  {count}: {reason[:MOST_REASON]}" if count else ""
                numbers = f"{row.taken:7}{row.selected:9}{row.compiled:9}{row.refused.total():8}"
                say(f"{target:8}{name:22}{numbers}{why}")
    sys.stderr.writelines(f"{each}\n" for each in failed)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
