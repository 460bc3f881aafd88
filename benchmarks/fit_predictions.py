"""Fit the constants of the families' predictions to recorded measurements.

    python benchmarks/fit_predictions.py [FAMILY…] [--records FILE…] [--rounds N] [--write]

A search along one constant after the other for the least sum of squared errors of the logarithm,
linear past a factor of 1.6; the order of the configs of a problem counts twice. Each problem counts
alike, and its fast configs more. What a choice by the predictions costs counts beside that: how
much longer than the fastest config of any family the one takes that is predicted to be the fastest,
expected over predictions that err by a few percent. `FIXED` of a family's `predict.py` names the
constants that are not fitted, and `BOUNDS` says what the others keep within. `--write` rewrites the
constants there. `layout_conversion` is fitted before `sm80_implicit_gemm` and `few_input_channels`,
which copy operands too, and `wgmma` before `block_diagonal`. Needs no GPU.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from importlib import import_module
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from predictions import default_files, family_name, measured_in, predicted, quantile

from convir.lowering.implementations import GEMM
from convir.lowering.kernels.cuda.block_diagonal.family import (
    BlockDiagonalConfig,
    as_one_group,
    block_diagonal_of,
)
from convir.lowering.kernels.cuda.layout_conversion.copies import copied
from convir.lowering.kernels.cuda.layout_conversion.family import LayoutConversionConfig
from convir.lowering.kernels.cuda.layout_conversion.predict import copy_work
from convir.lowering.kernels.protocol import Problem
from convir.lowering.kernels.registry import FAMILIES, family_of
from convir.lowering.kernels.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from predictions import Measured

ORDER = 2.0
"""How much more the order of a problem's configs counts than how long they take."""
FAST = 2.0
"""The power of a config's time, over the best one's, by which it counts less."""
MANY = 0.7
"""The power of the number of a problem's configs by which each counts less."""
LINEAR, LINEAR_ORDER = 0.5, 0.3
"""Errors of the logarithm past which they count linearly."""
CHOICE = 4.0
"""How much more the logarithm of what a choice costs counts than a squared error."""
SHARPNESS = 30.0
"""The power of a predicted time by which a config is less probably chosen."""
FIRST_STEP, LAST_STEP = 0.3, 0.03
"""Of a constant's logarithm."""
DEFAULT_BOUNDS = {
    "dram": (0.9, 1.6),
    "dram_power": (2.0, 12.0),
    "power": (1.2, 12.0),
    "start": (0.3, 12.0),
}
FACTORS = ("layout_conversion", "block_diagonal")
"""Families over other ones."""


@dataclass(frozen=True)
class Sample:
    """A measured config of a family."""

    time: Callable[[Any], float]
    """µs by some constants."""
    us: float
    line: str
    weight: float


def module_of(family: str) -> ModuleType:
    """The module with a family's constants."""
    if family == GEMM:
        return import_module("convir.lowering.kernels.library.predict")
    if family in FACTORS:
        return import_module(f"convir.lowering.kernels.cuda.{family}.predict")
    found: Any = family_of(family)
    return import_module(found.time.__module__)


def time_by_constants(module: ModuleType, problem: Problem, config: str) -> Callable[[Any], float]:
    """What a config takes, as a function of the constants of its family's module."""
    if config == GEMM:
        work = module.work(problem.contraction, problem.epilogue)
        return lambda k: module.time_of(work, DEFAULT_TARGET, k)
    family = family_of(config)
    if family is None:
        raise ValueError(f"there is no family of '{config}'")
    parsed = family.parse(config)
    if isinstance(parsed, LayoutConversionConfig):
        moved, copies = copied(problem.contraction, parsed.operands)
        inner = predicted(Problem(moved, problem.epilogue), str(parsed.inner))
        works = [copy_work(copy) for copy in copies]
        return lambda k: module.time_of(inner, works, DEFAULT_TARGET, k)
    if isinstance(parsed, BlockDiagonalConfig):
        merge: Any = block_diagonal_of(problem.contraction)
        whole = Problem(as_one_group(problem.contraction, merge), problem.epilogue)
        inner = predicted(whole, str(parsed.inner))
        return lambda k: module.time_of(inner, merge.nbytes, DEFAULT_TARGET, k)
    work = module.work(problem.contraction, problem.epilogue, parsed, DEFAULT_TARGET)
    return lambda k: module.time_of(work, DEFAULT_TARGET, k)


def samples(family: str, kernels: Sequence[Measured]) -> list[Sample]:
    """What was measured of a family."""
    module = module_of(family)
    found: list[Sample] = []
    for kernel in kernels:
        mine = {c: us for c, us in kernel.us.items() if family_name(c) == family}
        for config, us in mine.items():
            weight = (min(mine.values()) / us) ** FAST / len(mine) ** MANY
            time = time_by_constants(module, kernel.problem, config)
            found.append(Sample(time, us, kernel.line, weight))
    return found


@dataclass(frozen=True)
class Line:
    """A problem that configs of several families compute."""

    mine: tuple[tuple[Callable[[Any], float], float], ...]
    """The family's configs: µs by some constants, and the logarithm of the measured time over the
    least one of all."""
    others: tuple[tuple[float, float], ...]
    """Those of other families: predicted µs, and the same."""


