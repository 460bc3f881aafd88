"""Static and open sizes mixed: operands that are cast, sizes given as operands, open arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from xdsl.dialects import arith, func, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    FunctionType,
    IndexType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from convir.analysis.slices import numbers
from convir.dialects.conv.ops import ConvOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Block, Operation, SSAValue
    from xdsl.irdl import IRDLOperation

    from random_programs.choices import Choices

AnyTensor: TypeAlias = "TensorType[Attribute]"

SPARED = (func.ReturnOp, scf.YieldOp, scf.ForOp, tensor.CastOp, ConvOp, arith.ConstantOp)
"""Ops whose types are bound to those of something else."""
SIZES = {
    tensor.ExtractSliceOp: "static_sizes",
    tensor.InsertSliceOp: "static_sizes",
    tensor.ExpandShapeOp: "static_output_shape",
}
"""Where an op says its sizes."""
ATTEMPTS = 3


@dataclass
class Blur:
    """Opens some sizes of one function; what it computes stays."""

    choices: Choices
    function: func.FuncOp
    arguments: list[Any]
    """Those of the function; sizes that become arguments are added."""
    sizes_are_arguments: bool
    _sizes: dict[int, SSAValue] = field(default_factory=dict[int, "SSAValue"])

    def apply(self) -> None:
        """Rewrite the function in place."""
        body = self.function.body.block
        blocks = [body, *(op.body.block for op in body.walk() if isinstance(op, scf.ForOp))]
        for block in blocks:
            for op in list(block.ops):
                if not isinstance(op, SPARED):
                    self._blur(op)
        self._open_arguments(body)
        returned = cast("func.ReturnOp", body.last_op)
        self.function.properties["function_type"] = FunctionType.from_lists(
            [argument.type for argument in body.args], [v.type for v in returned.arguments]
        )

    def _blur(self, op: Operation) -> None:
        if type(op) in SIZES and self.choices.one_in(3):
            op = self._size_operands(op)
        elif isinstance(op, tensor.EmptyOp | tensor.SplatOp) and self.choices.one_in(3):
            self._open_made(op)
            return
        if self.choices.one_in(2):
            return
        operands = tuple(op.operands)
        types = [result.type for result in op.results]
        for _ in range(ATTEMPTS):
            casts = self._cast_operands(op)
            self._open_results(op)
            if _verifies(op):
                _close_results(op, types)
                return
            for result, kind in zip(tuple(op.results), types, strict=True):
                Rewriter.replace_value_with_new_type(result, kind)
            op.operands = operands
            for one in casts:
                Rewriter.erase_op(one)

    def _opened(self, kind: AnyTensor) -> AnyTensor:
        shape = [DYNAMIC_INDEX if self.choices.below(2) else size for size in kind.get_shape()]
        return TensorType(kind.element_type, shape, kind.encoding)

    def _cast_operands(self, op: Operation) -> list[tensor.CastOp]:
        """Cast some operands; those of an op on elements alike."""
        alike: dict[Attribute, AnyTensor] = {}
        casts: list[tensor.CastOp] = []
        elementwise = op.name.startswith(("arith.", "math."))
        for index, operand in enumerate(op.operands):
            kind = operand.type
            if not isinstance(kind, TensorType) or not (elementwise or self.choices.below(2)):
                continue
            known = cast("AnyTensor", kind)
            opened = self._opened(known)
            if elementwise:
                opened = alike.setdefault(TensorType(i64, known.get_shape()), opened)
                opened = TensorType(known.element_type, opened.get_shape())
            if opened == kind:
                continue
            casts.append(tensor.CastOp(operand, opened))
            Rewriter.insert_op(casts[-1], InsertPoint.before(op))
            op.operands[index] = casts[-1].dest
        return casts

    def _open_results(self, op: Operation) -> None:
        shapes = [cast("AnyTensor", v.type).get_shape() for v in op.operands if _is_tensor(v)]
        for number, result in enumerate(tuple(op.results)):
            kind = result.type
            if not isinstance(kind, TensorType):
                continue
            known = cast("AnyTensor", kind)
            if op.name.startswith(("arith.", "math.")):
                opened: Attribute = TensorType(known.element_type, shapes[0])
            elif isinstance(op, tensor.InsertSliceOp):
                opened = op.dest.type
            elif op.name.startswith("linalg."):
                opened = op.operands[len(op.operands) - len(op.results) + number].type
            elif isinstance(op, tensor.ExtractSliceOp | tensor.ExpandShapeOp):
                continue
            else:
                opened = self._opened(known)
            if opened != kind:
                Rewriter.replace_value_with_new_type(result, opened)

    def _size(self, size: int) -> SSAValue:
        """An index that holds `size`: a constant, or an argument of the function."""
        if size not in self._sizes:
            block = self.function.body.block
            if self.sizes_are_arguments and self.choices.below(2):
                self._sizes[size] = block.insert_arg(IndexType(), len(block.args))
                self.arguments.append(np.array(size))
            else:
                constant = arith.ConstantOp(IntegerAttr.from_index_int_value(size))
                Rewriter.insert_op(constant, InsertPoint.at_start(block))
                self._sizes[size] = constant.result
        return self._sizes[size]

    def _size_operands(self, op: Operation) -> Operation:
        """The op with some of its sizes as operands."""
        static = SIZES[type(op)]  # pyright: ignore[reportArgumentType]
        sizes = list(numbers(cast("DenseArrayBase[Any]", op.properties[static])))
        result = cast("AnyTensor", op.results[0].type)
        source = cast("AnyTensor", op.operands[0].type)
        small = source if isinstance(op, tensor.InsertSliceOp) else result
        if DYNAMIC_INDEX in sizes or len(small.get_shape()) != len(sizes):
            return op
        opened = [DYNAMIC_INDEX if self.choices.below(2) else size for size in sizes]
        values = [self._size(n) for n, o in zip(sizes, opened, strict=True) if o == DYNAMIC_INDEX]
        operands: list[Any] = [op.operands[0]]
        kinds = TensorType(result.element_type, opened)
        if isinstance(op, tensor.InsertSliceOp):
            opened_source = tensor.CastOp(op.source, kinds)
            Rewriter.insert_op(opened_source, InsertPoint.before(op))
            operands, kinds = [opened_source.dest, op.dest], result
        if isinstance(op, tensor.ExpandShapeOp):
            operands.append(values)
        else:
            slices = cast("tensor.ExtractSliceOp", op)
            operands += [slices.offsets, values, slices.strides]
        kept = {n: v for n, v in op.properties.items() if n != "operandSegmentSizes"}
        new = cast("type[IRDLOperation]", type(op)).build(
            operands=operands,
            result_types=[kinds],
            properties={**kept, static: DenseArrayBase.from_list(i64, opened)},
        )
        if not _verifies(new):
            new.erase()
            return op
        Rewriter.replace_op(op, new, safe_erase=False) if kinds == result else _replace(op, new)
        return new

    def _open_made(self, op: tensor.EmptyOp | tensor.SplatOp) -> None:
        """Sizes of what is made from nothing, as operands."""
        kind = cast("AnyTensor", op.results[0].type)
        opened = self._opened(kind)
        pairs = zip(kind.get_shape(), opened.get_shape(), strict=True)
        values = [self._size(size) for size, now in pairs if now == DYNAMIC_INDEX]
        if DYNAMIC_INDEX in kind.get_shape() or not values:
            return
        operands: list[Any] = [values] if isinstance(op, tensor.EmptyOp) else [op.input, values]
        _replace(op, type(op).build(operands=operands, result_types=[opened]))

    def _open_arguments(self, block: Block) -> None:
        for argument in tuple(block.args):
            kind = argument.type
            if not isinstance(kind, TensorType) or self.choices.below(3):
                continue
            opened = self._opened(cast("AnyTensor", kind))
            if opened == kind:
                continue
            new = Rewriter.replace_value_with_new_type(argument, opened)
            back = tensor.CastOp(new, cast("AnyTensor", kind))
            new.replace_uses_with_if(back.dest, lambda use, back=back: use.operation is not back)
            Rewriter.insert_op(back, InsertPoint.at_start(block))


def _is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def _verifies(op: Operation) -> bool:
    try:
        op.verify()
    except VerifyException:
        return False
    return True


def _close_results(op: Operation, types: Sequence[Attribute]) -> None:
    """What reads results that were opened reads them as static again."""
    for result, kind in zip(tuple(op.results), types, strict=True):
        if result.type != kind:
            back = tensor.CastOp(result, cast("AnyTensor", kind))
            result.replace_uses_with_if(back.dest, lambda use, back=back: use.operation is not back)
            Rewriter.insert_op(back, InsertPoint.after(op))


def _replace(op: Operation, new: Operation) -> None:
    """Put `new` in the place of `op`, and cast its result to the type that `op` had."""
    back = tensor.CastOp(new.results[0], cast("AnyTensor", op.results[0].type))
    Rewriter.replace_op(op, [new, back], [back.dest])
