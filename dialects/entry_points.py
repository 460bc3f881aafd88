"""Entry points of other installed packages: passes, dialects and kernels that they add.

They are read from the packages' metadata as it lies on `sys.path`; `importlib.metadata` finds the
same, and takes longer to import than a small module takes to compile.
"""

from __future__ import annotations

import logging
import os
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

UNIVERSES: Final = "xdsl.universe"
"""Instances of `xdsl.universe.Universe`: dialects and passes, which `xdsl-opt` offers too."""
CUDA_KERNELS: Final = "convir.cuda_kernels"
"""Instances of `convir.lowering.kernels.cuda.family.Family`."""
HOST_KERNELS: Final = "convir.host_kernels"
"""Instances of `convir.lowering.kernels.host.family.Family`."""
GROUPS: Final = (UNIVERSES, CUDA_KERNELS, HOST_KERNELS)

_OWN = ("xdsl", "convir")
"""The top-level packages whose entry points are known without looking."""
_SUFFIXES = (".dist-info", ".egg-info")

T = TypeVar("T")

_log = logging.getLogger(__name__)


class EntryPoint(NamedTuple):
    """An object that another package offers."""

    name: str
    group: str
    module: str
    attribute: str

    @property
    def package(self) -> str:
        """The top-level package that holds the object."""
        return self.module.partition(".")[0]


@cache
def entry_points() -> tuple[EntryPoint, ...]:
    """What other packages offer in `GROUPS`, in alphabetical order, found once."""
    found = {point for folder in sys.path for point in _in_folder(folder or os.curdir)}
    return tuple(sorted(point for point in found if point.package not in _OWN))


def installed(group: str, kind: type[T]) -> tuple[T, ...]:
    """The objects of a group; what cannot be loaded is left out with a warning.

    Args:
        group: one of `GROUPS`.
        kind: what the objects must be instances of.
    """
    loaded: list[T] = []
    for point in entry_points():
        if point.group != group:
            continue
        try:
            value = getattr(import_module(point.module), point.attribute)
        except Exception as error:
            _log.warning("the entry point %s of %s cannot be loaded: %s", point.name, group, error)
            continue
        if isinstance(value, kind):
            loaded.append(value)
        else:
            _log.warning("the entry point %s of %s is not a %s", point.name, group, kind.__name__)
    return tuple(loaded)


def _in_folder(folder: str) -> Iterator[EntryPoint]:
    try:
        names = [name for name in os.listdir(folder) if name.endswith(_SUFFIXES)]
    except OSError:
        return
    for name in names:
        try:
            with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                text = file.read()
        except (OSError, ValueError):
            continue
        if any(group in text for group in GROUPS):
            yield from _in_text(text)


def _in_text(text: str) -> Iterator[EntryPoint]:
    group = ""
    for line in text.splitlines():
        name, equals, value = (part.strip() for part in line.partition("="))
        if name.startswith("[") and not equals:
            group = name.strip("[]").strip()
        elif equals and group in GROUPS:
            module, _, attribute = value.partition("[")[0].strip().partition(":")
            yield EntryPoint(name, group, module.strip(), attribute.strip())
