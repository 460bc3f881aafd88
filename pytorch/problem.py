"""A signature as IR: the function that computes one direction of a convolution.

A transposed convolution is the backward data direction of a problem whose input is its output;
its own backward data direction is that problem's forward one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.dialects.conv.geometry import Direction, Geometry
from convir.dialects.conv.problem import ConvProblem
from convir.frontends.conv_module import biased_function_of, function_of
from convir.pytorch.layouts import letters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.dialects.builtin import ModuleOp

    from convir.pytorch.layouts import Order
    from convir.pytorch.signature import Pass, Placement, Signature

_DIRECTIONS: Mapping[Pass, Direction] = {
    "forward": Direction.FPROP,
    "backward data": Direction.DGRAD,
    "backward weight": Direction.WGRAD,
}
_TRANSPOSED: Mapping[Direction, Direction] = {
    Direction.FPROP: Direction.DGRAD,
    Direction.DGRAD: Direction.FPROP,
    Direction.WGRAD: Direction.WGRAD,
}


def problem_of(signature: Signature, placed: Placement) -> ConvProblem | Refusal:
    """The problem of a signature, or why the compiler has no such problem."""
    options = signature.options
    # By aten's roles: input, filter, output.
    shapes, orders = _by_role(signature, placed)
    rank = len(options.stride)
    x, w, y = shapes
    x_order, w_order, y_order = orders
    if options.transposed:
        x, y, x_order, y_order = y, x, y_order, x_order
    geometry = Geometry(
        letters(x_order, rank),
        letters(w_order, rank, is_filter=True),
        letters(y_order, rank),
        strides=options.stride,
        pad_low=options.padding,
        pad_high=options.padding,
        dilations=options.dilation,
        groups=options.groups,
    )
    direction = _DIRECTIONS[signature.direction]
    if options.transposed:
        direction = _TRANSPOSED[direction]
    try:
        problem = ConvProblem(direction, signature.dtype, x[0], x[1], w[0], x[2:], w[2:], geometry)
    except ValueError as error:
        return Refusal(str(error))
    if problem.output_spatial != y[2:] or y[:2] != (x[0], w[0]) or x[1] != w[1] * options.groups:
        return Refusal("the sizes are none of a convolution that the compiler knows")
    return problem


def module_of(problem: ConvProblem, *, bias: bool) -> ModuleOp:
    """A module whose function `main` computes `problem`, and adds a bias if there is one."""
    from xdsl.dialects.builtin import ModuleOp  # noqa: PLC0415

    made = biased_function_of("main", problem) if bias else function_of("main", problem)
    return ModuleOp([made])


def _by_role(
    signature: Signature, placed: Placement
) -> tuple[tuple[tuple[int, ...], ...], tuple[Order, ...]]:
    """Shapes and orders of aten's input, filter and output."""
    roles: Mapping[Pass, tuple[int, int, int]] = {
        "forward": (0, 1, 2),
        "backward data": (2, 1, 0),
        "backward weight": (0, 2, 1),
    }
    tensors = (*signature.operands, signature.result)
    orders = (*placed.operands, placed.result)
    which = roles[signature.direction]
    return tuple(tensors[i].shape for i in which), tuple(orders[i] for i in which)
