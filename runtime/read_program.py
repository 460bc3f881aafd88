"""From IR to a program as plain data: the only reader of `rt` text in the runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    TensorType,
    UnitAttr,
)
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import PassFailedException

from convir.dialects.kernel import ops as kernel
from convir.dialects.port_names import INPUTS_ATTR, OUTPUTS_ATTR, port_names
from convir.dialects.rt import ops as rt
from convir.dialects.stream_attributes import sample_rate_of, states_of
from convir.reference.dtypes import dtype_of
from convir.runtime.program import (
    DYNAMIC_SIZE,
    Buffer,
    Copy,
    Fill,
    Gemm,
    Launch,
    Program,
    Space,
    StreamSpec,
    TensorSpec,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation, SSAValue

    from convir.runtime.program import Array, Call, DType


def read_program(module: ModuleOp, function: str = "main") -> Program:
    """The rt program `function` of a verified module.

    Raises:
        PassFailedException: there is no such program, or it holds what no runtime call does.
    """
    program = SymbolTable.lookup_symbol(module, function)
    if not isinstance(program, func.FuncOp):
        raise PassFailedException(f"the module has no function @{function}")
    if rt.PROGRAM_ATTR not in program.attributes:
        raise PassFailedException(f"@{function} is not an rt program: lower it first")
    written = rt.outputs_of(program)
    reader = _Reader(program, len(program.body.block.args) - written)
    for op in program.body.block.ops:
        reader.read(op)
    if reader.constants:
        _forget_files()
    specs = [_spec(argument.type) for argument in program.body.block.args]
    split = len(specs) - written
    return Program(
        name=function,
        inputs=named(specs[:split], program, INPUTS_ATTR),
        outputs=named(specs[split:], program, OUTPUTS_ATTR),
        arena_bytes=reader.arena_bytes,
        constants=tuple(reader.constants),
        state_bytes=tuple(reader.states),
        calls=tuple(reader.calls),
        stream=StreamSpec(states_of(program), sample_rate_of(program)),
    )


def named(
    specs: Sequence[TensorSpec], function: func.FuncOp, attribute: str
) -> tuple[TensorSpec, ...]:
    """Arguments or results with the names that their function has for them.

    Args:
        specs: all of them, in order.
        function: takes or gives them.
        attribute: `INPUTS_ATTR` or `OUTPUTS_ATTR`.
    """
    names = port_names(function, attribute, len(specs))
    return tuple(replace(spec, name=name) for spec, name in zip(specs, names, strict=True))


def _spec(buffer_type: Attribute) -> TensorSpec:
    static = cast("MemRefType[Attribute]", buffer_type)
    return TensorSpec(static.get_shape(), _dtype(static.element_type))


def tensor_spec(declared: Attribute) -> TensorSpec:
    """Shape and dtype of an argument or result of a function on tensors; a number has rank 0.

    Raises:
        PassFailedException: no device stores such elements.
    """
    if not isinstance(declared, TensorType):
        return TensorSpec((), _dtype(declared))
    tensor = cast("TensorType[Attribute]", declared)
    sizes = (DYNAMIC_SIZE if size == DYNAMIC_INDEX else size for size in tensor.get_shape())
    return TensorSpec(tuple(sizes), _dtype(tensor.element_type))


def _dtype(element_type: Attribute) -> DType:
    dtype = dtype_of(element_type)
    if dtype is None:
        raise PassFailedException(f"no device stores elements of type {element_type}")
    return dtype


class _Reader:
    def __init__(self, program: func.FuncOp, inputs: int) -> None:
        self.buffers: dict[SSAValue, Buffer] = {}
        self.arena_bytes = 0
        self.constants: list[Array] = []
        self.known_constants: dict[int, int] = {}
        self.states: list[int] = []
        self.calls: list[Call] = []
        for i, argument in enumerate(program.body.block.args):
            space = Space.INPUT if i < inputs else Space.OUTPUT
            self._define(argument, space, i if i < inputs else i - inputs)

    def read(self, op: Operation) -> None:
        match op:
            case rt.ArenaOp():
                self._define(op.memory, Space.ARENA, 0)
                self.arena_bytes = rt.buffer_bytes(op.memory.type)
            case rt.StateOp():
                self._define(op.memory, Space.STATE, len(self.states))
                self.states.append(rt.buffer_bytes(op.memory.type))
            case rt.ConstantOp():
                # The programs of several chunks repeat their constants.
                index = self.known_constants.setdefault(id(op.value), len(self.constants))
                if index == len(self.constants):
                    self.constants.append(_elements(op))
                self._define(op.buffer, Space.CONSTANT, index)
            case rt.ViewOp():
                source = self.buffers[op.source]
                spec = _spec(op.view.type)
                offset = source.offset + op.offset.value.data
                self.buffers[op.view] = Buffer(
                    source.space, source.index, offset, spec.shape, spec.dtype
                )
            case rt.FillOp():
                value = cast("FloatAttr | IntegerAttr", op.value).value.data
                self.calls.append(Fill(value, self.buffers[op.out]))
            case rt.CopyOp():
                self.calls.append(Copy(self.buffers[op.source], self.buffers[op.out]))
            case rt.GemmOp():
                self.calls.append(self._gemm(op))
            case rt.LaunchOp():
                self.calls.append(self._launch(op))
            case func.ReturnOp():
                pass
            case _:
                raise PassFailedException(f"{op.name} is not a runtime call")

    def _define(self, value: SSAValue, space: Space, index: int) -> None:
        spec = _spec(value.type)
        self.buffers[value] = Buffer(space, index, 0, spec.shape, spec.dtype)

    def _gemm(self, op: rt.GemmOp) -> Gemm:
        names = ("m", "n", "k", "batch", "lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c")
        sizes = {name: op.size(name) for name in names}
        flags = {
            name: isinstance(op.properties.get(name), UnitAttr)
            for name in ("transpose_a", "transpose_b", "accumulate", "tf32")
        }
        a, b, c = (self.buffers[operand] for operand in (op.a, op.b, op.c))
        return Gemm(a, b, c, **sizes, **flags)

    def _launch(self, op: rt.LaunchOp) -> Launch:
        callee = kernel.callee_of(op, op.callee)
        assert callee is not None
        configs = op.attributes.get("configs")
        if isinstance(configs, DictionaryAttr) and configs != callee.configs:
            callee = callee.clone()
            callee.configs = configs
        inputs, outputs, workspace = (
            tuple(self.buffers[buffer] for buffer in group)
            for group in (op.inputs, op.outputs, op.workspace)
        )
        return Launch(callee, inputs, outputs, workspace)


def _elements(op: rt.ConstantOp) -> Array:
    from convir.reference.blobs import elements_of  # noqa: PLC0415  (the interpreter)

    spec = _spec(op.buffer.type)
    tensor_type = TensorType(op.buffer.type.element_type, spec.shape)
    return np.ascontiguousarray(elements_of(op, op.value, tensor_type))


def _forget_files() -> None:
    from convir.reference.blobs import forget_files  # noqa: PLC0415  (as above)

    forget_files()
