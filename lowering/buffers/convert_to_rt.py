"""`convert-to-rt`: tensors become buffers, kernel calls become runtime calls.

    rewrite: func @f(%x: tensor<A>) -> tensor<B> { %0 = kernel.call @k(%x); return %0 }
             --> func @f(%x: memref<A>, %out: memref<B>) attributes {rt.program} {
                   rt.launch @k ins(%x) outs(%out); return }

Reshapes become views of the same memory, so do slices that are one piece of it and that no kernel
computes anything of, and constants read-only buffers. A value that is returned
is written where the caller wants it; every other one gets a `memref.alloc`, which `plan-memory`
turns into a piece of the arena; so does the workspace of a kernel that needs one. What a kernel
keeps from call to call is an `rt.state`. A kernel whose config says `gemm` becomes `rt.gemm`;
the launch of any other carries the config.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, func, memref, tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float32Type,
    FunctionType,
    IntegerAttr,
    MemRefType,
    TensorType,
    UnitAttr,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from convir.analysis.values.zeros import constant_fill_of
from convir.dialects.conv.constant import ConstantOp
from convir.dialects.kernel import ops as kernel
from convir.dialects.rt import ops as rt
from convir.dialects.stream_attributes import states_of
from convir.lowering.buffers.buffer_type import buffer_type, refusal
from convir.lowering.buffers.result_memory import (
    in_place_arguments,
    sliced_argument,
    updated_argument,
)
from convir.lowering.buffers.workspace import launch_state, launch_workspace
from convir.lowering.implementations import GEMM, config_of
from convir.lowering.kernels.library.gemm_call import GemmCall, match_gemm
from convir.lowering.kernels.target import Target
from convir.lowering.regions.op_groups import ALIASES, FREE, readers_of, reads_of
from convir.lowering.regions.placements import PlacedResult, placed_results, placing_ops
from convir.lowering.selection.gpu_option import target_of, todays_option
from convir.passes.manager.option_checks import check_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


WORKSPACE = "workspace"
"""The name of the temporaries that are a kernel's own."""

STATE = "state"
"""The name of what a kernel keeps."""


