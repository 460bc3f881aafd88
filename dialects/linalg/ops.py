"""The linalg dialect as convir reads it: xDSL's generic and elementwise ops, and ours in place of
those that xDSL lacks or has for one element type only.
"""

from __future__ import annotations

from xdsl.dialects import linalg as stock
from xdsl.ir import Dialect

from convir.dialects.linalg.attrs import ElementwiseKindAttr, TypeFunctionAttr
from convir.dialects.linalg.category import ContractOp, ElementwiseOp
from convir.dialects.linalg.dimensions import MapOp, ReduceOp
from convir.dialects.linalg.elementwise import NAMED_ELEMENTWISE
from convir.dialects.linalg.moves import BroadcastOp, TransposeOp
from convir.dialects.linalg.named import NAMED_OPS

_OPS = {
    **{op.name: op for op in stock.Linalg.operations},
    **NAMED_OPS,
    **{op.name: op for op in NAMED_ELEMENTWISE},
    **{
        op.name: op for op in (BroadcastOp, ContractOp, ElementwiseOp, MapOp, ReduceOp, TransposeOp)
    },
}

LINALG = Dialect(
    "linalg",
    list(_OPS.values()),
    [*stock.Linalg.attributes, ElementwiseKindAttr, TypeFunctionAttr],
)
