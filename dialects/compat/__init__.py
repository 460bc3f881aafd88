"""Every workaround for xDSL, each with its reason beside it.

`parser` reads what xDSL's parser does not; `install` adds verifiers, effects and corrections to
xDSL's op classes, which stay the classes that xDSL's own passes know.
"""

from __future__ import annotations

from functools import cache
from threading import Lock

_installing = Lock()


def install() -> None:
    """Correct xDSL's op classes in this process; calling it again does nothing."""
    with _installing:
        _install()


@cache
def _install() -> None:
    # Imported here so that importing convir changes no class of xDSL's.
    from convir.dialects.compat import (  # noqa: PLC0415
        builders,
        construction,
        corrections,
        effects,
        quick,
        verifiers,
    )

    builders.install()
    construction.install()
    corrections.install()
    effects.install()
    quick.install()
    verifiers.install()
