"""Invariants that xDSL's op classes do not check, added to them as traits.

The rules are those of MLIR's verifiers for the same ops, so that what convir accepts other MLIR
tools accept too; where a rule is stricter, its function says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.compat.verifiers.casts import CAST_CHECKS
from convir.dialects.compat.verifiers.programs import PROGRAM_CHECKS
from convir.dialects.compat.verifiers.shapes import SHAPE_CHECKS
from convir.dialects.compat.verifiers.slices import SLICE_CHECKS
from convir.dialects.compat.verifiers.structured import STRUCTURED_CHECKS
from convir.dialects.compat.verifiers.trait import Verified

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xdsl.ir import Operation

CHECKS: Mapping[type[Operation], Callable[[Operation], None]] = {
    **CAST_CHECKS,
    **PROGRAM_CHECKS,
    **SHAPE_CHECKS,
    **SLICE_CHECKS,
    **STRUCTURED_CHECKS,
}
"""What is checked beyond xDSL's own verifier, by op class; a check raises a VerifyException."""


def install() -> None:
    """Add every check to its op class."""
    for op_class, check in CHECKS.items():
        op_class.traits.add_trait(Verified(check))
