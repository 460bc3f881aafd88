"""A static function with its sizes forgotten: what a front end with dynamic sizes might write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.builder import Builder
from xdsl.dialects import affine, arith, func, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    DenseArrayBase,
    FunctionType,
    IndexType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from convir.analysis.slices import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation, SSAValue
    from xdsl.irdl import IRDLOperation

AnyTensor: TypeAlias = "TensorType[Attribute]"

_SPELLINGS = 6


class Forgetful:
    """Makes every size of one straight-line function dynamic, computed from its arguments' sizes.

    `below(n)` chooses among n spellings of each size, deterministic ones being fine.
    """

    def __init__(self, function: func.FuncOp, below: Callable[[int], int]) -> None:
        self._function = function
        self._below = below
        self._known: list[tuple[SSAValue, int]] = []
        self._builder = Builder(InsertPoint.at_start(function.body.block))

    def forget(self) -> None:
        """Rewrite the function in place."""
        ops = list(self._function.body.block.ops)
        for number, argument in enumerate(tuple(self._function.args)):
            if isinstance(argument.type, TensorType):
                self._forget_argument(number)
        for op in ops:
            self._builder = Builder(InsertPoint.before(op))
            self._forget_op(op)
        returned = cast("func.ReturnOp", self._function.body.block.last_op)
        self._function.properties["function_type"] = FunctionType.from_lists(
            [argument.type for argument in self._function.args],
            [value.type for value in returned.arguments],
        )

    def _forget_argument(self, number: int) -> None:
        argument = self._function.args[number]
        shape = cast("AnyTensor", argument.type).get_shape()
        argument = Rewriter.replace_value_with_new_type(argument, _open(argument.type))
        for dim, size in enumerate(shape):
            index = self._number(dim)
            self._known.append((self._builder.insert(tensor.DimOp(argument, index)).result, size))

    def _number(self, value: int) -> SSAValue:
        return self._builder.insert(
            arith.ConstantOp(IntegerAttr.from_index_int_value(value))
        ).result

    def _size(self, value: int) -> SSAValue:
        """An index that is `value`, in one of many spellings."""
        insert = self._builder.insert
        if not self._known:
            return self._number(value)
        base, known = self._known[self._below(len(self._known))]
        difference = self._number(value - known)
        two = self._number(2)
        match self._below(_SPELLINGS):
            case 0:
                return insert(arith.AddiOp(base, difference)).result
            case 1:
                offset = insert(arith.SubiOp(self._number(known), base)).result
                return insert(arith.AddiOp(offset, self._number(value))).result
            case 2:
                twice = insert(arith.MuliOp(base, two)).result
                odd = insert(arith.AddiOp(twice, self._number(2 * (value - known) + 1))).result
                return insert(arith.DivUIOp(odd, two)).result
            case 3:
                d0, s0 = AffineExpr.dimension(0), AffineExpr.symbol(0)
                expr = ((d0 + s0) * 3 + 2) // 3
                spelled = AffineMapAttr(AffineMap(1, 1, (expr,)))
                return insert(affine.ApplyOp([base, difference], spelled)).result
            case 4:
                equal = insert(arith.CmpiOp(base, self._number(known), "eq")).result
                return insert(arith.SelectOp(equal, self._number(value), two)).result
            case _:
                d0 = AffineExpr.dimension(0)
                both = (d0 + (value - known), AffineExpr.constant(value + 1))
                return insert(affine.MinOp([base], AffineMapAttr(AffineMap(1, 0, both)))).result

    def _sizes(self, shape: Sequence[int]) -> list[SSAValue]:
        return [self._size(size) for size in shape]

    def _forget_op(self, op: Operation) -> None:
        shape = _shape(op.results[0]) if op.results else ()
        match op:
            case arith.ConstantOp() | tensor.FromElementsOp():
                self._cast_after(op)
            case tensor.ExpandShapeOp() if not _shape(op.src):
                self._cast_after(op)  # The sizes beside rank 0 are 1, and known to be.
            case tensor.CollapseShapeOp() if not shape:
                source = cast("AnyTensor", op.src.type)
                units = TensorType(source.element_type, [1] * len(source.get_shape()))
                op.operands[0] = self._builder.insert(tensor.CastOp(op.src, units)).dest
            case tensor.EmptyOp() if not op.dynamic_sizes:
                self._replace(op, [self._sizes(shape)], {})
            case tensor.SplatOp() if not op.dynamicSizes:
                self._replace(op, [op.input, self._sizes(shape)], {})
            case tensor.ExtractSliceOp() | tensor.InsertSliceOp():
                self._forget_slice(op)
            case tensor.ExpandShapeOp():
                if not op.dynamic_output_shape:
                    unknown = (DYNAMIC_INDEX,) * len(shape)
                    operands = [op.src, self._sizes(shape)]
                    self._replace(op, operands, {"static_output_shape": unknown})
            case _:
                _open_results(op)

    def _cast_after(self, op: Operation) -> None:
        result = op.results[0]
        kind = result.type
        if not isinstance(kind, TensorType):
            return
        uses = list(result.uses)
        hidden = tensor.CastOp(result, _open(cast("AnyTensor", kind)))
        Rewriter.insert_op(hidden, InsertPoint.after(op))
        for use in uses:
            use.operation.operands[use.index] = hidden.dest

    def _forget_slice(self, op: tensor.ExtractSliceOp | tensor.InsertSliceOp) -> None:
        """Where a slice drops dimensions they are all of its unit ones, which stay static."""
        if op.sizes:
            _open_results(op)
            return
        lists: dict[str, Sequence[int]] = {}
        operands: list[Any] = [op.source]
        small_rank = len(_shape(op.results[0]))
        if isinstance(op, tensor.InsertSliceOp):
            small_rank = len(_shape(op.source))
            operands.append(op.dest)
        dropped = len(op.static_sizes.get_values()) > small_rank
        for name, given in (("offsets", op.offsets), ("sizes", ()), ("strides", op.strides)):
            values = numbers(cast("DenseArrayBase[Any]", op.properties[f"static_{name}"]))
            unknown = list(values)
            left: list[SSAValue] = []
            waiting = iter(given)
            for dim, value in enumerate(values):
                if value == DYNAMIC_INDEX:
                    left.append(next(waiting))
                elif not (name == "sizes" and dropped and value == 1):
                    left.append(self._size(value))
                    unknown[dim] = DYNAMIC_INDEX
            lists[f"static_{name}"] = unknown
            operands.append(left)
        self._replace(op, operands, lists)

    def _replace(
        self,
        op: IRDLOperation,
        operands: Sequence[Any],
        lists: Mapping[str, Sequence[int]],
    ) -> None:
        kept = {n: value for n, value in op.properties.items() if n != "operandSegmentSizes"}
        new = type(op).build(
            operands=operands,
            result_types=[_open(op.results[0].type)],
            properties={
                **kept,
                **{n: DenseArrayBase.from_list(i64, list(v)) for n, v in lists.items()},
            },
        )
        Rewriter.replace_op(op, new)


def _open_results(op: Operation) -> None:
    for result in tuple(op.results):
        kind = result.type
        if isinstance(kind, TensorType):
            Rewriter.replace_value_with_new_type(result, _open(cast("AnyTensor", kind)))


def _shape(value: SSAValue) -> tuple[int, ...]:
    value_type = value.type
    return value_type.get_shape() if isinstance(value_type, TensorType) else ()


def _open(value_type: Attribute) -> AnyTensor:
    static = cast("AnyTensor", value_type)
    return TensorType(static.element_type, (DYNAMIC_INDEX,) * len(static.get_shape()))


def forget_sizes(module: ModuleOp, below: Callable[[int], int], name: str = "main") -> None:
    """Make every size of the function `name` dynamic, in place.

    Arguments of type `index` are taken to be called after the number that they hold.
    """
    (function,) = (
        op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data == name
    )
    for argument in function.args:
        if isinstance(argument.type, IndexType) and argument.name_hint:
            number = int(argument.name_hint.removeprefix("n"))
            constant = arith.ConstantOp(IntegerAttr.from_index_int_value(number))
            Rewriter.insert_op(constant, InsertPoint.at_start(function.body.block))
            argument.replace_all_uses_with(constant.result)
    Forgetful(function, below).forget()
