"""Every pass by name, imported only when it is used.

Passes of other packages are those of their entry points `xdsl.universe`.

A pass of ours stands in `CONVIR_PASSES` by its name alone: `some-pass` is the `ModulePass` with
`name = "some-pass"` in `convir/passes/some_pass.py`, or in `pass_.py` of the folder of that name.
Adding a pass is adding that one line. Those of `convir/lowering` stand in `LOWERING_PASSES` with
their room.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes

from convir.dialects.installed import installed_universe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CONVIR_PASSES: tuple[str, ...] = (
    "allow-tf32",
    "assign-layout",
    "batch-gemms",
    "bind-sizes",
    "canonicalize",
    "convert-conv-to-linalg",
    "convert-filter-to-channels-last",
    "convert-integer-conv-to-float",
    "convert-strided-insert-slice-to-generic",
    "cse",
    "dce",
    "decompose-strided-dgrad",
    "fold-constants",
    "inline",
    "swap-strided-insert-slice-with-contraction",
)
"""The names of our passes on tensors, in alphabetical order, one a line."""

LOWERING_PASSES: Mapping[str, str] = {
    "fuse-frames": "regions",
    "fuse-rows": "regions",
    "fuse-epilogue": "regions",
    "form-kernel-regions": "regions",
    "select-kernels": "selection",
    "partition-reduction": "selection",
    "assign-warp-roles": "selection",
    "outline-kernels": "regions",
    "convert-to-rt": "buffers",
    "plan-memory": "buffers",
}
"""The passes of `convir.lowering`, in the order that a module goes through them, each with its
room."""

_XDSL_PASSES = get_all_passes()


def load_pass(name: str) -> type[ModulePass]:
    """Import the class of the pass of ours called `name`.

    Raises:
        LookupError: its module defines no pass of that name.
    """
    room = f"lowering.{LOWERING_PASSES[name]}" if name in LOWERING_PASSES else "passes"
    module = import_module(f"convir.{room}.{name.replace('-', '_')}")
    if hasattr(module, "__path__"):
        module = import_module(f"{module.__name__}.pass_")
    for value in vars(module).values():
        if not isinstance(value, type) or value.__module__ != module.__name__:
            continue
        if issubclass(value, ModulePass) and getattr(value, "name", None) == name:
            return value
    raise LookupError(f"{module.__name__} defines no pass called {name!r}")


ALL_PASSES: Mapping[str, Callable[[], type[ModulePass]]] = {
    **_XDSL_PASSES,
    **{name: partial(load_pass, name) for name in (*CONVIR_PASSES, *LOWERING_PASSES)},
}
"""Pass name to a factory of its class: xDSL's passes and ours; ours win where both have one."""


def find_pass(name: str) -> Callable[[], type[ModulePass]] | None:
    """The factory of the pass called `name`, of ours, of xDSL or of another package."""
    return ALL_PASSES.get(name) or installed_universe().all_passes.get(name)


def installed_passes() -> tuple[str, ...]:
    """The names of the passes that other packages add, in alphabetical order."""
    return tuple(sorted(installed_universe().all_passes.keys() - ALL_PASSES.keys()))


NEW_PASSES: Mapping[str, Callable[[], type[ModulePass]]] = {
    name: ALL_PASSES[name]
    for name in (*CONVIR_PASSES, *LOWERING_PASSES)
    if name not in _XDSL_PASSES
}
"""Our passes that xDSL lacks: the ones that a stock `xdsl-opt` may be offered beside its own."""
