"""The problems of a MIOpenDriver line as a module: one function, one conv op each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.builder import Builder
from xdsl.dialects import arith, func, linalg, tensor
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.rewriter import InsertPoint

from convir.dialects.conv.geometry import Direction
from convir.dialects.conv.ops import CONV_OPS, ELEMENT_TYPES
from convir.frontends.emitter import Emitter
from convir.frontends.scalar_functions import rounded, widened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    from xdsl.ir import SSAValue

    from convir.dialects.conv.problem import ConvProblem
    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.miopen import ConvLine

SOURCE_ATTRIBUTE = "convir.source"
"""The module attribute that holds the text which a module was imported from."""

_ARGUMENT_NAMES: Mapping[Direction, tuple[str, str, str]] = {
    Direction.FPROP: ("x", "w", "y"),
    Direction.DGRAD: ("dy", "w", "dx"),
    Direction.WGRAD: ("x", "dy", "dw"),
}
"""What the two operands and the result are called."""

_TRANSPOSED_NAMES: Mapping[Direction, tuple[str, str, str]] = {
    Direction.DGRAD: ("x", "w", "y"),
    Direction.FPROP: ("dy", "w", "dx"),
    Direction.WGRAD: ("dy", "x", "dw"),
}
"""Likewise of a transposed line, whose problems call its input the output."""


def module_of_line(line: ConvLine) -> ModuleOp:
    """A module with a function for each problem of `line`, which it names as its source.

    The arguments are (x, w), (dy, w) or (x, dy) of the line, a transposed one too.
    """
    functions = [
        function_of(name, problem, transposed=line.transposed)
        for name, problem in line.problems.items()
    ]
    return ModuleOp(list(functions), {SOURCE_ATTRIBUTE: StringAttr(line.text)})


def function_of(
    name: str,
    problem: ConvProblem,
    weights: npt.NDArray[Any] | None = None,
    *,
    transposed: bool = False,
) -> func.FuncOp:
    """A function of the problem's two operands (in its layouts) that returns its result.

    Args:
        name: of the function.
        problem: what it computes.
        weights: the elements of the second operand, in its layout and dtype, which is then a
            constant of the function; an argument if None.
        transposed: whether the problem is of a transposed convolution: arguments are called as
            that has them, and its backward weight takes its input first.
    """
    element = ELEMENT_TYPES[problem.dtype]
    lhs_type, rhs_type, result_type = (TensorType(element, shape) for shape in problem.shapes)
    is_swapped = transposed and problem.direction is Direction.WGRAD and weights is None
    arguments = (lhs_type, rhs_type) if weights is None else (lhs_type,)
    if is_swapped:
        arguments = (rhs_type, lhs_type)
    function = func.FuncOp(name, (arguments, (result_type,)))
    block = function.body.block
    builder = Builder(InsertPoint.at_end(block))
    if weights is None:
        lhs, rhs = reversed(block.args) if is_swapped else block.args
    else:
        elements = DenseIntOrFPElementsAttr(rhs_type, BytesAttr(weights.tobytes()))
        (lhs,), rhs = block.args, builder.insert(arith.ConstantOp(elements)).result
    zero = builder.insert(arith.ConstantOp(FloatAttr(0.0, element)))
    empty = builder.insert(tensor.EmptyOp((), result_type))
    init = builder.insert(linalg.ops.FillOp((zero.result,), (empty.tensor,), (result_type,)))
    op = builder.insert(
        CONV_OPS[problem.direction](
            lhs, rhs, init.res[0], problem.geometry, ELEMENT_TYPES[problem.accumulator]
        )
    )
    builder.insert(func.ReturnOp(op.result))
    names = _TRANSPOSED_NAMES if transposed else _ARGUMENT_NAMES
    lhs.name_hint, rhs.name_hint, op.result.name_hint = names[problem.direction]
    zero.result.name_hint, init.res[0].name_hint = "zero", "init"
    return function


def biased_function_of(name: str, problem: ConvProblem) -> func.FuncOp:
    """A function of the two operands of a forward or backward data problem, and of the bias of each
    channel of its result, that returns their sum; half precision is rounded once.

    Args:
        name: of the function.
        problem: whose result is an activation.
    """
    element, wide = ELEMENT_TYPES[problem.dtype], ELEMENT_TYPES[problem.accumulator]
    role = problem.direction.roles[2]
    layout = problem.geometry.layouts[0 if role == "input" else 2]
    channels = problem.c if role == "input" else problem.k
    lhs_type, rhs_type, result_type = (TensorType(element, shape) for shape in problem.shapes)
    arguments = (lhs_type, rhs_type, TensorType(element, (channels,)))
    function = func.FuncOp(name, (arguments, (result_type,)))
    lhs, rhs, bias = function.body.block.args
    emit = Emitter(function.body.block, UnknownLoc())
    init = emit.filled(0, result_type.get_shape(), wide)
    sums = emit.insert(CONV_OPS[problem.direction](lhs, rhs, init, problem.geometry, wide))
    spread = [1] * layout.rank
    spread[layout.channel_axis] = channels

    def add(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        total = body.insert(arith.AddfOp(args[0], widened(body, args[1], wide)))
        return rounded(body, total, element)

    result = emit.elementwise([sums, emit.reshape(bias, spread)], add, element)
    emit.block.add_op(func.ReturnOp(result))
    for value, hint in zip((lhs, rhs), _ARGUMENT_NAMES[problem.direction], strict=False):
        value.name_hint = hint
    bias.name_hint = "bias"
    return function
