"""FLOPs and bytes as people read them in remarks: small ones exact, large ones in three digits."""

from __future__ import annotations

_EXACT_BELOW = 10_000
_THOUSAND = 1000
_ROUNDS_UP = 999.5
"""What is written with four digits if it is rounded to three."""
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def flops_text(flops: int) -> str:
    """`240 FLOPs`, `83.9 GFLOP`."""
    return _text(flops, flops, "FLOPs", "FLOP")


def flops_change(before: int, after: int) -> str:
    """`240 -> 120 FLOPs`, `336 -> 83.9 GFLOP`: both in the unit of the larger one."""
    largest = max(before, after)
    return f"{_number(before, largest)} -> {_text(after, largest, 'FLOPs', 'FLOP')}"


def bytes_text(count: int) -> str:
    """`4096 bytes`, `25.2 MB` of 10^6 bytes each."""
    return _text(count, count, "bytes", "B")


def bytes_change(before: int, after: int) -> str:
    """`4096 -> 2048 bytes`, `246 -> 98.6 kB`: both in the unit of the larger one."""
    largest = max(before, after)
    return f"{_number(before, largest)} -> {_text(after, largest, 'bytes', 'B')}"


def _text(count: int, largest: int, exact: str, unit: str) -> str:
    prefix = _PREFIXES[_power(largest)]
    return f"{_number(count, largest)} {f'{prefix}{unit}' if prefix else exact}"


def _number(count: int, largest: int) -> str:
    """`count` in the unit that `largest` is written in."""
    power = _power(largest)
    return str(count) if power == 0 else f"{count / _THOUSAND**power:.3g}"


def _power(largest: int) -> int:
    """The power of 1000 that leaves `largest` below 999.5; 0 where it is written exactly."""
    if largest < _EXACT_BELOW:
        return 0
    power = 1
    while largest / _THOUSAND**power >= _ROUNDS_UP and power + 1 < len(_PREFIXES):
        power += 1
    return power
