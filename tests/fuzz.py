"""Random functions through random passes, checked on the NumPy reference.

    python tests/fuzz.py --count 100000 --seed 1 --jobs 32
    python tests/fuzz.py --seed 1 --case 4711

Each case is a random function and what is done with it: passes with random options, a pipeline, the
lowering, or a whole compilation. What must hold: the results stay (equal bits where they are
exact), the IR stays valid, a second run changes nothing and says so, printing is stable, and
nothing ends in an error that names no place. Exit 1 if anything does not hold.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / ".link"), str(ROOT / "tests" / "support")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["CONVIR_PROGRAM_CACHE"] = "0"

from fuzzing.campaign import Campaign  # noqa: E402
from fuzzing.case import COMPILED, LOWERING  # noqa: E402
from fuzzing.verdicts import Kind, Tally  # noqa: E402

from convir.dialects.context import new_context  # noqa: E402
from convir.passes.manager.registry import CONVIR_PASSES  # noqa: E402
from convir.passes.pipelines import PIPELINES  # noqa: E402

SHOWN = 3
"""Failures of one cause that are printed with their text."""


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def report(campaign: Campaign, tally: Tally, seconds: float) -> None:
    """Print the counts, and each failure."""
    _print(
        f"seed {campaign.seed}: {tally.functions} functions, {sum(tally.runs.values())} runs of "
        f"passes, {tally.unchecked} not compared, {seconds:.0f} s "
        f"({1e3 * campaign.jobs * seconds / max(tally.functions, 1):.1f} ms a function and process)"
    )
    for name in sorted(tally.runs):
        _print(
            f"  {name}: {tally.runs[name]} runs, {tally.changed[name]} changed something, "
            f"{tally.refused[name]} refused"
        )
    shown = Counter[object]()
    for one in tally.findings:
        shown[one.failed] += 1
        if shown[one.failed] > SHOWN:
            continue
        _print(f"\n--seed {campaign.seed} --case {one.case}: {one.failed[0]}: {one.failed[1]}")
        _print(f"{one.what}\nafter: {one.passes}\n{one.text}")
    _print("")
    for kind in Kind:
        causes = {one.failed: one.case for one in tally.findings if one.failed[0] == kind}
        count = sum(one.failed[0] == kind for one in tally.findings)
        _print(f"{kind}: {count}" + (f" ({len(causes)} causes)" if causes else ""))
        for cause, case in causes.items():
            _print(f"  {shown[cause]} x {cause[1]}: {cause[2]} (case {case})")


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description="Random functions through random passes.")
    parser.add_argument("--count", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="only this case of the seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--passes", default="", help="only these passes, a pipeline, `lowering`, or `compile`"
    )
    parser.add_argument("--time", type=float, default=float("inf"), help="stop after SECONDS")
    options = parser.parse_args()
    listed: str = options.passes
    names = tuple(name for name in listed.split(",") if name)
    alone = (*PIPELINES, LOWERING, COMPILED)
    if (len(names) != 1 or names[0] not in alone) and not set(names) <= set(CONVIR_PASSES):
        parser.error(f"--passes: passes on tensors, or one of {', '.join(alone)}")
    faulthandler.enable()
    campaign = Campaign(options.seed, options.count, options.jobs, names, options.time)
    start, tally = time.monotonic(), Tally()
    if options.case is None:
        tally = campaign.run()
    else:
        ctx = new_context()
        program, work = campaign.drawn(options.case, ctx)
        _print(f"{program.text}\n// {work}\n")
        campaign.run_case(options.case, tally, ctx)
    report(campaign, tally, time.monotonic() - start)
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
