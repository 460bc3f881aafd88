"""Tables that are computed when a model is imported: of indices, weights and counts."""

from __future__ import annotations

MAX_TABLE = 1 << 25
"""Entries: a quarter of a gigabyte of f64."""

INDEX_ENTRIES = 8
"""What one output index takes of a table: as many taps, and weights, as it may have."""


def check_table(entries: float) -> None:
    """Refuse a table before it takes memory.

    Raises:
        ValueError: it has too many entries.
    """
    if not entries <= MAX_TABLE:
        raise ValueError(f"needs a table of {entries:g} entries, more than {MAX_TABLE}")
