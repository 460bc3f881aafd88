"""`--list-passes`: what can stand in a pipeline."""

from __future__ import annotations

import sys

from convir.passes.pipelines import PIPELINES
from convir.passes.registry import ALL_PASSES, CONVIR_PASSES


def print_passes() -> int:
    """Print our pipelines and passes, each with what it does, then the names of xDSL's passes."""
    sys.stdout.write("pipelines:\n")
    for name, passes in PIPELINES.items():
        sys.stdout.write(f"  {name}: {','.join(map(str, passes))}\n")
    sys.stdout.write("passes:\n")
    for name in CONVIR_PASSES:
        sys.stdout.write(f"  {name}: {_summary(name)}\n")
    sys.stdout.write("passes of xDSL:\n")
    for name in sorted(ALL_PASSES.keys() - set(CONVIR_PASSES)):
        sys.stdout.write(f"  {name}\n")
    return 0


def _summary(name: str) -> str:
    """The first line of what the pass says about itself."""
    return (ALL_PASSES[name]().__doc__ or "").strip().partition("\n")[0]
