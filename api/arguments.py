"""What callers of `convir.compile` and `convir.stream` pass, checked before any work is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from types import UnionType


def check_integer(name: str, value: Any, least: int, *, optional: bool = False) -> None:
    """Refuse what is not an integer of at least `least`, nor None where `optional`.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is too small.
    """
    if value is None and optional:
        return
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} is {_described(value)}, not an integer")
    if int(value) < least:
        raise ValueError(f"{name} is {value}, not at least {least}")


def check_fraction(name: str, value: Any) -> None:
    """Refuse what is not a number from 0 to 1.

    Raises:
        TypeError: it is not a number.
        ValueError: it is another one.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} is {_described(value)}, not a number")
    if not 0 <= float(value) <= 1:
        raise ValueError(f"{name} is {value}, not from 0 to 1")


def check_type(name: str, value: Any, kind: type | UnionType, what: str) -> None:
    """Refuse what is not a `kind`, which a user knows as `what`.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {_described(value)}, not {what}")


def check_pipeline(value: Any) -> None:
    """Refuse what is neither text nor a sequence of passes.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, str):
        return
    entries = cast("Sequence[Any]", value) if isinstance(value, Sequence) else [None]
    if not all(hasattr(entry, "apply") for entry in entries):
        raise TypeError(f"pipeline is {_described(value)}, neither text nor a sequence of passes")


def check_values(value: Any) -> None:
    """Refuse what is neither None nor a mapping from names to arrays or numbers.

    Raises:
        TypeError: it is something else.
    """
    check_type("values", value, Mapping | None, "a mapping from names of inputs to arrays")
    for name, array in cast("Mapping[Any, Any]", value or {}).items():
        check_type("a name in values", name, str, "text")
        is_text = isinstance(array, str | bytes)
        if is_text or not (hasattr(array, "__array__") or isinstance(array, Real | Sequence)):
            raise TypeError(f"values[{name!r}] is {_described(array)}, not an array")


def check_shapes(value: Any) -> None:
    """Refuse what is not a sequence of shapes, of which each may be None.

    Raises:
        TypeError: it is something else.
        ValueError: a size is negative.
    """
    check_type("shapes", value, Sequence, "a sequence of shapes")
    for position, shape in enumerate(value):
        if shape is None:
            continue
        name = f"shapes[{position}]"
        if isinstance(shape, str):
            raise TypeError(f"{name} is a str, not a shape")
        check_type(name, shape, Sequence, "a shape, such as (1, 3, 224, 224)")
        for size in shape:
            check_integer(f"a size of {name}", size, 0)


def _described(value: Any) -> str:
    """A value as errors show it, which may be long: its type, if it is not a number."""
    return repr(value) if isinstance(value, Real | None) else f"a {type(value).__name__}"