def lines(family: str, kernels: Sequence[Measured]) -> list[Line]:
    """The problems in which a family's predictions decide something."""
    module = module_of(family)
    found: list[Line] = []
    for kernel in kernels:
        best = min(kernel.us.values())
        mine: list[tuple[Callable[[Any], float], float]] = []
        others: list[tuple[float, float]] = []
        for config, us in kernel.us.items():
            if family_name(config) == family:
                mine.append((time_by_constants(module, kernel.problem, config), log(us / best)))
            else:
                others.append((predicted(kernel.problem, config), log(us / best)))
        if mine and len(mine) + len(others) > 1:
            found.append(Line(tuple(mine), tuple(others)))
    return found


def choice_loss(found: Sequence[Line], constants: Any) -> float:
    """What choices are expected to cost: the logarithm of their time over the best one's."""
    total = 0.0
    for line in found:
        times = [*((time(constants), cost) for time, cost in line.mine), *line.others]
        least = min(us for us, _ in times)
        chances = [((least / us) ** SHARPNESS, cost) for us, cost in times]
        total += sum(chance * cost for chance, cost in chances) / sum(
            chance for chance, _ in chances
        )
    return total / max(1, len(found))


def loss(found: Sequence[Sample], asked: Sequence[Line], constants: Any) -> float:
    """What is made least."""
    return sample_loss(found, constants) + CHOICE * choice_loss(asked, constants)


def sample_loss(found: Sequence[Sample], constants: Any) -> float:
    """How wrong times are, and their order."""
    total = weights = 0.0
    by_line: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for sample in found:
        error = log(sample.time(constants) / sample.us)
        total += sample.weight * _robust(error, LINEAR)
        weights += sample.weight
        by_line[sample.line].append((error, sample.weight))
    for errors in by_line.values():
        mean = sum(e * w for e, w in errors) / sum(w for _, w in errors)
        total += ORDER * sum(w * _robust(e - mean, LINEAR_ORDER) for e, w in errors)
    return total / weights


def _robust(error: float, linear: float) -> float:
    size = abs(error)
    return size * size if size < linear else 2 * linear * size - linear * linear


def fit(module: ModuleType, found: Sequence[Sample], asked: Sequence[Line], rounds: int) -> Any:
    """The constants that fit best, from those that there are."""
    constants = module.FITTED
    names = [f.name for f in fields(constants) if f.name not in getattr(module, "FIXED", ())]
    bounds = {**DEFAULT_BOUNDS, **getattr(module, "BOUNDS", {})}
    steps = dict.fromkeys(names, FIRST_STEP)
    least = loss(found, asked, constants)
    for _ in range(rounds):
        for name in names:
            before = least
            for sign in (1, -1):
                while True:
                    value = getattr(constants, name) * exp(sign * steps[name])
                    low, high = bounds.get(name, (1e-3, 1e9))
                    changed = replace(constants, **{name: value})
                    if (
                        not low <= value <= high
                        or (now := loss(found, asked, changed)) > least - 1e-7
                    ):
                        break
                    constants, least = changed, now
                if least < before:
                    break
            else:
                steps[name] /= 2
        if max(steps.values(), default=0.0) < LAST_STEP:
            break
    return constants


def write(module: ModuleType, constants: Any) -> None:
    """Rewrite the constants of a module."""
    path = Path(str(module.__file__))
    text = path.read_text(encoding="utf-8")
    for field in fields(constants):
        value = f"{getattr(constants, field.name):.4g}"
        value += "" if "." in value or "e" in value else ".0"
        text = re.sub(
            rf"(?m)^(    {field.name}: float = )[-+0-9.e]+", rf"\g<1>{value}", text, count=1
        )
    path.write_text(text, encoding="utf-8")


def report(what: str, found: Sequence[Sample], asked: Sequence[Line], constants: Any) -> str:
    """Median and 95th percentile of the errors, and what a choice costs."""
    errors = [abs(log(sample.time(constants) / sample.us)) for sample in found]
    median, p95 = exp(quantile(errors, 0.5)) - 1, exp(quantile(errors, 0.95))
    cost = exp(choice_loss(asked, constants)) - 1
    errors_said = f"{len(found):>5} configs, median {median:.1%}, p95 {p95:.2f}x"
    return f"{what:<28} {errors_said}, a choice costs {cost:.1%}"


def main() -> int:
    """Fit, print, and write if asked to."""
    names = [family.name for family in FAMILIES]
    parser = argparse.ArgumentParser(description="Fit predictions to measurements.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join([GEMM, *names]))
    parser.add_argument("--records", type=Path, nargs="*", help="files of tuning records")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    wanted: list[str] = options.families or [GEMM, *names]
    unknown = [name for name in wanted if name not in (GEMM, *names)]
    if unknown:
        parser.error(f"there is no family '{unknown[0]}'")
    files: list[Path] = options.records or default_files()
    kernels = [kernel for file in files for kernel in measured_in(file)]
    for name in wanted:
        module, found = module_of(name), samples(name, kernels)
        if not found:
            print(f"{name:<28} was not measured")
            continue
        asked = lines(name, kernels)
        print(report(f"{name} before", found, asked, module.FITTED))
        constants = fit(module, found, asked, options.rounds)
        print(report(f"{name} after", found, asked, constants), constants, sep="\n", flush=True)
        if options.write:
            write(module, constants)
    return 0


if __name__ == "__main__":
    sys.exit(main())
