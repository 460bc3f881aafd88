"""Plain data that grows evenly with one size: known for three sizes, written down for any other.

    growth = growth_of((f(7), f(8), f(9)), (7, 8, 9))
    growth.at(100)  # f(100), if every integer in it is `base + step * size`

Three neighbouring sizes tell apart what is even from what is rounded up to a multiple, and what is
the same at two sizes by chance. They prove nothing of an integer that a program computed in steps:
only shapes, strides and offsets belong here, which are linear in the size by what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from convir.analysis.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")


@dataclass(frozen=True)
class Growth(Generic[_T]):
    """A value for every size."""

    first: _T
    """At the first of the sizes that it was made from."""
    _at: Callable[[int], _T] | None
    """None where it is the same at every size."""

    @property
    def grows(self) -> bool:
        """Whether it depends on the size."""
        return self._at is not None

    def at(self, size: int) -> _T:
        """The value."""
        return self.first if self._at is None else self._at(size)


def growth_of(samples: Sequence[_T], sizes: Sequence[int]) -> Growth[_T] | Refusal:
    """What `samples` are at any size, or why that cannot be said.

    Args:
        samples: integers, tuples, frozen dataclasses of these, and what is equal in all samples.
        sizes: the size of each sample; three or more, all different.
    """
    first: Any = samples[0]
    if all(type(each) is type(first) for each in samples):
        if type(first) is int:
            return _of_integers(cast("Any", samples), sizes)
        if isinstance(first, tuple):
            return _of_tuples(cast("Any", samples), sizes)
        if is_dataclass(cast("object", first)) and first.__dataclass_params__.frozen:
            return _of_dataclasses(samples, sizes)
    if all(each == first for each in samples):
        return Growth(first, None)
    return Refusal(f"{first!r} becomes {next(each for each in samples if each != first)!r}")


def _of_integers(samples: Sequence[int], sizes: Sequence[int]) -> Any:
    step, rest = divmod(samples[1] - samples[0], sizes[1] - sizes[0])
    base = samples[0] - step * sizes[0]
    if rest or any(base + step * at != each for each, at in zip(samples, sizes, strict=True)):
        return Refusal(f"a number is not linear: {', '.join(map(str, samples))}")
    return Growth(samples[0], (lambda size: base + step * size) if step else None)


def _of_tuples(samples: Sequence[tuple[Any, ...]], sizes: Sequence[int]) -> Any:
    first = samples[0]
    if len({len(each) for each in samples}) > 1:
        return Refusal(f"{len(first)} values do not stay as many")
    parts = [growth_of(values, sizes) for values in zip(*samples, strict=True)]
    refused = next((part for part in parts if isinstance(part, Refusal)), None)
    if refused is not None:
        return refused
    grown = cast("list[Growth[Any]]", parts)
    if not any(part.grows for part in grown):
        return Growth(first, None)
    return Growth(first, lambda size: tuple([part.at(size) for part in grown]))


def _of_dataclasses(samples: Sequence[Any], sizes: Sequence[int]) -> Any:
    first = samples[0]
    grown: dict[str, Growth[Any]] = {}
    for field in fields(first):
        if not field.init:  # What it remembers of the others.
            continue
        part = growth_of([getattr(each, field.name) for each in samples], sizes)
        if isinstance(part, Refusal):
            return Refusal(f"{type(first).__name__}.{field.name}: {part.reason}")
        if part.grows:
            grown[field.name] = part
    if not grown:
        return Growth(first, None)
    return Growth(
        first, lambda size: replace(first, **{name: part.at(size) for name, part in grown.items()})
    )
