"""Methods and operand types of xDSL's classes that are wrong, and are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    TensorType,
    container_of,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation, NamedOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import SSAValue
from xdsl.irdl import OperandDef, ResultDef
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable

from convir.dialects.compat.printing import (
    print_comparison,
    print_empty,
    print_func,
    print_select,
)
from convir.dialects.compat.symbols import lookup_symbol
from convir.dialects.compat.types import condition_type_of, element_type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation
    from xdsl.irdl import IRDLOperation
    from xdsl.irdl.constraints import AttrConstraint

_CONDITIONS = container_of(IntegerType(1))
_INTEGERS = container_of(IntegerType)
_FLOATS = container_of(AnyFloat)
_INTEGERS_OR_INDICES = container_of(IntegerType | IndexType)


def install() -> None:
    """Replace them."""
    DenseIntOrFPElementsAttr.is_splat = _is_splat
    SymbolTable.lookup_symbol = staticmethod(lookup_symbol)
    func.FuncOp.print = print_func
    arith.SelectOp.print = print_select
    tensor.EmptyOp.print = print_empty
    tensor.ExtractSliceOp.from_static_parameters = staticmethod(_static_extract_slice)
    _retype(arith.SelectOp, (_CONDITIONS, None, None), (None,))
    for op_class in (arith.CmpfOp, arith.CmpiOp):
        _retype(op_class, (None, None), (_CONDITIONS,))
        op_class.print = print_comparison
        op_class.__init__ = _comparison_of(op_class.__init__)
    for op_class in (arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp):
        _retype(op_class, (_INTEGERS,), (_INTEGERS,))
        op_class.verify_ = _verify_definition
    for op_class in (arith.SIToFPOp, arith.UIToFPOp):
        _retype(op_class, (_INTEGERS,), (_FLOATS,))
    for op_class in (arith.FPToSIOp, arith.FPToUIOp):
        _retype(op_class, (_FLOATS,), (_INTEGERS,))
    _retype(arith.IndexCastOp, (_INTEGERS_OR_INDICES,), (_INTEGERS_OR_INDICES,))
    arith.IndexCastOp.verify_ = _verify_definition
    FillOp.verify_ = _verify_fill
    NamedOperation.body_arg_types = staticmethod(_body_arg_types)
    for op_class in (tensor.ExpandShapeOp, tensor.PadOp, tensor.ReshapeOp):
        op_class.verify_ = _verify_definition


def _comparison_of(build: Callable[..., None]) -> Callable[..., None]:
    """Build a comparison whose result has its operands' shape; xDSL's is one i1."""

    def init(self: arith.CmpfOp | arith.CmpiOp, *operands: object, **named: object) -> None:
        build(self, *operands, **named)
        result_type = condition_type_of(self.lhs.type)
        if self.result.type != result_type:
            Rewriter.replace_value_with_new_type(self.result, result_type)

    return init


def _verify_fill(self: FillOp) -> None:
    """Verify a fill as every structured op; xDSL refuses `index` and looks at no shape."""
    _verify_definition(self)
    LinalgStructuredOperation.verify_(self)


def _body_arg_types(operands: Sequence[SSAValue]) -> Sequence[AnyFloat | IntegerType]:
    """The element types of a named op's operands; xDSL knows of no `index`."""
    return cast("list[AnyFloat | IntegerType]", [element_type_of(v.type) for v in operands])


def _is_splat(self: DenseIntOrFPElementsAttr) -> bool:
    """Whether all elements are one bit pattern; xDSL compares values, for which 0.0 is -0.0."""
    data = self.data.data
    size = self.type.element_type.compile_time_size
    return len(data) >= size and data == data[:size] * (len(data) // size)


def _static_extract_slice(
    source: SSAValue | Operation,
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    reduce_rank: bool = False,
) -> tensor.ExtractSliceOp:
    """A slice at constants; xDSL gives one of lower rank too few sizes."""
    value = SSAValue.get(source, type=TensorType)
    kept = [size for size in sizes if size != 1] if reduce_rank else sizes
    result_type = TensorType(element_type_of(value.type), kept)
    steps = [1] * len(offsets) if strides is None else strides
    return tensor.ExtractSliceOp(value, offsets, sizes, steps, result_type)


def _retype(
    op_class: type[IRDLOperation],
    operands: tuple[AttrConstraint | None, ...],
    results: tuple[AttrConstraint | None, ...],
) -> None:
    """Give operands and results of the class other types; None keeps one as it is.

    xDSL's casts, the results of its comparisons and the condition of its select are scalars only.
    """
    definition = op_class.get_irdl_definition()
    for index, constraint in enumerate(operands):
        if constraint is not None:
            definition.operands[index] = (definition.operands[index][0], OperandDef(constraint))
    for index, constraint in enumerate(results):
        if constraint is not None:
            definition.results[index] = (definition.results[index][0], ResultDef(constraint))


def _verify_definition(self: IRDLOperation) -> None:
    """Verify what the definition says, without the class's own rules.

    Those refuse valid ops: tensors in casts, dynamic sizes in reshapes and pads. The rules that
    replace them are among our verifiers.
    """
    self.get_irdl_definition().verify(self)
