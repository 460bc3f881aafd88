"""Every workaround for xDSL, each with its reason beside it.

`parser` reads what xDSL's parser does not; `install` adds verifiers, effects and corrections to
xDSL's op classes, which stay the classes that xDSL's own passes know.
"""

from __future__ import annotations

from functools import cache


@cache
def install() -> None:
    """Correct xDSL's op classes in this process; calling it again does nothing."""
    # Imported here so that importing convir changes no class of xDSL's.
    from convir.dialects.compat import corrections, effects, verifiers  # noqa: PLC0415

    corrections.install()
    effects.install()
    verifiers.install()
