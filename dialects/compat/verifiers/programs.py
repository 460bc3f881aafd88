"""Functions that say they are programs of runtime calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import func

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xdsl.ir import Operation


def _program(op: Operation) -> None:
    if not any(name.startswith("rt.") for name in op.attributes):
        return
    from convir.dialects.rt.ops import verify_program  # noqa: PLC0415  (few functions are programs)

    verify_program(cast("func.FuncOp", op))


PROGRAM_CHECKS: Mapping[type[Operation], Callable[[Operation], None]] = {func.FuncOp: _program}
"""The rt dialect's check of `func.func`."""
