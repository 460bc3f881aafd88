"""The rt dialect: a straight-line program of runtime calls on memrefs in one planned arena.

The same program text runs on every device. Buffers are dense row-major memrefs with static
shapes; an `rt.program` function takes its inputs, then its outputs, as memrefs and returns
nothing. Every call writes its `outs` completely, unless it says that it accumulates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FixedBitwidthType,
    FlatSymbolRefAttrConstr,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    SymbolRefAttr,
    UnitAttr,
    i8,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import (
    MemoryAllocEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoMemoryEffect,
    SymbolUserOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from convir.dialects.conv.constant import BlobAttr
from convir.dialects.kernel import ops as kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ARENA_ALIGNMENT = 256
"""Bytes. Every offset into the arena is a multiple, as cache lines, zmm registers and TMA ask."""

INDEX_BYTES = 8

PROGRAM_ATTR = "rt.program"
"""On a function: it is a program of runtime calls."""

OUTPUTS_ATTR = "rt.outputs"
"""On a program: how many of its last arguments it writes; an i64, 1 if absent."""

Buffer: TypeAlias = MemRefType[Attribute]

GEMM_RESULTS: Mapping[type[Attribute], tuple[type[Attribute], ...]] = {
    Float16Type: (Float16Type, Float32Type),
    BFloat16Type: (BFloat16Type, Float32Type),
    Float32Type: (Float32Type,),
    Float64Type: (Float64Type,),
}
"""What `rt.gemm` may round its result to, by the element type of both operands."""


def buffer_elements(buffer: Attribute) -> int:
    """The number of elements of a dense, static memref.

    Raises:
        VerifyException: `buffer` is not a memref, is dynamic, or has a layout or memory space.
    """
    if not isinstance(buffer, MemRefType):
        raise VerifyException(f"expected a memref, got {buffer}")
    buffer = cast("Buffer", buffer)
    shape = buffer.get_shape()
    if DYNAMIC_INDEX in shape:
        raise VerifyException(f"rt buffers have static shapes, got {buffer}")
    if not isinstance(buffer.layout, NoneAttr) or not isinstance(buffer.memory_space, NoneAttr):
        raise VerifyException(f"rt buffers are dense and in the default space, got {buffer}")
    return math.prod(shape)


def element_type_of(buffer: SSAValue) -> Attribute:
    """The element type of a value that is a memref."""
    return cast("Buffer", buffer.type).element_type


def buffer_bytes(buffer: Attribute) -> int:
    """The size in bytes of a dense, static memref."""
    return buffer_elements(buffer) * element_bytes(buffer)


def element_bytes(buffer: Attribute) -> int:
    """The bytes of an element: sub-byte elements take whole bytes, an index takes 8.

    Raises:
        VerifyException: the elements have no size.
    """
    element_type = cast("Buffer", buffer).element_type
    if isinstance(element_type, IndexType):
        return INDEX_BYTES
    if not isinstance(element_type, FixedBitwidthType):
        raise VerifyException(f"the elements of {buffer} have no size")
    return element_type.size


def outputs_of(program: func.FuncOp) -> int:
    """How many of the arguments of a program, counted from the last, it writes."""
    written = program.attributes.get(OUTPUTS_ATTR)
    return written.value.data if isinstance(written, IntegerAttr) else 1


def verify_program(function: func.FuncOp) -> None:
    """Check what a function that says it is a program must be.

    Raises:
        VerifyException: an argument is not a buffer, the number of outputs is none, the function
            returns something, branches, or has two arenas.
    """
    if PROGRAM_ATTR not in function.attributes:
        return
    arguments = tuple(function.function_type.inputs)
    for argument in arguments:
        buffer_elements(argument)
    written = function.attributes.get(OUTPUTS_ATTR, IntegerAttr(1, i64))
    if not isinstance(written, IntegerAttr) or not 0 <= written.value.data <= len(arguments):
        raise VerifyException(f"{OUTPUTS_ATTR} is {written}, with {len(arguments)} arguments")
    if function.function_type.outputs:
        raise VerifyException("a program writes its last arguments and returns nothing")
    if len(function.body.blocks) != 1:
        raise VerifyException("a program is one block")
    if sum(isinstance(op, ArenaOp) for op in function.body.block.ops) > 1:
        raise VerifyException("a program has one arena")


def is_constant(buffer: SSAValue) -> bool:
    """Whether a buffer is an `rt.constant`, or a view of one."""
    while isinstance(buffer.owner, ViewOp):
        buffer = buffer.owner.source
    return isinstance(buffer.owner, ConstantOp)


def _verify_written(out: SSAValue) -> None:
    """Inputs and constants are not the program's to write."""
    if is_constant(out):
        raise VerifyException("a constant is written")
    while isinstance(out.owner, ViewOp):
        out = out.owner.source
    if not isinstance(out, BlockArgument) or not isinstance(out.block.parent_op(), func.FuncOp):
        return
    function = cast("func.FuncOp", out.block.parent_op())
    if PROGRAM_ATTR not in function.attributes:
        return
    inputs = len(function.function_type.inputs) - outputs_of(function)
    if out.index < inputs:
        raise VerifyException(f"argument {out.index} is written, which is an input of the program")


