"""`--list-passes`: what can stand in a pipeline."""

from __future__ import annotations

import sys

from xdsl.passes import get_pass_option_infos

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
    """The pass, its options and their defaults, and the first line of what it says of itself."""
    pass_class = ALL_PASSES[name]()
    options = " ".join(
        f"{option.name.replace('_', '-')}={option.default_value}"
        for option in get_pass_option_infos(pass_class)
    )
    summary = (pass_class.__doc__ or "").strip().partition("\n")[0]
    return f"{name}{{{options}}}: {summary}" if options else f"{name}: {summary}"
