"""What is said where a call of a graph has no spelling."""

from __future__ import annotations


class UnsupportedError(Exception):
    """A call that the front end does not take; the text says why."""
