"""What other installed packages offer: dialects and passes, by the entry point `xdsl.universe`.

It is the entry point that `xdsl-opt` reads. It is looked at where a name is met that neither xDSL
nor convir knows, since finding the installed packages takes longer than parsing a small module.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from xdsl.universe import Universe

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from xdsl.ir import Dialect

GROUP = "xdsl.universe"

_BUILT_IN = ("xdsl", "convir")
"""The names of the entry points of xDSL and convir themselves."""

_log = logging.getLogger(__name__)


@cache
def installed_universe() -> Universe:
    """The dialects and passes of all packages but xDSL and convir, found once.

    A package that cannot be loaded, or whose entry point is no `Universe`, is left out with a
    warning. Of two packages that offer one name the first in alphabetical order is taken, with a
    warning too.
    """
    merged = Universe()
    for package, universe in _universes():
        for name, dialect in universe.all_dialects.items():
            if _is_new(name, package, "dialect", merged.all_dialects):
                merged.all_dialects[name] = dialect
        for name, one in universe.all_passes.items():
            if _is_new(name, package, "pass", merged.all_passes):
                merged.all_passes[name] = one
    return merged


def _universes() -> Iterator[tuple[str, Universe]]:
    from importlib.metadata import entry_points  # noqa: PLC0415  (takes 50 ms)

    for found in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if found.name in _BUILT_IN:
            continue
        try:
            universe = found.load()
        except Exception as error:
            _log.warning("the package behind %s cannot be loaded: %s", found, error)
            continue
        if isinstance(universe, Universe):
            yield found.name, universe
        else:
            _log.warning("%s is no xdsl.universe.Universe", found)


def _is_new(name: str, package: str, kind: str, known: Container[str]) -> bool:
    if name in known:
        _log.warning("the %s '%s' of %s is that of another package already", kind, name, package)
    return name not in known


class RegisteredDialects(dict[str, "Callable[[], Dialect]"]):
    """The dialects of a context, with those of other packages from the first unknown name on."""

    _has_all = False

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        if self._has_all:
            return False
        self.add_installed()
        return super().__contains__(name)

    def add_installed(self) -> None:
        """Add the dialects of other packages; a name that is known stays what it is."""
        self._has_all = True
        for name, dialect in installed_universe().all_dialects.items():
            self.setdefault(name, dialect)

    def copy(self) -> RegisteredDialects:
        """A copy that finds other packages likewise."""
        copied = RegisteredDialects(self)
        copied._has_all = self._has_all
        return copied
