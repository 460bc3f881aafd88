"""convir's own dialects by name, imported only when they are used.

The dialect `some` is the `Dialect` with that name in `convir/dialects/some/ops.py`. Adding a
dialect is adding one line to `CONVIR_DIALECTS`.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from xdsl.ir import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def load_dialect(name: str) -> Dialect:
    """Import the dialect of ours called `name`.

    Raises:
        LookupError: its module defines no dialect of that name.
    """
    module = import_module(f"convir.dialects.{name}.ops")
    for value in vars(module).values():
        if isinstance(value, Dialect) and value.name == name:
            return value
    raise LookupError(f"{module.__name__} defines no dialect called {name!r}")


CONVIR_DIALECTS: Mapping[str, Callable[[], Dialect]] = {
    name: partial(load_dialect, name)
    for name in (
        "conv",
        "kernel",
        "rt",
    )
}
"""Dialect name to a factory of it: those that xDSL lacks."""


def _load_affine() -> Dialect:
    return import_module("convir.dialects.compat.affine").corrected()


OVERLAYS: Mapping[str, Callable[[], Dialect]] = {
    "affine": _load_affine,
    "linalg": partial(load_dialect, "linalg"),
}
"""Dialect name to a factory of it: xDSL's dialects with ops of ours among theirs."""
