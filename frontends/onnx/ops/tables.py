"""Tables that are computed when a model is imported: of indices, weights and counts."""

from __future__ import annotations

MAX_TABLE = 1 << 26
"""Entries: half a gigabyte of f64."""


def check_table(entries: float) -> None:
    """Refuse a table before it takes memory.

    Raises:
        ValueError: it has too many entries.
    """
    if not entries <= MAX_TABLE:
        raise ValueError(f"needs a table of {entries:g} entries, more than {MAX_TABLE}")
