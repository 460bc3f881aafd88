"""Reading the objects of a JSON file: each field with its type, and errors that say where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from convir.frontends.nam.errors import NamError

if TYPE_CHECKING:
    from collections.abc import Mapping

_REQUIRED: Any = object()


@dataclass(frozen=True)
class Fields:
    """An object of the file, and where it stands in it."""

    file: str
    path: str
    values: Mapping[str, Any]

    @staticmethod
    def of(file: str, path: str, value: Any) -> Fields:
        """`value`, which stands at `path`, as an object.

        Raises:
            NamError: it is none.
        """
        if not isinstance(value, dict):
            raise NamError(file, f"{path or 'the file'} is no object")
        return Fields(file, path, cast("dict[str, Any]", value))

    def error(self, key: str, message: str) -> NamError:
        """An error about a field."""
        return NamError(self.file, f"{self.where(key)} {message}")

    def where(self, key: str) -> str:
        """The path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        """Whether there is such a field with anything but null in it."""
        return self.values.get(key) is not None

    def raw(self, key: str, default: Any = _REQUIRED) -> Any:
        """Whatever stands there.

        Raises:
            NamError: nothing does, and there is no default.
        """
        value = self.values.get(key)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise self.error(key, "is missing")
        return default

    def integer(self, key: str, default: int = _REQUIRED, *, least: int = 1) -> int:
        """A whole number of at least `least`."""
        value = self.raw(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(key, f"is {value!r}, no number of at least {least}")
        return value

    def number(self, key: str, default: float = _REQUIRED) -> float:
        """A number."""
        value = self.raw(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.error(key, f"is {value!r}, no number")
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
        """A list, not empty, of numbers of at least 1."""
        values = self.array(key)
        if not values or any(type(value) is not int or value < 1 for value in values):
            raise self.error(key, f"is {values!r}, no list of numbers of at least 1")
        return tuple(values)

    def array(self, key: str) -> list[Any]:
        """A list."""
        value = self.raw(key)
        if not isinstance(value, list):
            raise self.error(key, "is no list")
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