@irdl_op_definition
class ArenaOp(IRDLOperation):
    """All temporaries of a program, as one allocation that its caller makes per call.

    `%arena = rt.arena : memref<4096xi8>`. At most one per function; the size is the peak of the
    memory plan.
    """

    name = "rt.arena"

    memory = result_def(MemRefType[Attribute])
    assembly_format = "attr-dict `:` type($memory)"
    traits = traits_def(MemoryAllocEffect())

    def __init__(self, size_bytes: int) -> None:
        super().__init__(result_types=[MemRefType(i8, [size_bytes])])

    def verify_(self) -> None:
        if self.memory.type.element_type != i8 or len(self.memory.type.get_shape()) != 1:
            raise VerifyException(f"an arena is a memref of bytes, got {self.memory.type}")
        buffer_elements(self.memory.type)


@irdl_op_definition
class ViewOp(IRDLOperation):
    """A dense buffer `offset` bytes into another: `rt.view %arena[256] : A to B`."""

    name = "rt.view"

    source = operand_def(MemRefType[Attribute])
    offset = prop_def(IntegerAttr[i64])
    view = result_def(MemRefType[Attribute])
    assembly_format = "$source `[` $offset `]` attr-dict `:` type($source) `to` type($view)"
    traits = traits_def(NoMemoryEffect())

    def __init__(self, source: SSAValue, offset: int, view_type: Attribute) -> None:
        super().__init__(
            operands=[source],
            result_types=[view_type],
            properties={"offset": IntegerAttr(offset, i64)},
        )

    def verify_(self) -> None:
        offset = self.offset.value.data
        end = offset + buffer_bytes(self.view.type)
        size = buffer_bytes(self.source.type)
        if offset < 0 or end > size:
            raise VerifyException(f"bytes {offset} to {end} do not lie in a buffer of {size} bytes")
        if isinstance(self.source.owner, ArenaOp) and offset % ARENA_ALIGNMENT:
            raise VerifyException(f"arena offset {offset} is not a multiple of {ARENA_ALIGNMENT}")
        step = element_bytes(self.view.type)
        if offset % step:
            raise VerifyException(f"offset {offset} is not a multiple of {step} bytes")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A read-only buffer with the given elements, uploaded once per executable."""

    name = "rt.constant"

    value = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr | BlobAttr)
    buffer = result_def(MemRefType[Attribute])
    assembly_format = "attr-dict $value `:` type($buffer)"
    traits = traits_def(NoMemoryEffect())

    def __init__(self, value: DenseIntOrFPElementsAttr | BlobAttr, buffer_type: Buffer) -> None:
        super().__init__(result_types=[buffer_type], properties={"value": value})

    def verify_(self) -> None:
        buffer_elements(self.buffer.type)
        value = self.value
        if not isinstance(value, DenseIntOrFPElementsAttr):
            return
        buffer = self.buffer.type
        if (
            value.get_shape() != buffer.get_shape()
            or value.get_element_type() != buffer.element_type
        ):
            raise VerifyException(f"the elements are of {value.type}, the buffer is {buffer}")


@irdl_op_definition
class StateOp(IRDLOperation):
    """Persistent memory: zero-initialised once, kept between calls, never aliased by the plan.

    There is one set per executable and stream, or per graph; a failed launch discards it.
    """

    name = "rt.state"

    memory = result_def(MemRefType[Attribute])
    assembly_format = "attr-dict `:` type($memory)"
    traits = traits_def(MemoryAllocEffect())

    def __init__(self, memory_type: Buffer) -> None:
        super().__init__(result_types=[memory_type])

    def verify_(self) -> None:
        buffer_elements(self.memory.type)


@irdl_op_definition
class FillOp(IRDLOperation):
    """Set every element of `out` to `value`: `rt.fill 0.0 : f32 into %out : memref<…>`."""

    name = "rt.fill"

    value = prop_def()
    out = operand_def(MemRefType[Attribute])
    assembly_format = "$value `into` $out attr-dict `:` type($out)"
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, value: Attribute, out: SSAValue) -> None:
        super().__init__(operands=[out], properties={"value": value})

    def verify_(self) -> None:
        buffer_elements(self.out.type)
        value_type = getattr(self.value, "type", None)
        if value_type != element_type_of(self.out):
            raise VerifyException(f"a fill of {self.out.type} with a value of type {value_type}")
        _verify_written(self.out)


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copy all of `source` to `out`, which has the same element type and count."""

    name = "rt.copy"

    source = operand_def(MemRefType[Attribute])
    out = operand_def(MemRefType[Attribute])
    assembly_format = "$source `to` $out attr-dict `:` type($source) `to` type($out)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, source: SSAValue, out: SSAValue) -> None:
        super().__init__(operands=[source, out])

    def verify_(self) -> None:
        if element_type_of(self.source) != element_type_of(self.out):
            raise VerifyException("a copy does not convert elements")
        if buffer_elements(self.source.type) != buffer_elements(self.out.type):
            raise VerifyException("a copy needs as many elements on both sides")
        _verify_written(self.out)


