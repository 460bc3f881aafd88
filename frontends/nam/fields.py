"""Reading the objects of a JSON file: each field with its type, and errors that say where."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from convir.frontends.nam.errors import NamError

if TYPE_CHECKING:
    from collections.abc import Mapping

_REQUIRED: Any = object()

LARGEST = 2**31 - 1
"""No width, size or dilation of a model is larger."""


@dataclass(frozen=True)
class Fields:
    """An object of the file, and where it stands in it."""

    file: str
    path: str
    values: Mapping[str, Any]
    _asked: set[str] = field(default_factory=set[str], compare=False)

    @staticmethod
    def of(file: str, path: str, value: Any) -> Fields:
        """`value`, which stands at `path`, as an object.

        Raises:
            NamError: it is none.
        """
        if not isinstance(value, dict):
            raise NamError(file, f"{path or 'the file'} is not an object")
        return Fields(file, path, cast("dict[str, Any]", value))

    def error(self, key: str, message: str) -> NamError:
        """An error about a field."""
        return NamError(self.file, f"{self.where(key)} {message}")

    def where(self, key: str) -> str:
        """The path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        """Whether there is such a field with anything but null in it."""
        self._asked.add(key)
        return self.values.get(key) is not None

    def refuse_others(self, *ignored: str) -> None:
        """Raise the error of a field that nothing asked for, and that is none of `ignored`."""
        for key in self.values:
            if key not in self._asked and key not in ignored:
                raise self.error(key, "is not a field that is supported")

    def raw(self, key: str, default: Any = _REQUIRED) -> Any:
        """Whatever stands there.

        Raises:
            NamError: nothing does, and there is no default.
        """
        self._asked.add(key)
        value = self.values.get(key)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise self.error(key, "is missing")
        return default

    def integer(self, key: str, default: int = _REQUIRED) -> int:
        """A whole number from 1 to `LARGEST`."""
        value = self.raw(key, default)
        if not _is_size(value):
            raise self.error(key, f"is {value!r}, no number of at least 1 and at most {LARGEST}")
        return value

    def number(self, key: str, default: float = _REQUIRED) -> float:
        """A finite number."""
        value = self.raw(key, default)
        if type(value) not in (int, float) or not _is_finite(value):
            raise self.error(key, f"is {value!r}, not a finite number")
        return float(value)

    def flag(self, key: str, default: bool = _REQUIRED) -> bool:
        """True or false."""
        value = self.raw(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"is {value!r}, neither true nor false")
        return value

    def text(self, key: str, default: str = _REQUIRED) -> str:
        """A string."""
        value = self.raw(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"is {value!r}, no string")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        """A list, not empty, of whole numbers from 1 to `LARGEST`."""
        values = self.array(key)
        if not values or not all(map(_is_size, values)):
            message = f"no list of numbers of at least 1 and at most {LARGEST}"
            raise self.error(key, f"is {values!r}, {message}")
        return tuple(values)

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of finite numbers."""
        values = self.array(key)
        if any(type(value) not in (int, float) or not _is_finite(value) for value in values):
            raise self.error(key, "holds something that is not a finite number")
        return tuple(map(float, values))

    def array(self, key: str) -> list[Any]:
        """A list."""
        value = self.raw(key)
        if not isinstance(value, list):
            raise self.error(key, "is not a list")
        return cast("list[Any]", value)

    def inner(self, key: str) -> Fields:
        """The object in a field."""
        return Fields.of(self.file, self.where(key), self.raw(key))

    def inners(self, key: str) -> list[Fields]:
        """The objects of the list in a field."""
        return [
            Fields.of(self.file, f"{self.where(key)}[{index}]", value)
            for index, value in enumerate(self.array(key))
        ]


def _is_size(value: Any) -> bool:
    return type(value) is int and 1 <= value <= LARGEST


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # An integer that no float holds.
        return False
