"""What is linear in a size is known for every size; anything else is a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pytest

from convir.analysis.refusal import Refusal
from convir.runtime.batches.growth import growth_of

if TYPE_CHECKING:
    from collections.abc import Callable

Made: TypeAlias = "Callable[[int], object]"

pytestmark = pytest.mark.fast

SIZES = (7, 8, 9)


@dataclass(frozen=True)
class Row:
    size: int
    name: str = "row"
    parts: tuple[int, ...] = ()


def grown(made: Made, at: int) -> object:
    growth = growth_of([made(size) for size in SIZES], SIZES)
    return growth if isinstance(growth, Refusal) else growth.at(at)


LINEAR: list[Made] = [
    lambda size: 5,
    lambda size: 3 * size - 2,
    lambda size: (size, "a", (4 * size,)),
    lambda size: Row(2 * size, "b", (1, size)),
    lambda size: {"not looked into": 1},
    lambda size: True,
]


@pytest.mark.parametrize("made", LINEAR)
def test_sizes_at_any_batch(made: Made) -> None:
    for at in (1, 8, 1000):
        assert grown(made, at) == made(at)


def test_what_does_not_grow_stays_the_same_object() -> None:
    row = Row(3)
    growth = growth_of([row, Row(3), Row(3)], SIZES)
    assert not isinstance(growth, Refusal)
    assert not growth.grows
    assert growth.at(100) is row


OTHERS: list[tuple[Made, str]] = [
    (lambda size: size * size, "not linear: 49, 64, 81"),
    (lambda size: -(-size // 8), "not linear: 1, 1, 2"),
    (lambda size: (0,) * size, "7 values do not stay as many"),
    (lambda size: 1.0 / size, "becomes 0.125"),
    (lambda size: Row(0, "ab"[size % 2]), "Row.name: 'b' becomes 'a'"),
    (lambda size: size == 7, "True becomes False"),
    (lambda size: size if size == 7 else "many", "7 becomes 'many'"),
]


@pytest.mark.parametrize(("made", "reason"), OTHERS)
def test_what_is_not_known(made: Made, reason: str) -> None:
    refused = grown(made, 1)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason
