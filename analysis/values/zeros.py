"""The one home of zero preservation: which tensors hold one value, and what f(0) is.

Passes that move a scatter past other ops ask here what its holes hold before and after.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    TensorType,
)
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import OpResult, SSAValue

from convir.analysis.slices import slice_view
from convir.analysis.structured import structured
from convir.analysis.values.scalars import Constant, constant_of, evaluate, scalar_constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Operation

    from convir.analysis.structured import Structured

# Producers looked through before a tensor counts as not uniform. Longer chains are not written
# by hand or by any importer, and an adversarial one must not exhaust the stack; nor may a graph
# of that depth, asked of each of its ops, cost the square of its width.
_MAX_PRODUCERS: Final = 32
_MAX_LOOKED_AT: Final = 256

# Bytes compared at a time when a dense constant that is stored in full may be a splat.
_CHUNK: Final = 1 << 16


def is_zero(value: SSAValue) -> bool:
    """True if `value`, a scalar or a tensor, is provably zero (of either sign) everywhere."""
    constant = scalar_constant(value)
    if constant is None:
        constant = constant_fill_of(value)
    return constant is not None and constant.value.data == 0


def constant_fill_of(value: SSAValue) -> Constant | None:
    """The constant that every element of the tensor `value` equals, if there is one.

    Sees splats of `arith.constant`, `linalg.fill` and `tensor.splat` of constants, slices,
    reshapes and pads of those, and elementwise ops on those.
    """
    scalar = fill_of(value)
    return scalar_constant(scalar) if isinstance(scalar, SSAValue) else scalar


def fill_of(value: SSAValue) -> SSAValue | Constant | None:
    """The scalar that every element of the tensor `value` equals: constant, or an SSA value.

    An SSA value that is returned dominates every use of `value`.
    """
    return _Fills().of(value)


def splat_of(dense: DenseIntOrFPElementsAttr) -> Constant | None:
    """The one value of a dense attribute of floats, integers or indices, None if it holds several.

    Never unpacks the elements, so that a splat stored in full costs one pass over its bytes.
    """
    element_type = dense.get_element_type()
    data = dense.data.data
    if isinstance(element_type, IntegerType | IndexType | AnyFloat):
        width = element_type.compile_time_size
    else:
        return None
    if not data or not _repeats(data, width):
        return None
    number = cast("float | int", next(iter(element_type.iter_unpack(data[:width]))))
    return constant_of(number, element_type)


def value_where(view: Structured, known: Mapping[int, Constant]) -> Constant | None:
    """What an op's body yields where the operands in `known` have the given elements.

    The other operands count as known where they are uniform constants; an operand that the body
    does not read does not matter. None if the yielded value is not one exact constant.
    """
    return _Fills().where(view, known)


def value_at_zero(view: Structured, operand: int = 0) -> Constant | None:
    """f(0): what an op's body yields where operand number `operand` is zero."""
    argument = view.body.args[operand]
    zero = constant_of(0, argument.type)
    return None if zero is None else value_where(view, {operand: zero})


def preserves_zero(view: Structured, operand: int = 0) -> bool:
    """True if f(0) is exactly zero in the operand numbered `operand`."""
    value = value_at_zero(view, operand)
    return value is not None and value.value.data == 0


@dataclass
class _Fills:
    """One walk up the producers of a tensor, each looked at once."""

    known: dict[SSAValue, SSAValue | Constant | None] = field(
        default_factory=dict[SSAValue, "SSAValue | Constant | None"]
    )
    depth: int = 0

    def of(self, value: SSAValue) -> SSAValue | Constant | None:
        """See `fill_of`."""
        if value not in self.known:
            self.known[value] = None
            if self.depth < _MAX_PRODUCERS and len(self.known) <= _MAX_LOOKED_AT:
                self.depth += 1
                self.known[value] = self._of_result(value)
                self.depth -= 1
        return self.known[value]

    def where(self, view: Structured, known: Mapping[int, Constant]) -> Constant | None:
        """See `value_where`."""
        arguments: dict[SSAValue, Constant | None] = {
            view.body.args[position]: constant for position, constant in known.items()
        }
        unknown = [
            (operand, argument)
            for operand, argument in zip(view.operands, view.body.args, strict=True)
            if argument not in arguments and argument.first_use is not None
        ]
        # Only a choice may do without one of its operands. Arguments of a function answer at once:
        # they spare the walk up the others' producers.
        chooses = any(op.name == "arith.select" for op in view.body.ops)
        for operand, argument in sorted(unknown, key=lambda read: isinstance(read[0], OpResult)):
            constant = self._constant(operand)
            if constant is not None:
                arguments[argument] = constant
            elif not chooses:
                return None
        return evaluate(view.body, arguments)

    def _constant(self, operand: SSAValue) -> Constant | None:
        if not isinstance(operand.type, TensorType):
            return scalar_constant(operand)
        scalar = self.of(operand)
        return scalar_constant(scalar) if isinstance(scalar, SSAValue) else scalar

    def _of_result(self, value: SSAValue) -> SSAValue | Constant | None:
        if not isinstance(value, OpResult) or not isinstance(value.type, TensorType):
            return None
        match value.op:
            case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as dense):
                return splat_of(dense)
            case FillOp() as fill:
                return _scalar_of(fill)
            case tensor.SplatOp(input=scalar):
                return _simplest(scalar)
            case (
                tensor.CastOp(source=source)
                | tensor.CollapseShapeOp(src=source)
                | tensor.ExpandShapeOp(src=source)
                | tensor.ExtractSliceOp(source=source)
            ):
                return self.of(source)
            case tensor.InsertSliceOp() | tensor.PadOp():
                return self._of_insertion(value.op)
            case _:
                return self._of_structured(value.op)

    def _of_insertion(self, op: Operation) -> SSAValue | Constant | None:
        """A slice of c inserted into c, or padded with c, is c everywhere."""
        view = slice_view(op)
        if view is None:
            return None
        inner = self.of(view.source)
        if inner is None:
            return None
        if view.dest is not None:
            outer = self.of(view.dest)
        else:
            outer = None if view.fill is None else _simplest(view.fill)
        return inner if inner == outer else None

    def _of_structured(self, op: Operation) -> Constant | None:
        """An elementwise op that writes every element of its result from constants."""
        view = structured(op)
        if view is None or len(view.inits) != 1 or any(it != "parallel" for it in view.iterators):
            return None
        result_map = view.init_maps[0]
        if len(result_map.results) != len(view.iterators):
            return None
        return self.where(view, {}) if result_map.is_projected_permutation() else None


def _scalar_of(fill: FillOp) -> SSAValue | Constant | None:
    """The scalar of a fill, unless the fill converts it to another type."""
    scalar = fill.inputs[0]
    return _simplest(scalar) if scalar.type == fill.body.block.args[-1].type else None


def _simplest(scalar: SSAValue) -> SSAValue | Constant:
    constant = scalar_constant(scalar)
    return scalar if constant is None else constant


def _repeats(data: bytes, width: int) -> bool:
    """True if `data` is its first `width` bytes over and over."""
    if len(data) <= width:
        return True
    period = data[:width] * max(1, _CHUNK // width)
    return all(
        data.startswith(period[: len(data) - start], start)
        for start in range(0, len(data), len(period))
    )
