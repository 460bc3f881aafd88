"""Effects that xDSL's linalg ops do not declare, without which CSE and DCE pass them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg import ops as linalg
from xdsl.traits import (
    EffectInstance,
    MemoryEffect,
    MemoryEffectKind,
    NoMemoryEffect,
    Pure,
    RecursiveMemoryEffect,
)

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from xdsl.ir import Operation


class StructuredEffects(MemoryEffect):
    """A structured op reads its memrefs and writes those among its outputs; tensors are values."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        """The effects of `op` itself, its body aside."""
        memrefs = [value for value in op.operands if isinstance(value.type, MemRefType)]
        if not memrefs:
            return frozenset()
        outputs = op.operands[len(op.operands) - _output_count(op) :]
        reads = {EffectInstance(MemoryEffectKind.READ, value) for value in memrefs}
        writes = {
            EffectInstance(MemoryEffectKind.WRITE, value)
            for value in outputs
            if isinstance(value.type, MemRefType)
        }
        return reads | writes


def _output_count(op: Operation) -> int:
    outputs = getattr(op, "outputs", ())
    return len(outputs)


_BODY_UNWRITTEN = (
    linalg.AddOp,
    linalg.CopyOp,
    linalg.ExpOp,
    linalg.FillOp,
    linalg.LogOp,
    linalg.MaxOp,
    linalg.MinOp,
    linalg.MulOp,
    linalg.QuantizedMatmulOp,
    linalg.SelectOp,
    linalg.SqrtOp,
    linalg.SubOp,
    linalg.TransposeOp,
)


def install() -> None:
    """Give effects to the op classes that declare none."""
    for op_class in _BODY_UNWRITTEN:
        op_class.traits.add_trait(StructuredEffects())
    linalg.GenericOp.traits.add_trait(StructuredEffects())
    linalg.GenericOp.traits.add_trait(RecursiveMemoryEffect())
    for op_class in (linalg.IndexOp, arith.ExtSIOp):
        op_class.traits.add_trait(Pure())
    # A remainder may trap, and a terminator must stay.
    for op_class in (linalg.YieldOp, tensor.YieldOp, arith.RemUIOp):
        op_class.traits.add_trait(NoMemoryEffect())
