"""`allow-tf32`: functions may round what they multiply in f32 to TF32.

    rewrite: func.func @f(…) { … contraction of f32 … }
             --> func.func @f(…) attributes {convir.allow_tf32} { … }

TF32 has f32's exponents and 10 bits of its mantissa: tensor cores of sm_80 and later multiply it,
and add in f32. Kernels of the function inherit the attribute; a device without such instructions
multiplies f32. Precondition: something in the function multiplies tensors of f32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.dialects.builtin import Float32Type, UnitAttr
from xdsl.passes import ModulePass

from convir.analysis.contraction import contraction_dims
from convir.analysis.refusal import Refusal
from convir.dialects.compat.types import element_type_of
from convir.dialects.conv.ops import ConvOp
from convir.dialects.kernel import ops as kernel
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation


def _multiplies_f32(op: Operation) -> bool:
    """Whether `op` is a convolution or a contraction whose inputs are tensors of f32."""
    if not isinstance(op, ConvOp) and isinstance(contraction_dims(op), Refusal):
        return False
    return all(isinstance(element_type_of(value.type), Float32Type) for value in op.operands[:2])


@dataclass(frozen=True)
class AllowTf32Pass(ModulePass):
    """Lets functions multiply f32 with the precision of TF32."""

    name = "allow-tf32"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function."""
        for function in op.walk():
            if not isinstance(function, func.FuncOp) or kernel.ALLOW_TF32 in function.attributes:
                continue
            products = sum(map(_multiplies_f32, function.walk()))
            if products == 0:
                remarks.refused(self.name, function, "it has no products of f32")
                continue
            function.attributes[kernel.ALLOW_TF32] = UnitAttr()
            remarks.fired(self.name, function, f"{products} products of f32 may use TF32")
