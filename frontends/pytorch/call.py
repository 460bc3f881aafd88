"""One call of an ATen operator, as the function that spells it sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch

from convir.frontends.pytorch.errors import UnsupportedError
from convir.frontends.pytorch.spelling import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.frontends.pytorch.spelling import Dtype, Shape, Spelling

    Results = Value | Sequence[Value | None]
    Operator = Callable[["AtenCall"], Results]


@dataclass(frozen=True)
class AtenCall:
    """A call: tensors are `Value`s, all else is what PyTorch passes."""

    spell: Spelling
    """Where nodes go."""
    name: str
    """The overload: `aten.mean.dim`."""
    arguments: dict[str, Any]
    """By the names of the schema, defaults included."""
    results: tuple[tuple[Shape, Dtype] | None, ...]
    """What PyTorch says of each result; None of one that is no tensor."""

    @property
    def shape(self) -> Shape:
        """Of the first result."""
        return self._first[0]

    @property
    def dtype(self) -> Dtype:
        """Of the first result."""
        return self._first[1]

    @property
    def _first(self) -> tuple[Shape, Dtype]:
        found = self.results[0]
        assert found is not None
        return found

    def __getitem__(self, name: str) -> Any:
        """An argument by its name."""
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or `default` where the schema has none of this name, or it is None."""
        found = self.arguments.get(name)
        return default if found is None else found

    def value(self, name: str = "self") -> Value:
        """An argument that is a tensor.

        Raises:
            UnsupportedError: it is none.
        """
        found = self.arguments[name]
        if not isinstance(found, Value):
            raise UnsupportedError(f"its argument '{name}' is no tensor")
        return found

    def floats(self, name: str = "self") -> Value:
        """An argument that is a tensor of floats.

        Raises:
            UnsupportedError: it is something else.
        """
        found = self.value(name)
        if not found.dtype.is_floating_point:
            raise UnsupportedError(f"elements of {found.dtype}")
        return found

    def operand(self, name: str, dtype: Dtype) -> Value:
        """An argument that is a tensor or a number, as a tensor of `dtype`."""
        found = self.arguments[name]
        if isinstance(found, Value):
            return self.spell.cast(found, dtype)
        return self.spell.number(found, dtype)

    def axis(self, name: str = "dim", of: str = "self") -> int:
        """An argument that is a dimension of another one, from 0 on."""
        return int(self.arguments[name]) % max(self.value(of).rank, 1)

    def axes(self, name: str = "dim", of: str = "self") -> list[int]:
        """An argument that is some dimensions of another one, from 0 on; none means all."""
        rank = self.value(of).rank
        given = self.arguments[name]
        if given is None or given == []:
            return list(range(rank))
        listed = cast("Sequence[int]", given if isinstance(given, list | tuple) else [given])
        return sorted({int(axis) % max(rank, 1) for axis in listed})

    def promoted(self, first: str = "self", second: str = "other") -> Dtype:
        """The dtype in which PyTorch computes with two arguments, tensors or numbers."""

        def plain(argument: Any) -> Any:
            if not isinstance(argument, Value):
                return argument
            return torch.empty(argument.shape, dtype=argument.dtype, device="meta")

        return torch.result_type(plain(self.arguments[first]), plain(self.arguments[second]))

    def check(self, holds: bool, reason: str) -> None:
        """Refuse the call unless something holds.

        Raises:
            UnsupportedError: it does not.
        """
        if not holds:
            raise UnsupportedError(reason)
