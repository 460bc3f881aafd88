"""FLOPs and bytes in remarks."""

from __future__ import annotations

import pytest

from convir.passes.manager.quantities import bytes_change, bytes_text, flops_change, flops_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 FLOPs"),
        (9999, "9999 FLOPs"),
        (10_000, "10 kFLOP"),
        (83_886_080_000, "83.9 GFLOP"),
        (999_499, "999 kFLOP"),
        (999_500, "1 MFLOP"),
        (5 * 10**21, "5e+03 EFLOP"),
    ],
)
def test_flops(count: int, text: str) -> None:
    assert flops_text(count) == text


def test_two_numbers_have_the_unit_of_the_larger_one() -> None:
    assert flops_change(240, 120) == "240 -> 120 FLOPs"
    assert flops_change(335_544_320_000, 83_886_080_000) == "336 -> 83.9 GFLOP"
    assert bytes_change(246_016, 98_560) == "246 -> 98.6 kB"


def test_bytes() -> None:
    assert bytes_text(4096) == "4096 bytes"
    assert bytes_text(25_165_824) == "25.2 MB"