@dataclass
class _Program:
    """One function on its way from tensors to buffers."""

    device: str
    gpu: Target | None
    body: Block
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    destinations: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Tensor values that are written straight into an output buffer of the program."""
    states: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Buffers of states after the call, and those before it."""
    _reshaped: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Of each reshape, or slice that is a view, the tensor that it is another name of."""
    _reads: Counter[SSAValue] = field(default_factory=Counter["SSAValue"])
    """Of each buffer how often what is not converted yet reads a tensor in it."""
    _workspaces: dict[tuple[kernel.FuncOp, tuple[int, ...]], int] = field(
        default_factory=dict["tuple[kernel.FuncOp, tuple[int, ...]]", int]
    )
    """Of each kernel, with the arguments that are constants."""

    def put(self, value: SSAValue, buffer: SSAValue) -> None:
        """Let `value`, and what is a reshape of it, lie in `buffer`."""
        self.buffers[value] = buffer
        self._reads[buffer] += sum(1 for _ in reads_of(value))

    def convert(self, op: Operation) -> None:
        """Emit what `op` becomes."""
        self._convert(op)
        if op.name not in ALIASES:
            for operand in op.operands:
                self._reads[self._buffer_read(operand)] -= 1

    def _buffer_read(self, value: SSAValue) -> SSAValue:
        """The buffer of the tensor that `value` is a name of, or itself if it is in none."""
        tensor = self._reshaped.get(value, value)
        return self.buffers.get(tensor, tensor)

    def _convert(self, op: Operation) -> None:
        if op.name in FREE - {"arith.constant"} or _is_read(op):
            return  # Kernels repeat it; where it is returned itself, it is filled in.
        if op.name in ALIASES:
            source = self.buffers.get(op.operands[0])
            if source is None:
                return
            target = buffer_type(op.results[0].type, op)
            self.buffers[op.results[0]] = self.view(source, target)
            self._reshaped[op.results[0]] = self._reshaped.get(op.operands[0], op.operands[0])
        elif isinstance(op, tensor.FromElementsOp) and op.elements[0] in self.buffers:
            self.put(op.result, self.buffers[op.elements[0]])
        elif isinstance(op, arith.ConstantOp):
            self._constant(op)
        elif isinstance(op, ConstantOp):
            constant = rt.ConstantOp(op.value, buffer_type(op.result.type, op))
            self.put(op.result, self._emit(constant).results[0])
        elif isinstance(op, kernel.CallOp):
            self._call(op)
        else:
            raise refusal(
                op, f"{op.name} is outside of every kernel, and no runtime call computes it"
            )

    def view(self, source: SSAValue, target: rt.Buffer, offset: int = 0) -> SSAValue:
        """`source`, or what lies `offset` bytes into it, under another type."""
        if source.type == target:
            return source
        return self._emit(rt.ViewOp(source, offset, target)).results[0]

    def allocate(self, target: rt.Buffer, name: str | None) -> SSAValue:
        """A buffer of its own."""
        alloc = memref.AllocOp([], [], target)
        self._emit(alloc).results[0].name_hint = name
        return alloc.memref

    def _constant(self, op: arith.ConstantOp) -> None:
        constant_type = op.results[0].type
        if not isinstance(constant_type, TensorType) or _is_filled_in(op):
            return
        value = cast("DenseIntOrFPElementsAttr", op.value)
        target = buffer_type(cast("Attribute", constant_type), op)
        constant = self._emit(rt.ConstantOp(value, target))
        self.put(op.result, constant.results[0])

    def _call(self, op: kernel.CallOp) -> None:
        callee = kernel.callee_of(op, op.callee)
        assert callee is not None
        if self._is_view(op, callee):
            return
        inputs = [self.buffers[argument] for argument in op.arguments]
        outputs = [self._destination(op, callee, i) for i in range(len(op.res))]
        for result, out in enumerate(outputs):
            self._update_state(callee, result, inputs, out)
        for result, out in zip(op.res, outputs, strict=True):
            self.put(result, out)
        match = match_gemm(callee) if config_of(callee, self.device) == GEMM else None
        if isinstance(match, GemmCall):
            allows_tf32 = kernel.ALLOW_TF32 in callee.attributes
            self._gemm(match, inputs, outputs[0], allows_tf32=allows_tf32)
            return
        workspace = [*self._workspace(callee, inputs), *self._state(callee)]
        launch = rt.LaunchOp(op.callee.root_reference.data, inputs, outputs, workspace)
        if callee.configs is not None and self.device in callee.configs.data:
            launch.attributes["configs"] = callee.configs
        self._emit(launch).location = op.location

    def _is_view(self, op: kernel.CallOp, callee: kernel.FuncOp) -> bool:
        """Let the result of a kernel that only slices be a view of its argument, if it may be.

        What the program returns has memory of its own, and a state may be written over before the
        slice is read.
        """
        part = sliced_argument(callee)
        if part is None or op.res[0] in self.destinations:
            return False
        argument = op.arguments[part.argument]
        source = self.buffers[argument]
        if self.states and isinstance(_memory_of(source), BlockArgument):
            return False
        target = buffer_type(op.res[0].type, op)
        self.buffers[op.res[0]] = self.view(source, target, part.offset)
        self._reshaped[op.res[0]] = self._reshaped.get(argument, argument)
        self._reads[self._buffer_read(argument)] += sum(1 for _ in reads_of(op.res[0]))
        return True

    def _workspace(self, callee: kernel.FuncOp, inputs: Sequence[SSAValue]) -> list[SSAValue]:
        """A temporary for what the kernel needs beside its operands."""
        constants = tuple(i for i, buffer in enumerate(inputs) if rt.is_constant(buffer))
        known = self._workspaces.get((callee, constants))
        size = launch_workspace(callee, self.device, constants) if known is None else known
        self._workspaces[callee, constants] = size
        if not size:
            return []
        memory = self._emit(memref.AllocOp.get(i8, shape=[size])).results[0]
        memory.name_hint = WORKSPACE
        return [memory]

    def _state(self, callee: kernel.FuncOp) -> list[SSAValue]:
        """What a kernel keeps from call to call: flags, which it leaves zero."""
        sizes = launch_state(callee, self.gpu)
        states = [self._emit(rt.StateOp(MemRefType(i8, [size]))) for size in sizes]
        for state in states:
            state.results[0].name_hint = STATE
        return [state.results[0] for state in states]

    def _destination(self, op: kernel.CallOp, callee: kernel.FuncOp, result: int) -> SSAValue:
        value = op.res[result]
        wanted = self.destinations.get(value)
        if wanted is not None:
            return wanted
        for argument in in_place_arguments(callee, result):
            if self._dies_at(op, op.arguments[argument]):
                return self.buffers[op.arguments[argument]]
        target = buffer_type(value.type, op)
        return self.allocate(target, value.name_hint)

    def _update_state(
        self, callee: kernel.FuncOp, result: int, inputs: list[SSAValue], out: SSAValue
    ) -> None:
        """Let a kernel that writes into a state do so in place, in the buffer for the next call."""
        argument = updated_argument(callee, result)
        if argument is None or out not in self.states or self.states[out] != inputs[argument]:
            return
        # One memory for both: nothing is copied.
        self._emit(rt.CopyOp(inputs[argument], out))
        inputs[argument] = out

    def _dies_at(self, op: kernel.CallOp, value: SSAValue) -> bool:
        """Whether nothing reads the memory of `value` after `op`, which the program may reuse."""
        buffer = self.buffers[value]
        if not isinstance(buffer.owner, memref.AllocOp) or not value.has_one_use():
            return False
        return self._reads[buffer] == sum(self._buffer_read(x) is buffer for x in op.operands)

    def _gemm(
        self,
        match: GemmCall,
        inputs: Sequence[SSAValue],
        out: SSAValue,
        *,
        allows_tf32: bool,
    ) -> None:
        layout = match.layout
        a, b = inputs[match.lhs], inputs[match.rhs]
        if layout.swapped:
            a, b = b, a
        if match.init is not None and inputs[match.init] is not out:
            self._emit(rt.CopyOp(inputs[match.init], out))
        self._emit(
            rt.GemmOp(
                a,
                b,
                out,
                layout.sizes(),
                transpose_a=layout.transpose_a,
                transpose_b=layout.transpose_b,
                accumulate=match.init is not None,
                tf32=allows_tf32 and isinstance(rt.element_type_of(a), Float32Type),
            )
        )

    def _emit(self, op: Operation) -> Operation:
        self.body.add_op(op)
        return op


def convert_function(function: func.FuncOp, device: str, gpu: Target | None) -> func.FuncOp:
    """The rt program of a function on tensors whose kernels are outlined.

    Raises:
        DiagnosticError: an op is not a kernel call, reshape or constant; a size is dynamic.
    """
    old = function.body.block
    returned = old.last_op
    assert returned is not None
    input_types = [buffer_type(t, function) for t in function.function_type.inputs]
    output_types = [buffer_type(t, function) for t in function.function_type.outputs]
    body = Block(arg_types=[*input_types, *output_types])
    program = _Program(device, gpu, body)
    outputs = body.args[len(input_types) :]
    for argument, buffer in zip(old.args, body.args, strict=False):
        program.put(argument, buffer)
        buffer.name_hint = argument.name_hint
    states = states_of(function)
    if states:
        before = body.args[len(input_types) - states : len(input_types)]
        program.states = dict(zip(outputs[-states:], before, strict=True))
    placed = placed_results(old)
    direct = _direct_outputs(program, returned, outputs, placed)
    _place_pieces(program, placed)
    placing = placing_ops(old)
    for op in old.ops:
        if op is not returned and op not in placing:
            program.convert(op)
    for i, value in enumerate(returned.operands):
        if i not in direct:
            body.add_op(_returned(program, value, outputs[i], returned))
    body.add_op(func.ReturnOp())
    _erase_unread(body)
    converted = func.FuncOp(
        function.sym_name.data,
        FunctionType.from_lists([*input_types, *output_types], []),
        Region(body),
        function.sym_visibility,
    )
    converted.attributes = {
        **function.attributes,
        rt.PROGRAM_ATTR: UnitAttr(),
        rt.OUTPUTS_ATTR: IntegerAttr(len(output_types), i64),
    }
    converted.location = function.location
    return converted


def _erase_slices(module: ModuleOp) -> None:
    """Erase kernels of slices that became views."""
    called = {
        op.callee.root_reference.data
        for op in module.walk()
        if isinstance(op, kernel.CallOp | rt.LaunchOp)
    }
    kernels = [op for op in module.ops if isinstance(op, kernel.FuncOp)]
    for op in kernels:
        if op.sym_name.data not in called and sliced_argument(op) is not None:
            Rewriter.erase_op(op)


def _is_filled_in(op: arith.ConstantOp) -> bool:
    """Whether a constant is one value, and only returned: its buffer is filled."""
    readers = list(readers_of(op.result))
    return constant_fill_of(op.result) is not None and all(
        reader.has_trait(IsTerminator) for reader in readers
    )


def _memory_of(buffer: SSAValue) -> SSAValue:
    """What a buffer is a view of."""
    while isinstance(buffer.owner, rt.ViewOp):
        buffer = buffer.owner.source
    return buffer


def _erase_unread(body: Block) -> None:
    """Erase views and constants that no call names."""
    for op in reversed(list(body.ops)):
        if isinstance(op, rt.ViewOp | rt.ConstantOp) and op.results[0].first_use is None:
            Rewriter.erase_op(op)


def _is_read(op: Operation) -> bool:
    """Whether `op` reads the one element of a tensor, as a scalar that is returned."""
    return isinstance(op, tensor.ExtractOp) and not op.indices


def _in_memory(value: SSAValue) -> SSAValue:
    """The tensor whose memory holds a value: a scalar is read from a tensor of one element."""
    while isinstance(value.owner, Operation):
        if value.owner.name not in ALIASES and not _is_read(value.owner):
            break
        value = value.owner.operands[0]
    return value


def _returned(program: _Program, value: SSAValue, out: SSAValue, returned: Operation) -> Operation:
    """How a value that no kernel computes comes into its output buffer."""
    buffer = program.buffers.get(value, program.buffers.get(_in_memory(value)))
    if buffer is not None:
        return rt.CopyOp(buffer, out)
    scalar = constant_fill_of(value)
    if scalar is None:
        raise refusal(returned, f"a returned value of type {value.type} is computed by no kernel")
    return rt.FillOp(scalar, out)


def _place_pieces(program: _Program, placed: Sequence[PlacedResult]) -> None:
    """Send the pieces of results to views of their buffers."""
    for result in placed:
        whole = program.destinations.get(result.value)
        if whole is None:
            target = buffer_type(result.value.type, result.pieces[0].op)
            whole = program.allocate(target, result.value.name_hint)
        program.put(result.value, whole)
        for piece in result.pieces:
            target = buffer_type(piece.source.type, piece.op)
            program.destinations[piece.source] = program.view(whole, target, piece.offset)


def _direct_outputs(
    program: _Program,
    returned: Operation,
    outputs: Sequence[SSAValue],
    placed: Sequence[PlacedResult],
) -> set[int]:
    """Send every returned value that a kernel computes straight to its output buffer."""
    direct: set[int] = set()
    placed_values = {result.value for result in placed}
    for i, (value, out) in enumerate(zip(returned.operands, outputs, strict=True)):
        root = _in_memory(value)
        is_computed = isinstance(root.owner, kernel.CallOp) or root in placed_values
        if not is_computed or root in program.destinations:
            continue
        target = buffer_type(root.type, returned)
        program.destinations[root] = program.view(out, target)
        direct.add(i)
    return direct


@dataclass(frozen=True)
class ConvertToRtPass(ModulePass):
    """Turn every function on tensors into an rt program for `device`."""

    name = "convert-to-rt"

    device: str = "host"
    target: str | None = None
    """What kernels are for, as of `select-kernels`."""
    gpu: str | None = None
    """The older spelling of `target`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block.

        Raises:
            DiagnosticError: a function uses what no device can run.
            PassFailedException: there is no such device, or `target` names none for it.
        """
        check_device(self.device)
        target = target_of(self.device, todays_option(self.device, self.target, self.gpu))
        gpu = target if isinstance(target, Target) else None
        for call in op.walk():
            if isinstance(call, func.CallOp):
                name = call.callee.string_value()
                reason = f"{call.name} is outside of every kernel, and no runtime call computes it"
                raise refusal(call, f"{reason}: @{name} is not inlined")
        for function in [f for f in op.ops if isinstance(f, func.FuncOp)]:
            if len(function.body.blocks) == 1 and rt.PROGRAM_ATTR not in function.attributes:
                converted = convert_function(function, self.device, gpu)
                Rewriter.insert_op(converted, InsertPoint.before(function))
                Rewriter.erase_op(function)
        _erase_slices(op)
