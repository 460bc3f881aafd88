"""`linalg` on tensors: whole nests at once, by the cheapest of four ways.

    multiply-add sum        matrix products                              (multiply_add)
    all results distinct    the body on whole arrays
    recognised combiner     the body on whole arrays, then a NumPy reduction
    anything else           a Python loop over the reduction only, arrays over the rest

Arrays over all loops are cut into boxes that fit the interpreter's workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import OpResult
from xdsl.ir.affine import AffineDimExpr, AffineMap

from convir.analysis.structured import structured
from convir.reference.dtypes import BOOL, Array, convert, is_narrow_float
from convir.reference.errors import EvaluationError
from convir.reference.interpreter import Frame, Handlers
from convir.reference.loops import boxes
from convir.reference.ops.arithmetic import back_to, unsigned
from convir.reference.ops.multiply_add import (
    accumulate_products,
    is_blas_shaped,
    multiply_add,
)
from convir.reference.ops.nest import REDUCTION, Nest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue

HANDLERS = Handlers()

_BYTES_PER_VALUE = 8
"""What one value of the body is counted as when a nest is cut to the workspace."""


@HANDLERS.handles("linalg.*", "linalg.reduce")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    nest = nest_of(op, operands, frame)
    if nest is None:
        raise EvaluationError(op, "is not an operation that the reference can evaluate")
    return run_nest(nest)


def nest_of(op: Operation, operands: Sequence[Array], frame: Frame) -> Nest | None:
    """The loop nest of `op` on `operands`; None if it is not a structured op."""
    view = structured(op)
    if view is not None:
        inputs = len(view.inputs)
        return Nest.of(op, operands, inputs, view.maps, view.iterators, view.body, frame)
    if op.name != "linalg.reduce":
        return None
    dimensions = _dimensions(op)
    inputs, rank = len(operands) // 2, operands[0].ndim
    kept = tuple(AffineDimExpr(dim) for dim in range(rank) if dim not in dimensions)
    maps = [AffineMap.identity(rank)] * inputs + [AffineMap(rank, 0, kept)] * inputs
    iterators = [REDUCTION if dim in dimensions else "parallel" for dim in range(rank)]
    return Nest.of(op, operands, inputs, maps, iterators, op.regions[0].block, frame)


@HANDLERS.handles("linalg.fill")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    value, init = operands
    return (np.broadcast_to(convert(np.asarray(value), init.dtype), init.shape),)


@HANDLERS.handles("linalg.broadcast")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    source, init = operands
    return (np.broadcast_to(np.expand_dims(source, _dimensions(op)), init.shape),)


@HANDLERS.handles("linalg.index")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    dim = op.properties.get("dim")
    if not isinstance(dim, IntegerAttr) or frame.loops is None:
        raise EvaluationError(op, "stands outside a structured op")
    return (frame.loops.index(dim.value.data),)


def _dimensions(op: Operation) -> tuple[int, ...]:
    dimensions = op.properties.get("dimensions", op.attributes.get("dimensions"))
    if not isinstance(dimensions, DenseArrayBase):
        raise EvaluationError(op, "has no dimensions")
    return tuple(int(dim) for dim in dimensions.get_values())


def run_nest(nest: Nest) -> tuple[Array, ...]:
    """The results of a nest.

    Raises:
        EvaluationError: an iteration reads or writes outside an operand, or an op of the body has
            no meaning.
    """
    if 0 in nest.bounds:
        return nest.result_arrays()
    sums = multiply_add(nest)
    if sums is not None and is_blas_shaped(nest, nest.inits[0].dtype):
        results = nest.result_arrays()
        accumulate_products(nest, sums, results[0])
        return results
    if not nest.sequential_loops():
        return _moved(nest) or _mapped(nest)
    combiners = combiners_of(nest)
    if combiners is None or not nest.is_reduction:
        return _stepped(nest)
    if any(map(_rounds_every_step, combiners, nest.inits)):
        return _stepped(nest)
    return _reduced(nest, combiners)


def _moved(nest: Nest) -> tuple[Array, ...] | None:
    """The results of a body that only yields inputs, as views; None for any other body."""
    arguments = nest.input_arguments
    views: list[Array] = []
    for value, init, indexing_map in zip(nest.yielded, nest.inits, nest.init_maps(), strict=True):
        position = next((i for i, argument in enumerate(arguments) if argument is value), None)
        dims = [e.position for e in indexing_map.results if isinstance(e, AffineDimExpr)]
        if position is None or sorted(dims) != list(range(len(nest.bounds))):
            return None
        if len(dims) != len(indexing_map.results):
            return None
        view = np.broadcast_to(nest.input_views()[position], nest.bounds)
        views.append(convert(view.transpose(dims), init.dtype))
    return tuple(views)


def _mapped(nest: Nest) -> tuple[Array, ...]:
    """The results of a nest of which every iteration writes its own elements."""
    results = nest.result_arrays()
    targets = nest.writable(results)
    views = (*nest.input_views(), *targets)
    for box in boxes(nest.loops, _iterations(nest), _loop_order(nest)):
        values = nest.run_body(box, [box.of(view) for view in views], nest.yielded)
        nest.store(targets, box, values)
    return results


@dataclass(frozen=True)
class Combiner:
    """How one result is reduced: `yield combine(out, value)`."""

    op: Operation
    value: SSAValue
    ufunc: np.ufunc
    is_unsigned: bool


_UFUNCS: dict[str, np.ufunc] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": np.maximum,
    "arith.minui": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
}
_BITWISE = frozenset({"arith.andi", "arith.ori", "arith.xori"})
_ROUNDING = frozenset({"arith.addf", "arith.mulf"})


def combiners_of(nest: Nest) -> tuple[Combiner, ...] | None:
    """How each result is reduced, or None if one is not by a function that NumPy has."""
    found = [
        _combiner(value, argument, init)
        for value, argument, init in zip(nest.yielded, nest.init_arguments, nest.inits, strict=True)
    ]
    combiners = tuple(combiner for combiner in found if combiner is not None)
    return combiners if len(combiners) == len(found) else None


def _combiner(yielded: SSAValue, accumulator: SSAValue, init: Array) -> Combiner | None:
    op = yielded.op if isinstance(yielded, OpResult) else None
    if op is None or op.name not in _UFUNCS or accumulator.has_more_than_one_use():
        return None
    others = [operand for operand in op.operands if operand is not accumulator]
    if len(others) != 1:
        return None
    if init.dtype == BOOL and op.name not in _BITWISE:
        return None
    return Combiner(op, others[0], _UFUNCS[op.name], op.name.endswith("ui"))


def _rounds_every_step(combiner: Combiner, init: Array) -> bool:
    """Whether NumPy, which adds 16-bit floats in f32, would leave roundings out."""
    return is_narrow_float(init.dtype) and combiner.op.name in _ROUNDING


def _reduced(nest: Nest, combiners: Sequence[Combiner]) -> tuple[Array, ...]:
    results = nest.result_arrays()
    targets = nest.writable(results)
    views = (*nest.input_views(), *targets)
    skipped = {combiner.op for combiner in combiners}
    wanted = [combiner.value for combiner in combiners]
    order = [*_loop_order(nest), *nest.reduction_loops]
    for box in boxes(nest.loops, _iterations(nest), order):
        values = nest.run_body(box, [box.of(view) for view in views], wanted, skipped)
        for combiner, target, value in zip(combiners, targets, values, strict=True):
            _reduce_into(box.of(target), combiner, np.broadcast_to(value, box.sizes), nest)
    return results


def _reduce_into(part: Array, combiner: Combiner, values: Array, nest: Nest) -> None:
    read: Any = unsigned if combiner.is_unsigned else np.asarray
    reduced = combiner.ufunc.reduce(read(values), axis=nest.reduction_loops, keepdims=True)
    part[...] = back_to(combiner.ufunc(read(part), reduced), part.dtype)


def _stepped(nest: Nest) -> tuple[Array, ...]:
    """The results of any nest: the loops that clash one iteration at a time, the rest at once."""
    results = nest.result_arrays()
    targets = nest.writable(results)
    views = (*nest.input_views(), *targets)
    sequential = nest.sequential_loops()
    for box in boxes(nest.loops, _iterations(nest) * _trips(nest, sequential), _loop_order(nest)):
        for indices in product(*(range(box.starts[d], box.stops[d]) for d in sequential)):
            step = box
            for loop, index in zip(sequential, indices, strict=True):
                step = step.narrowed(loop, index, index + 1)
            values = nest.run_body(step, [step.of(view) for view in views], nest.yielded)
            nest.store(targets, step, values)
    return results


def _trips(nest: Nest, loops: Sequence[int]) -> int:
    return prod(nest.bounds[loop] for loop in loops)


def _iterations(nest: Nest) -> int:
    """How many iterations' values fit the workspace."""
    values = len(nest.body.args) + sum(len(op.results) for op in nest.body.ops)
    return max(1, nest.frame.interpreter.workspace_bytes // (values * _BYTES_PER_VALUE))


def _loop_order(nest: Nest) -> list[int]:
    """The parallel loops in the order of the first result's dimensions, outermost first."""
    if not nest.inits:
        return []
    dims = [e.position for e in nest.init_maps()[0].results if isinstance(e, AffineDimExpr)]
    sequential = nest.sequential_loops()
    return [dim for dim in dims if dim not in sequential]
