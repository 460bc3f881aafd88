"""`func`, `scf`, `affine` and the regions that only group: Python control flow over arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import AffineMapAttr, SymbolRefAttr

from convir.runtime.reference.errors import EvaluationError
from convir.runtime.reference.interpreter import Frame, Handlers, uniform
from convir.runtime.reference.loops import evaluate_affine

if TYPE_CHECKING:
    from xdsl.ir import Block, Operation

    from convir.runtime.reference.dtypes import Array

HANDLERS = Handlers()


@HANDLERS.handles("func.call")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    callee = op.properties.get("callee")
    name = callee.string_value() if isinstance(callee, SymbolRefAttr) else ""
    function = frame.interpreter.functions.get(name)
    if function is None:
        raise EvaluationError(op, f"calls '{name}', which is not in the module")
    return frame.interpreter.call(function, operands)


@HANDLERS.handles("scf.for")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    lower, upper, step = (uniform(op, value, "bound") for value in operands[:3])
    if step <= 0:
        raise EvaluationError(op, f"has a step of {step}")
    carried = operands[3:]
    block = op.regions[0].block
    for index in range(lower, upper, step):
        counter = np.array(index, operands[0].dtype)
        carried = _run(op, block, (counter, *carried), frame)
    return carried


@HANDLERS.handles("scf.if")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    region = op.regions[0 if uniform(op, operands[0], "condition") else 1]
    return _run(op, region.block, (), frame) if region.blocks else ()


@HANDLERS.handles("scf.while")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    before, after = (region.block for region in op.regions)
    carried = operands
    while True:
        condition, *passed = _run(op, before, carried, frame)
        if not uniform(op, condition, "condition"):
            return tuple(passed)
        carried = _run(op, after, tuple(passed), frame)


@HANDLERS.handles("scf.execute_region")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return _run(op, op.regions[0].block, (), frame)


@HANDLERS.handles("affine.apply", "affine.min", "affine.max")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    attribute = op.properties.get("map")
    if not isinstance(attribute, AffineMapAttr):
        raise EvaluationError(op, "has no map")
    affine_map = attribute.data
    dims, symbols = operands[: affine_map.num_dims], operands[affine_map.num_dims :]
    values = [evaluate_affine(expr, dims, symbols) for expr in affine_map.results]
    result = values[0]
    for value in values[1:]:
        result = np.maximum(result, value) if op.name == "affine.max" else np.minimum(result, value)
    return (result,)


def _run(
    op: Operation, block: Block, arguments: tuple[Array, ...], frame: Frame
) -> tuple[Array, ...]:
    """Run a block of `op` on `arguments`; what it yields."""
    interpreter = frame.interpreter
    interpreter.assign(op, block.args, arguments, frame)
    return interpreter.run_block(block, frame)
