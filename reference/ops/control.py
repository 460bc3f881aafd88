"""`func`, `scf`, `affine` and the regions that only group: Python control flow over arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import AffineMapAttr, SymbolRefAttr

from convir.reference.errors import EvaluationError
from convir.reference.interpreter import Frame, Handlers, uniform
from convir.reference.loops import evaluate_affine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Block, Operation, Region, SSAValue

    from convir.reference.dtypes import Array

HANDLERS = Handlers()


@HANDLERS.handles("func.call", "kernel.call")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    callee = op.properties.get("callee")
    name = callee.string_value() if isinstance(callee, SymbolRefAttr) else ""
    function = frame.interpreter.functions.get(name)
    if function is None:
        raise EvaluationError(op, f"calls '{name}', which is not in the module")
    body = function.regions[0]
    try:
        results = frame.interpreter.call(op, body, operands)
    except RecursionError:
        raise EvaluationError(op, f"calls '{name}', too many calls deep") from None
    frame.interpreter.leave(op, _yielded(op, body.blocks[0]), frame)
    return results


@HANDLERS.handles("scf.for")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    lower, upper, step = (uniform(op, value, "bound") for value in operands[:3])
    if step <= 0:
        raise EvaluationError(op, f"has a step of {step}")
    carried, sources = operands[3:], op.operands[3:]
    block = op.regions[0].block
    frame.interpreter.require_steps(op, max(0, -(-(upper - lower) // step)))
    for index in range(lower, upper, step):
        counter = np.array(index, operands[0].dtype)
        carried = frame.interpreter.enter(
            op, block, (counter, *carried), (op.operands[0], *sources), frame
        )
        sources = _yielded(op, block)
    frame.interpreter.leave(op, sources, frame)
    return carried


@HANDLERS.handles("scf.if")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    region = op.regions[0 if uniform(op, operands[0], "condition") else 1]
    return _run_region(op, region, frame) if region.blocks else ()


@HANDLERS.handles("scf.while")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    before, after = (region.block for region in op.regions)
    carried, sources = operands, op.operands
    while True:
        condition, *passed = frame.interpreter.enter(op, before, carried, sources, frame)
        sources = _yielded(op, before)[1:]
        if not uniform(op, condition, "condition"):
            frame.interpreter.leave(op, sources, frame)
            return tuple(passed)
        carried = frame.interpreter.enter(op, after, passed, sources, frame)
        sources = _yielded(op, after)


@HANDLERS.handles("scf.execute_region", "kernel.region")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return _run_region(op, op.regions[0], frame)


def _run_region(op: Operation, region: Region, frame: Frame) -> tuple[Array, ...]:
    """Run a region without arguments; its results are what it yields."""
    results = frame.interpreter.enter(op, region.block, (), (), frame)
    frame.interpreter.leave(op, _yielded(op, region.block), frame)
    return results


def _yielded(op: Operation, block: Block) -> Sequence[SSAValue]:
    """The operands of the terminator of a block of `op`."""
    if block.last_op is None:
        raise EvaluationError(op, "has a block without a terminator")
    return block.last_op.operands


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