@irdl_op_definition
class GemmOp(IRDLOperation):
    """Strided batched GEMM, row-major: C[i] = A[i] · B[i] (+ C[i] if `accumulate`).

    For i < batch: C[i] is m x n at `i * stride_c`, rows `ldc` apart; A[i] is m x k (k x m if
    `transpose_a`) at `i * stride_a`, rows `lda` apart; B[i] is k x n (n x k if `transpose_b`).
    A stride of 0 shares the operand between all batches. Strides and leading dimensions count
    elements. f16 and bf16 operands accumulate in f32; the result is rounded once. With `tf32`, f32
    operands may be rounded to TF32.
    Source: the parameters of BLAS `gemm_strided_batched`.
    """

    name = "rt.gemm"

    m = prop_def(IntegerAttr[i64])
    n = prop_def(IntegerAttr[i64])
    k = prop_def(IntegerAttr[i64])
    batch = prop_def(IntegerAttr[i64])
    lda = prop_def(IntegerAttr[i64])
    ldb = prop_def(IntegerAttr[i64])
    ldc = prop_def(IntegerAttr[i64])
    stride_a = prop_def(IntegerAttr[i64])
    stride_b = prop_def(IntegerAttr[i64])
    stride_c = prop_def(IntegerAttr[i64])
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    accumulate = opt_prop_def(UnitAttr)
    tf32 = opt_prop_def(UnitAttr)

    a = operand_def(MemRefType[Attribute])
    b = operand_def(MemRefType[Attribute])
    c = operand_def(MemRefType[Attribute])

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "attr-dict `ins` `(` $a `,` $b `:` type($a) `,` type($b) `)` `outs` `(` $c `:` type($c) `)`"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, a: SSAValue, b: SSAValue, c: SSAValue, sizes: dict[str, int], **flags: bool
    ) -> None:
        """`sizes` are all integer properties, `flags` those of the others that are set."""
        properties: dict[str, Attribute | None] = {
            name: IntegerAttr(value, i64) for name, value in sizes.items()
        }
        properties |= {name: UnitAttr() for name, on in flags.items() if on}
        super().__init__(operands=[a, b, c], properties=properties)

    def size(self, name: str) -> int:
        """The value of one of the integer properties: `m`, `lda`, `stride_a`, …"""
        attr = self.properties[name]
        assert isinstance(attr, IntegerAttr)
        return attr.value.data

    def verify_(self) -> None:
        for name in ("m", "n", "k", "batch", "stride_a", "stride_b", "stride_c"):
            if self.size(name) < 0:
                raise VerifyException(f"{name} is negative")
        self._verify_types()
        m, n, k = self.size("m"), self.size("n"), self.size("k")
        a_shape = (k, m) if self.transpose_a is not None else (m, k)
        b_shape = (n, k) if self.transpose_b is not None else (k, n)
        self._verify_operand("a", self.a, a_shape)
        self._verify_operand("b", self.b, b_shape)
        self._verify_operand("c", self.c, (m, n))
        if self.size("batch") > 1 and self._batches_overlap():
            raise VerifyException("the results of two batches overlap")
        _verify_written(self.c)

    def _verify_types(self) -> None:
        a, b, c = (element_type_of(operand) for operand in self.operands)
        if a != b:
            raise VerifyException(f"a is of {a}, b of {b}")
        results = GEMM_RESULTS.get(type(a))
        if results is None:
            raise VerifyException(f"there is no product of matrices of {a}")
        if not isinstance(c, results):
            raise VerifyException(f"matrices of {a} give no result of {c}")
        if self.tf32 is not None and not isinstance(a, Float32Type):
            raise VerifyException(f"matrices of {a} are not rounded to TF32")

    def _batches_overlap(self) -> bool:
        """Batches lie one after the other, or side by side within each other's rows."""
        m, n, batch = self.size("m"), self.size("n"), self.size("batch")
        ldc, stride = self.size("ldc"), self.size("stride_c")
        after = stride >= (m - 1) * ldc + n
        beside = stride >= n and (batch - 1) * stride + n <= ldc
        return not after and not beside

    def _verify_operand(self, name: str, operand: SSAValue, shape: tuple[int, int]) -> None:
        rows, columns = shape
        available = buffer_elements(operand.type)
        ld = self.size(f"ld{name}")
        if ld < columns:
            raise VerifyException(f"ld{name} = {ld} is less than a row of {columns}")
        if 0 in (rows, columns, self.size("batch")):
            return
        last = (self.size("batch") - 1) * self.size(f"stride_{name}") + (rows - 1) * ld + columns
        if last > available:
            raise VerifyException(
                f"operand {name} reaches element {last} of a buffer of {available}"
            )


