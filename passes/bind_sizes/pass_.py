"""`bind-sizes{sizes="4x8","3x3"}`: a function on tensors of dynamic sizes, for one set of shapes.

    rewrite: func @main(%x: tensor<?x8xf32>)           -->  func @main(%x: tensor<4x8xf32>)
               %n = tensor.dim %x, %c0                        %e = tensor.empty() : tensor<4x8xf32>
               %e = tensor.empty(%n) : tensor<?x8xf32>        …

`sizes` holds one shape for each argument of `function`, `scalar` for one of rank 0 or a number.
In the order of the text, sizes become numbers (`tensor.dim`, integer arithmetic on constants,
`affine.apply`), numbers move into the static lists of slices, pads and reshapes, and results take
static types (`convir.passes.bind_sizes.size_rules`). Nothing is computed differently: a static
function of those shapes would be the same text.

Preconditions: every shape fits its argument; every size follows from the shapes; and sizes that
must be one number are, which each op's verifier says of its static types. The error stands at the
op. Other functions are left alone, and none calls this one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects import affine, arith, func, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, FunctionType, TensorType
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import PassFailedException, VerifyException

from convir.analysis.slices import index_of
from convir.analysis.values.scalars import EVALUATED, Constant, constant_of, fold, scalar_constant
from convir.dialects.compat.errors import reason_of
from convir.dialects.diagnostics import DiagnosticError, error_at
from convir.passes.bind_sizes.size_rules import (
    SCALAR,
    ContradictionError,
    UnboundSizeError,
    bind_op,
    merged,
    resized,
    shape_of,
    spelled,
    tensor_type,
)
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue

    from convir.passes.bind_sizes.size_rules import Shape

MAX_SIZE = (1 << 63) - 1
"""The largest size of a tensor type."""

_SHAPE = re.compile(r"\d+(x\d+)*")


class OpenSizeError(DiagnosticError):
    """A size depends on more than shapes, or stands where no rule reaches."""


def bind(function: func.FuncOp, shapes: Sequence[Shape]) -> int:
    """Make every type in `function` static; returns how many ops have changed their types.

    Args:
        function: a function on tensors, not an `rt` program.
        shapes: the shape of every argument, `()` for a number.

    Raises:
        DiagnosticError: a shape does not fit its argument, sizes contradict each other, or one
            does not follow from the shapes (`OpenSizeError`); located at the op.
    """
    arguments = tuple(function.args)
    if len(shapes) != len(arguments):
        raise _error(function, f"takes {len(arguments)} arguments, not {len(shapes)}")
    for number, (argument, shape) in enumerate(zip(arguments, shapes, strict=True)):
        _bind_argument(function, argument, number, shape)
    if any(_is_open(value) for block in function.body.blocks for value in block.args):
        reason = "'func.func' op branches to a block with an argument of dynamic size"
        raise OpenSizeError(error_at(function, reason))
    binder = _Binder()
    for op in tuple(function.body.walk()):
        binder.bind(op)
    binder.sweep()
    _bind_signature(function)
    return binder.changed


def is_dynamic(function: func.FuncOp) -> bool:
    """Whether a tensor in `function` has a size that its type leaves open."""
    return any(_is_open(value) for value in function.args) or any(
        _is_open(result) for op in function.body.walk() for result in op.results
    )


def _is_open(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and DYNAMIC_INDEX in shape_of(value)


def _error(op: Operation, reason: str) -> DiagnosticError:
    return DiagnosticError(error_at(op, f"'{op.name}' op {reason}"))


def _bind_argument(function: func.FuncOp, value: SSAValue, number: int, shape: Shape) -> None:
    if not isinstance(value.type, TensorType):
        if shape:
            raise _error(function, f"argument {number} is {value.type}, not {spelled(shape)}")
        return
    declared = tensor_type(value)
    try:
        bound = resized(declared, merged(shape, declared.get_shape()))
    except ContradictionError:
        reason = f"argument {number} is {declared}, which {spelled(shape)} does not fit"
        raise _error(function, reason) from None
    if bound != declared:
        Rewriter.replace_value_with_new_type(value, bound)


def _bind_signature(function: func.FuncOp) -> None:
    terminator = function.body.blocks[-1].last_op
    outputs = tuple(function.function_type.outputs)
    if isinstance(terminator, func.ReturnOp):
        returned = tuple(terminator.arguments)
        for number, (value, declared) in enumerate(zip(returned, outputs, strict=True)):
            if not isinstance(declared, TensorType) or value.type == declared:
                continue
            try:
                merged(shape_of(value), declared.get_shape())
            except ContradictionError as error:
                raise _error(terminator, f"result {number} {error}") from None
        outputs = tuple(value.type for value in returned)
    inputs = [argument.type for argument in function.args]
    function.properties["function_type"] = FunctionType.from_lists(inputs, outputs)


@dataclass
class _Binder:
    """Walks a function in the order of the text; operands are static when their reader is met."""

    changed: int = 0
    _constants: list[arith.ConstantOp] = field(default_factory=list[arith.ConstantOp])
    """Constants that may have lost their last reader."""

    def bind(self, op: Operation) -> None:
        """Fold `op` if it is a size, or give it static types.

        Raises:
            DiagnosticError: that cannot be done.
        """
        for block in (block for region in op.regions for block in region.blocks):
            if any(_is_open(argument) for argument in block.args):
                reason = f"'{op.name}' op has a block argument of dynamic size"
                raise OpenSizeError(error_at(op, reason))
        number = _number(op)
        if number is not None:
            constant = arith.ConstantOp(number)
            self._release(op)
            self._constants.append(constant)
            Rewriter.replace_op(op, constant)
            return
        self._release(op)
        before = tuple(op.result_types)
        try:
            bound = bind_op(op)
        except UnboundSizeError as error:
            raise OpenSizeError(error_at(op, f"'{op.name}' op {error}")) from None
        except ContradictionError as error:
            raise _error(op, str(error)) from None
        if bound is None:
            self.changed += 1
            return
        if any(_is_open(result) for result in bound.results):
            reason = f"'{op.name}' op has a result of dynamic size that no rule binds"
            raise OpenSizeError(error_at(bound, reason))
        self.changed += tuple(bound.result_types) != before
        _check(bound)

    def sweep(self) -> None:
        """Remove the constants that nothing reads any more."""
        for constant in dict.fromkeys(self._constants):
            if constant.parent is not None and not constant.result.uses:
                Rewriter.erase_op(constant)

    def _release(self, op: Operation) -> None:
        owners = (operand.owner for operand in op.operands)
        self._constants += [owner for owner in owners if isinstance(owner, arith.ConstantOp)]


def _check(op: Operation) -> None:
    """Whether the sizes of `op` fit each other.

    Raises:
        DiagnosticError: they do not.
    """
    if not any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results)):
        return
    if isinstance(op, func.ReturnOp):
        return
    try:
        op.verify_()
    except VerifyException as error:
        raise _error(op, f"cannot have these sizes: {reason_of(error)}") from error


def _number(op: Operation) -> Constant | None:
    """What `op` computes, if that is a number that follows from constants and static shapes."""
    match op:
        case tensor.DimOp():
            dim = index_of(op.index)
            shape = shape_of(op.source)
            if not isinstance(dim, int) or not 0 <= dim < len(shape):
                return None
            return constant_of(shape[dim], op.result.type)
        case affine.ApplyOp() | affine.MinOp():
            return _affine_number(op)
        case arith.SelectOp():
            condition = scalar_constant(op.cond)
            chosen = op.lhs if condition is not None and condition.value.data else op.rhs
            return None if condition is None else scalar_constant(chosen)
        case _ if op.name in EVALUATED and len(op.results) == 1:
            constant = all(scalar_constant(operand) is not None for operand in op.operands)
            return fold(op) if constant else None
        case _:
            return None


def _affine_number(op: affine.ApplyOp | affine.MinOp) -> Constant | None:
    operands = [index_of(operand) for operand in op.operands]
    known = [operand for operand in operands if isinstance(operand, int)]
    if len(known) < len(operands):
        return None
    affine_map = op.map.data
    try:
        values = affine_map.eval(known[: affine_map.num_dims], known[affine_map.num_dims :])
    except ZeroDivisionError:
        return None
    return constant_of(min(values), op.result.type)


def parse_shape(text: str) -> Shape:
    """The shape spelled `4x8`, or `scalar`.

    Raises:
        PassFailedException: the text spells no shape.
    """
    if text == SCALAR:
        return ()
    if _SHAPE.fullmatch(text) is None:
        raise PassFailedException(f"'{text}' is not a shape such as 4x8 or {SCALAR}")
    shape = tuple(map(int, text.split("x")))
    if max(shape) > MAX_SIZE:
        raise PassFailedException(f"'{text}' has a size that no index holds")
    return shape


def _refuse_callers(module: ModuleOp, function: func.FuncOp) -> None:
    for op in module.walk():
        if isinstance(op, func.CallOp) and op.callee.string_value() == function.sym_name.data:
            raise _error(op, f"calls {op.callee}, whose sizes cannot be bound alone")


@dataclass(frozen=True)
class BindSizesPass(ModulePass):
    """Make one function static for given shapes of its arguments."""

    name = "bind-sizes"

    sizes: tuple[str, ...] = ()
    """The shape of every argument, `4x8`; `scalar` for rank 0."""
    function: str = "main"
    """The function to bind."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Bind the function in place.

        Raises:
            DiagnosticError: the sizes do not fit it, or each other.
            PassFailedException: there is no such function, or a size is malformed.
        """
        shapes = [parse_shape(text) for text in self.sizes]
        function = SymbolTable.lookup_symbol(op, self.function)
        if not isinstance(function, func.FuncOp) or function.is_declaration:
            raise PassFailedException(f"there is no function '{self.function}' with a body")
        _refuse_callers(op, function)
        dynamic = is_dynamic(function)
        changed = bind(function, shapes)
        if dynamic:
            remarks.fired(self.name, function, f"{changed} ops took static types")
        else:
            remarks.refused(self.name, function, "every size is static already")
