"""`rt` programs: memory is NumPy arrays that calls write, a launch is its kernel's body on tensors.

A buffer is an array that shares memory with what it is a view of, so a plan that lets two live
buffers overlap gives wrong results here as on any device. Arenas and allocations start as NaN.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, MemRefType, TensorType

from convir.dialects.rt import ops as rt
from convir.reference.blobs import elements_of
from convir.reference.dtypes import (
    FLOAT32,
    Array,
    DType,
    FloatFormat,
    constant,
    convert,
    is_narrow_float,
)
from convir.reference.errors import EvaluationError
from convir.reference.interpreter import Frame, Handlers

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Attribute, Operation, SSAValue

HANDLERS = Handlers()

_NAN_BYTE = 0xFF
"""All bytes of an uninitialised buffer: a NaN in every float type."""


def is_program(function: FuncOp) -> bool:
    """Whether a function is a program of runtime calls: its results are its last arguments."""
    return rt.PROGRAM_ATTR in function.attributes


def tensor_types(function: FuncOp) -> tuple[tuple[Attribute, ...], tuple[Attribute, ...]]:
    """What a function takes and returns, the buffers of a program as tensors."""
    declared = function.function_type
    if not is_program(function):
        return tuple(declared.inputs), tuple(declared.outputs)
    types = tuple(_as_tensor(buffer) for buffer in declared.inputs)
    outputs = function.attributes.get(rt.OUTPUTS_ATTR)
    written = outputs.value.data if isinstance(outputs, IntegerAttr) else 1
    return types[: len(types) - written], types[len(types) - written :]


def _as_tensor(buffer: Attribute) -> Attribute:
    if not isinstance(buffer, MemRefType):
        return buffer
    static = cast("MemRefType[Attribute]", buffer)
    return TensorType(static.element_type, static.get_shape())


def uninitialised(shape: tuple[int, ...], dtype: DType) -> Array:
    """A fresh buffer that nothing has written: NaN in every float."""
    size = prod(shape) * dtype.itemsize
    return np.full(size, _NAN_BYTE, np.uint8).view(dtype).reshape(shape)


def _buffer(op: Operation, value: SSAValue, frame: Frame) -> Array:
    """A fresh buffer of the type of `value`."""
    if frame.interpreter.float_format is not FloatFormat.DECLARED:
        raise EvaluationError(op, "lays out memory, which cannot be done in f64")
    shape = cast("MemRefType[Attribute]", value.type).get_shape()
    return uninitialised(shape, frame.dtype(op, value))


@HANDLERS.handles("rt.arena", "memref.alloc")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return (_buffer(op, op.results[0], frame),)


@HANDLERS.handles("rt.state")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return (np.zeros_like(_buffer(op, op.results[0], frame)),)


@HANDLERS.handles("rt.constant")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    tensor_type = cast("TensorType[Attribute]", _as_tensor(op.results[0].type))
    # Memory, which views may be of: one element that stands for all of them is none.
    return (np.asarray(elements_of(op, op.properties["value"], tensor_type), order="C"),)


@HANDLERS.handles("rt.view")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    assert isinstance(op, rt.ViewOp)
    shape, dtype = op.view.type.get_shape(), frame.dtype(op, op.view)
    start = op.offset.value.data
    raw = operands[0].reshape(-1).view(np.uint8)[start : start + prod(shape) * dtype.itemsize]
    return (raw.view(dtype).reshape(shape),)


@HANDLERS.handles("rt.fill")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    assert isinstance(op, rt.FillOp)
    value = constant(op.value, rt.element_type_of(op.out))
    if value is None:
        raise EvaluationError(op, f"fills with {op.value}")
    operands[0][...] = value
    return ()


@HANDLERS.handles("rt.copy")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    source, out = operands
    out[...] = source.reshape(out.shape)
    return ()


@HANDLERS.handles("rt.launch")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    assert isinstance(op, rt.LaunchOp)
    inputs = operands[: len(op.inputs)]
    outputs = operands[len(op.inputs) : len(op.inputs) + len(op.outputs)]
    function = frame.interpreter.functions.get(op.callee.string_value())
    if function is None:
        raise EvaluationError(op, f"launches {op.callee}, which is not in the module")
    results = frame.interpreter.call(op, function.regions[0], inputs)
    for out, result in zip(outputs, [np.array(result) for result in results], strict=True):
        out[...] = result  # a copy of what may be a view of an input in the same memory
    return ()


@HANDLERS.handles("rt.gemm")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    assert isinstance(op, rt.GemmOp)
    lhs, rhs, out = operands
    m, n, k = (op.size(name) for name in "mnk")
    wide = FLOAT32 if is_narrow_float(out.dtype) else out.dtype
    a = _matrices(op, "a", lhs, m, k, transposed=op.transpose_a is not None)
    b = _matrices(op, "b", rhs, k, n, transposed=op.transpose_b is not None)
    c = _matrices(op, "c", out, m, n, transposed=False)
    product = np.matmul(convert(a, wide), convert(b, wide))
    if op.accumulate is not None:
        product = product + convert(c, wide)
    c[...] = convert(product, out.dtype)
    return ()


def _matrices(
    op: rt.GemmOp, name: str, buffer: Array, rows: int, columns: int, *, transposed: bool
) -> Array:
    """A window onto a buffer as (batch, rows, columns)."""
    item = buffer.itemsize
    leading, stride = op.size(f"ld{name}") * item, op.size(f"stride_{name}") * item
    steps = (item, leading) if transposed else (leading, item)
    shape = (op.size("batch"), rows, columns)
    return np.lib.stride_tricks.as_strided(buffer.reshape(-1), shape, (stride, *steps))
