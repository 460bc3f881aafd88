"""What to tell a user about an exception that xDSL's parsers and verifiers let out."""

from __future__ import annotations

import struct

_INTERNAL = (AttributeError, IndexError, KeyError, TypeError, struct.error)
"""Exceptions whose text speaks of Python objects, not of the input."""


def reason_of(error: Exception) -> str:
    """One line about `error`; empty where all it says is of no use to a user."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, _INTERNAL):
        return ""
    reason = " ".join(str(error).split())
    # Python bounds the digits that it converts; its advice is for programmers.
    return "integer literal is too long" if "integer string conversion" in reason else reason
