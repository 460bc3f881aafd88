"""`--list-passes`: what can stand in a pipeline."""

from __future__ import annotations

import sys

from convir.passes.manager.pipeline_text import with_defaults
from convir.passes.manager.registry import (
    ALL_PASSES,
    CONVIR_PASSES,
    LOWERING_PASSES,
    installed_passes,
)
from convir.passes.pipelines import PIPELINES


def print_passes() -> int:
    """Print our pipelines and passes, each with what it does, then the names of xDSL's passes."""
    sys.stdout.write("pipelines:\n")
    for name, passes in PIPELINES.items():
        sys.stdout.write(f"  {name}: {','.join(map(str, passes))}\n")
    sys.stdout.write("passes on tensors:\n")
    for name in CONVIR_PASSES:
        sys.stdout.write(f"  {_described(name)}\n")
    sys.stdout.write("lowering, in order:\n")
    for name in LOWERING_PASSES:
        sys.stdout.write(f"  {_described(name)}\n")
    sys.stdout.write("passes of xDSL:\n")
    for name in sorted(ALL_PASSES.keys() - {*CONVIR_PASSES, *LOWERING_PASSES}):
        sys.stdout.write(f"  {name}\n")
    if others := installed_passes():
        sys.stdout.write("passes of other packages:\n")
        for name in others:
            sys.stdout.write(f"  {name}\n")
    return 0


def _described(name: str) -> str:
    """The pass with the defaults of its options, which parses, and what it says of itself."""
    pass_class = ALL_PASSES[name]()
    summary = (pass_class.__doc__ or "").strip().partition("\n")[0]
    return f"{with_defaults(pass_class)}: {summary}"
