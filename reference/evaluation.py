"""The entry of the reference: arrays in, arrays out."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.lib.array_utils import byte_bounds
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp

from convir.analysis.dependence import operands_of
from convir.dialects.kernel import ops as kernel
from convir.reference import blobs
from convir.reference.dtypes import Array, FloatFormat, convert, dtype_of, element_type_of
from convir.reference.errors import EvaluationError
from convir.reference.interpreter import (
    DEFAULT_WORKSPACE_BYTES,
    Frame,
    Handlers,
    Interpreter,
    Observer,
    has_shape,
    require_memory,
)
from convir.reference.limits import DEFAULT_MAX_STEPS
from convir.reference.ops import (
    arithmetic,
    control,
    convolution,
    linalg,
    programs,
    tensors,
    transcendental,
)
from convir.reference.ops.programs import is_program, tensor_types, uninitialised

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation, SSAValue


HANDLERS = Handlers(
    {
        **arithmetic.HANDLERS,
        **blobs.HANDLERS,
        **control.HANDLERS,
        **convolution.HANDLERS,
        **linalg.HANDLERS,
        **programs.HANDLERS,
        **tensors.HANDLERS,
        **transcendental.HANDLERS,
    }
)
"""Every operation that the reference can evaluate."""


def evaluate(
    module: ModuleOp,
    function: str,
    args: Sequence[npt.ArrayLike],
    *,
    float_format: FloatFormat = FloatFormat.DECLARED,
    workspace_bytes: int = DEFAULT_WORKSPACE_BYTES,
    observer: Observer | None = None,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> tuple[Array, ...]:
    """Call a function of `module` on `args` and return its results, as fresh arrays.

    `args` are one array or scalar per argument, of the shape and dtype that the argument's type
    says (`?` is any size; bf16 is ml_dtypes' bfloat16). With `FloatFormat.WIDE` floats of any
    dtype are taken, and every float is computed in f64. `workspace_bytes` bounds what one
    operation takes besides its operands and results, `max_steps` how many blocks are run, of
    loops, branches and calls. An `rt` program takes its input buffers and
    returns its output buffers; `observer` sees nothing of it.

    Raises:
        ValueError: there is no such function, or an argument does not match its type.
        EvaluationError: an operation is unknown to the reference, undefined on its operands, takes
            more memory than there is, or more steps than it may.
    """
    func = find_function(module, function)
    types, result_types = tensor_types(func)
    if len(types) != len(args):
        raise ValueError(f"function '{function}' takes {len(types)} arguments, not {len(args)}")
    arrays = [
        _argument(function, position, arg, declared, float_format)
        for position, (arg, declared) in enumerate(zip(args, types, strict=True))
    ]
    is_function = not is_program(func)
    interpreter = Interpreter(
        _functions(module),
        HANDLERS,
        float_format=float_format,
        workspace_bytes=workspace_bytes,
        observer=observer if is_function else None,
        max_steps=max_steps,
    )
    with np.errstate(all="ignore"):
        if is_function:
            results = interpreter.call(func, func.body, arrays)
        else:
            results = tuple(map(_output, result_types))
            interpreter.call(
                func, func.body, [*(np.asarray(array, order="C") for array in arrays), *results]
            )
    for result in results:
        require_memory(func, result.nbytes)
    given = _Spans(arrays)
    return tuple(_owned(result, given) for result in results)


def evaluate_ops(
    ops: Sequence[Operation], wanted: Collection[SSAValue]
) -> dict[SSAValue, Array | EvaluationError]:
    """Evaluate ops that read nothing but one another.

    Args:
        ops: in an order in which each stands behind what it reads.
        wanted: results of some of them.

    Returns:
        Each wanted value as a fresh array, or the error for which it has none. Other values are
        dropped after their last use.
    """
    interpreter = Interpreter(
        {},
        HANDLERS,
        float_format=FloatFormat.DECLARED,
        workspace_bytes=DEFAULT_WORKSPACE_BYTES,
    )
    frame = Frame(interpreter)
    reads = [tuple(operands_of(op)) for op in ops]
    uses = Counter(value for values in reads for value in values)
    uses.update(wanted)
    errors: dict[SSAValue, EvaluationError] = {}
    with np.errstate(all="ignore"):
        for op, values in zip(ops, reads, strict=True):
            error = next((errors[value] for value in values if value in errors), None)
            if error is None:
                try:
                    interpreter.run_op(op, frame)
                except EvaluationError as raised:
                    error = raised
            if error is not None:
                errors |= dict.fromkeys(op.results, error)
            uses.subtract(values)
            for value in (*values, *op.results):
                if not uses[value]:
                    frame.values.pop(value, None)
    return {
        value: errors[value] if value in errors else _owned(frame.values.pop(value), _Spans(()))
        for value in wanted
    }


def find_function(module: ModuleOp, name: str) -> FuncOp:
    """The function of `module` called `name`.

    Raises:
        ValueError: there is none with a body.
    """
    functions = _functions(module)
    func = functions.get(name)
    if not isinstance(func, FuncOp) or not func.body.blocks:
        known = ", ".join(functions) or "none"
        raise ValueError(f"there is no function '{name}' with a body; the module has: {known}")
    return func


def _functions(module: ModuleOp) -> dict[str, Operation]:
    """What a call in `module` can name: functions and kernels."""
    return {op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp | kernel.FuncOp)}


def _output(declared: Attribute) -> Array:
    """A fresh output buffer of a program, of a tensor type of its shape."""
    dtype = dtype_of(element_type_of(declared))
    if dtype is None or not isinstance(declared, TensorType):
        raise ValueError(f"a program cannot write a buffer like {declared}")
    return uninitialised(cast("TensorType[Attribute]", declared).get_shape(), dtype)


def _argument(
    function: str,
    position: int,
    arg: npt.ArrayLike,
    declared: Attribute,
    float_format: FloatFormat,
) -> Array:
    array = np.asarray(arg)
    where = f"argument #{position} of '{function}'"
    if not has_shape(declared, array.shape) or (
        array.ndim and declared == element_type_of(declared)
    ):
        raise ValueError(f"{where} is {declared}, but got an array of shape {array.shape}")
    dtype = dtype_of(element_type_of(declared))
    if dtype is None:
        raise ValueError(f"{where} is {declared}, which has no NumPy dtype")
    if float_format is FloatFormat.WIDE:
        wide = dtype_of(element_type_of(declared), float_format)
        return array if wide is None else convert(array, wide)
    if array.dtype != dtype:
        raise ValueError(f"{where} is {declared}, but got an array of dtype {array.dtype}")
    return array


class _Spans:
    """Where arrays lie, so that one that shares memory with any is found in logarithmic time."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        spans = sorted(byte_bounds(array) for array in arrays if array.size)
        self._begins = [begin for begin, _ in spans]
        self._ends = [*accumulate((end for _, end in spans), max)]

    def overlap(self, array: Array) -> bool:
        """Whether `array` may share memory with one of them."""
        if not array.size:
            return False
        begin, end = byte_bounds(array)
        before = bisect_left(self._begins, end)
        return before > 0 and self._ends[before - 1] > begin


def _owned(result: Array, given: _Spans) -> Array:
    """`result` as an array that the caller, who has what is `given`, may keep and write."""
    result = np.asarray(result)
    if given.overlap(result):
        return np.array(result, order="C")
    flags = result.flags
    return result if flags.writeable and flags.c_contiguous else np.array(result, order="C")
