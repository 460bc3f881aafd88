"""A program as words, for `dispatch.cpp` to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.pytorch.signature import Placement, Signature
    from convir.runtime.prepared_call import PreparedCall

_SCALAR_TYPES = {"f16": 5, "f32": 6, "bf16": 15}
"""PyTorch's numbers of dtypes (`c10/core/ScalarType.h`)."""


def words_of(
    call: PreparedCall, signature: Signature, placed: Placement, *, swapped: bool
) -> tuple[int, ...] | None:
    """The call as words; None where only Python can make it, or as long as it has not run.

    The dtype, whether the operands are swapped, the result's rank, sizes and strides, what
    addresses are multiples of, bytes of workspace, and the memories and steps of `CallSteps`, each
    after their number.
    """
    found = call.steps() if call.steps is not None and not any(placed.copies) else None
    if found is None:
        return None
    result = signature.result
    return (
        _SCALAR_TYPES[signature.dtype],
        swapped,
        len(result.shape),
        *result.shape,
        *result.strides,
        call.alignment,
        found.workspace_bytes,
        len(found.memories),
        *(number for memory in found.memories for number in memory),
        len(found.steps),
        *(number for step in found.steps for number in step),
    )
