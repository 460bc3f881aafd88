"""Parameters and buffers as they were, to see whether they changed."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter, is_
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Parameters:
    """Arguments that are the same tensors in each call."""

    tensors: tuple[torch.Tensor, ...]
    addresses: tuple[int, ...]
    versions: tuple[int, ...] | None
    """How often each was written to; None where PyTorch does not count that of all."""
    memory: tuple[torch.UntypedStorage, ...]
    """Held, so that no other tensor gets its address."""

    @classmethod
    def of(cls, given: Iterable[torch.Tensor]) -> Parameters:
        """These tensors now."""
        tensors = tuple(given)
        counted = not any(each.is_inference() for each in tensors)
        return cls(
            tensors,
            tuple(map(_address, tensors)),
            tuple(map(_version, tensors)) if counted else None,
            tuple(each.untyped_storage() for each in tensors),
        )

    def lie_at(self, given: Sequence[torch.Tensor], which: Sequence[int] | None = None) -> bool:
        """Whether tensors, or `which` of them, lie where these lay."""
        if which is None:
            return tuple(map(_address, given)) == self.addresses
        return all(_address(given[i]) == self.addresses[i] for i in which)

    def are_unchanged(self, given: Sequence[torch.Tensor]) -> bool:
        """Whether tensors, which lie where these lay, are these with the elements that they had."""
        if self.versions is None or not all(map(is_, given, self.tensors)):
            return False
        return tuple(map(_version, given)) == self.versions

    def are(self, given: Sequence[torch.Tensor]) -> bool:
        """Whether tensors are these, with the elements that they had."""
        return self.are_unchanged(given) and self.lie_at(given)


_address = torch.Tensor.data_ptr
_version = attrgetter("_version")
