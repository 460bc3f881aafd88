"""Element types of random programs, and the text of tensor types and maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "i16", "i32", "i64", "index")
ELEMENTS = (*FLOATS, *INTEGERS, "i1")


def tensor(shape: Iterable[int], element: str) -> str:
    """The type of a tensor of static sizes."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def literal(number: int, element: str) -> str:
    """`number` as an element of a constant."""
    if element == "i1":
        return "true" if number else "false"
    return f"{number}.0" if element in FLOATS else str(number)


def scalar(number: int, element: str) -> str:
    """`number` as the value of an `arith.constant`."""
    text = literal(number, element)
    return text if element == "i1" else f"{text} : {element}"


def affine(loops: Sequence[str], results: Iterable[str]) -> str:
    """An affine map."""
    return f"affine_map<({', '.join(loops)}) -> ({', '.join(results)})>"


def header(maps: Iterable[str], kinds: Iterable[str]) -> str:
    """The start of a `linalg.generic`; kinds are `parallel` and `reduction`."""
    iterators = ", ".join(f'"{kind}"' for kind in kinds)
    return f"linalg.generic {{indexing_maps = [{', '.join(maps)}], iterator_types = [{iterators}]}}"
