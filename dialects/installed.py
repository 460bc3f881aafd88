"""What other installed packages offer: dialects and passes, by the entry point `xdsl.universe`.

It is the entry point that `xdsl-opt` reads. A package is imported where a name is met that neither
xDSL nor convir knows.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from xdsl.universe import Universe

from convir.dialects.entry_points import UNIVERSES, installed

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from xdsl.ir import Dialect

_log = logging.getLogger(__name__)


@cache
def installed_universe() -> Universe:
    """The dialects and passes of all packages but xDSL and convir, found once.

    A package that cannot be loaded, or whose entry point is not a `Universe`, is left out with a
    warning. Of two packages that offer one name the first in alphabetical order is taken, with a
    warning too.
    """
    merged = Universe()
    for universe in installed(UNIVERSES, Universe):
        for name, dialect in universe.all_dialects.items():
            if _is_new(name, "dialect", merged.all_dialects):
                merged.all_dialects[name] = dialect
        for name, one in universe.all_passes.items():
            if _is_new(name, "pass", merged.all_passes):
                merged.all_passes[name] = one
    return merged


def _is_new(name: str, kind: str, known: Container[str]) -> bool:
    if name in known:
        _log.warning("several packages offer a %s '%s': the first one's is taken", kind, name)
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
