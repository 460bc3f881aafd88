"""The scalar bodies of linalg ops whose region is not written in the text.

Every body first casts its inputs to the type of the output, as MLIR's named ops do, and yields
one value for each output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    FloatAttr,
    IndexType,
    IntegerType,
)
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from convir.dialects.compat.types import integer_width
from convir.dialects.linalg.table import MUL_ADD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

_FLOAT: Mapping[str, Callable[..., Operation]] = {
    "add": arith.AddfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
    "mul": arith.MulfOp,
    "negf": arith.NegfOp,
    "sub": arith.SubfOp,
}
# By name, since the math dialect is loaded on first use.
_MATH = {
    "abs": "AbsFOp",
    "ceil": "CeilOp",
    "cos": "CosOp",
    "erf": "ErfOp",
    "exp": "ExpOp",
    "floor": "FloorOp",
    "log": "LogOp",
    "powf": "PowFOp",
    "round": "RoundOp",
    "rsqrt": "RsqrtOp",
    "sin": "SinOp",
    "sqrt": "SqrtOp",
    "tanh": "TanhOp",
}
_INTEGER: Mapping[str, Callable[..., Operation]] = {
    "add": arith.AddiOp,
    "div": arith.DivSIOp,
    "div_unsigned": arith.DivUIOp,
    "max": arith.MaxSIOp,
    "max_unsigned": arith.MaxUIOp,
    "min": arith.MinSIOp,
    "min_unsigned": arith.MinUIOp,
    "mul": arith.MuliOp,
    "sub": arith.SubiOp,
}
_BOOLEAN: Mapping[str, Callable[..., Operation]] = {
    "add": arith.OrIOp,
    "mul": arith.AndIOp,
    "max_unsigned": arith.OrIOp,
    "min_unsigned": arith.AndIOp,
}
BINARY = frozenset((*_INTEGER, "powf"))
"""The scalar functions of two arguments; all others but `select` have one."""
TERNARY = frozenset(("select",))
"""The scalar functions of three arguments."""


class BodyBuilder:
    """Builds the one block of a body, an op at a time."""

    def __init__(self, arg_types: Sequence[Attribute], *, unsigned: bool = False):
        """Begin a body with one argument per operand; `unsigned` says how integers are widened."""
        self.block = Block(arg_types=arg_types)
        self.unsigned = unsigned

    def emit(self, op: Operation) -> SSAValue:
        """Append `op`, of one result, and return that."""
        self.block.add_op(op)
        return op.results[0]

    def region(self, *results: SSAValue) -> Region:
        """End the body, yielding `results`."""
        self.block.add_op(YieldOp(*results))
        return Region(self.block)

    def cast(self, value: SSAValue, to_type: Attribute) -> SSAValue:
        """`value` as a `to_type`, by MLIR's rules for named ops.

        Raises:
            VerifyException: there is no such conversion.
        """
        from_type = value.type
        if from_type == to_type:
            return value
        if isinstance(from_type, AnyFloat) and isinstance(to_type, AnyFloat):
            widens = from_type.bitwidth < to_type.bitwidth
            return self.emit((arith.ExtFOp if widens else arith.TruncFOp)(value, to_type))
        if isa(from_type, IntegerType) and isa(to_type, IntegerType):
            if from_type.width.data > to_type.width.data:
                return self.emit(arith.TruncIOp(value, to_type))
            extend = arith.ExtUIOp if self.unsigned else arith.ExtSIOp
            return self.emit(extend(value, to_type))
        if isinstance(from_type, IntegerType) and isinstance(to_type, AnyFloat):
            return self.emit((arith.UIToFPOp if self.unsigned else arith.SIToFPOp)(value, to_type))
        if isinstance(from_type, AnyFloat) and isa(to_type, IntegerType):
            return self.emit((arith.FPToUIOp if self.unsigned else arith.FPToSIOp)(value, to_type))
        raise VerifyException(f"no conversion of elements from {from_type} to {to_type}")

    def apply(self, function: str, *values: SSAValue) -> SSAValue:
        """The scalar `function` of `values`, which have one type.

        Raises:
            VerifyException: the type has no such function.
        """
        kind = values[-1].type
        if function == "select":
            return self.emit(arith.SelectOp(*values))
        if function == "square":
            return self.apply("mul", values[0], values[0])
        if function == "reciprocal" and isinstance(kind, AnyFloat):
            one = self.emit(arith.ConstantOp(FloatAttr(1.0, kind)))
            return self.apply("div", one, values[0])
        op_class = _class_of(function, kind)
        if op_class is None:
            raise VerifyException(f"no scalar operation '{function}' on elements of type {kind}")
        return self.emit(op_class(*values))


def _class_of(function: str, kind: Attribute) -> Callable[..., Operation] | None:
    if isinstance(kind, AnyFloat):
        if function in _MATH:
            return getattr(math, _MATH[function])
        return _FLOAT.get(function)
    if (width := integer_width(kind)) is not None:
        return (_BOOLEAN if width == 1 else _INTEGER).get(function)
    return _INTEGER.get(function) if isinstance(kind, IndexType) else None


def named_body(combine: str, arg_types: Sequence[Attribute], *, unsigned: bool = False) -> Region:
    """The body of a contraction, convolution or pooling: (lhs, rhs, out) to the new out.

    A pooling's second argument, the window, is not read.

    Raises:
        VerifyException: the element types allow no such body.
    """
    unsigned = unsigned or combine.endswith("_unsigned")
    body = BodyBuilder(arg_types, unsigned=unsigned)
    lhs, rhs, out = body.block.args
    if isinstance(out.type, ComplexType):
        raise VerifyException("complex elements are not supported")
    lhs_cast = body.cast(lhs, out.type)
    if combine != MUL_ADD:
        return body.region(body.apply(combine, out, lhs_cast))
    rhs_cast = body.cast(rhs, out.type)
    return body.region(body.apply("add", out, body.apply("mul", lhs_cast, rhs_cast)))


def elementwise_body(function: str, arg_types: Sequence[Attribute]) -> Region:
    """The body of an elementwise op: the inputs, cast to the output's type, through `function`.

    The condition of a `select` is not cast.

    Raises:
        VerifyException: the element types allow no such body.
    """
    body = BodyBuilder(arg_types, unsigned=function.endswith("_unsigned"))
    *inputs, out = body.block.args
    uncast = inputs[:1] if function == "select" else []
    cast = [body.cast(value, out.type) for value in inputs[len(uncast) :]]
    return body.region(body.apply(function, *uncast, *cast))


def copy_body(arg_types: Sequence[Attribute]) -> Region:
    """The body that yields its first argument as it is."""
    body = BodyBuilder(arg_types)
    return body.region(body.block.args[0])