class _CalleeMatches(SymbolUserOpInterface):
    """An `rt.launch` names a `kernel.func`; its buffers are that function's tensors."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, LaunchOp)
        if op.parent_op() is None:
            return
        callee = kernel.callee_of(op, op.callee)
        if callee is None:
            raise VerifyException(f"{op.callee} does not name a kernel.func")
        _verify_buffers("input", op.inputs.types, callee.function_type.inputs.data)
        _verify_buffers("output", op.outputs.types, callee.function_type.outputs.data)
        kernel.verify_configs(op.attributes.get("configs"))
        for buffer in op.workspace.types:
            buffer_elements(buffer)
        for output in op.outputs:
            _verify_written(output)


def _verify_buffers(kind: str, buffers: Sequence[Attribute], tensors: Sequence[Attribute]) -> None:
    if len(buffers) != len(tensors):
        raise VerifyException(f"{len(buffers)} {kind} buffers for {len(tensors)} {kind}s")
    for i, (buffer, tensor) in enumerate(zip(buffers, tensors, strict=True)):
        shape = getattr(buffer, "shape", None), getattr(buffer, "element_type", None)
        buffer_elements(buffer)
        if shape != (getattr(tensor, "shape", None), getattr(tensor, "element_type", None)):
            raise VerifyException(f"{kind} {i} is {buffer}, the kernel's is {tensor}")


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """One launch of a `kernel.func`: its arguments are `ins`, its results are written to `outs`.

    An output buffer may be the buffer of an input that has the same type, where the kernel reads
    each of its elements before it writes it; `workspace` is scratch memory of the kernel's own,
    or an `rt.state` that it keeps. `configs`, if it has any, stand for those of its callee.
    """

    name = "rt.launch"

    callee = prop_def(FlatSymbolRefAttrConstr)
    inputs = var_operand_def(MemRefType[Attribute])
    outputs = var_operand_def(MemRefType[Attribute])
    workspace = var_operand_def(MemRefType[Attribute])

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$callee (`ins` `(` $inputs^ `:` type($inputs) `)`)? "
        "(`outs` `(` $outputs^ `:` type($outputs) `)`)? "
        "(`workspace` `(` $workspace^ `:` type($workspace) `)`)? attr-dict"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), _CalleeMatches())

    def __init__(
        self,
        callee: str,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        workspace: Sequence[SSAValue] = (),
    ) -> None:
        properties = {"callee": SymbolRefAttr(callee)}
        super().__init__(operands=[inputs, outputs, workspace], properties=properties)


Rt = Dialect(
    "rt",
    [ArenaOp, ConstantOp, CopyOp, FillOp, GemmOp, LaunchOp, StateOp, ViewOp],
    [],
)
