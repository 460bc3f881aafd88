"""The trait that carries one more check of an op class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.traits import OpTrait

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation


@dataclass(frozen=True)
class Verified(OpTrait):
    """Verifies an op with a function, after the types that its definition demands."""

    check: Callable[[Operation], None]
    """Raises a VerifyException for an op that is wrong."""

    def verify(self, op: Operation) -> None:
        """Check `op`."""
        self.check(op)
