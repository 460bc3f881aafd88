"""`chunk-batch`: the lowering of functions whose temporaries exceed a budget, chunk by chunk.

    rewrite: func @f(%x: tensor<32x…>) -> tensor<32x…>      (peak 4 GB, budget 1 GB)
             --> func @f(%x: memref<32x…>, %y: memref<32x…>) attributes {rt.program} {
                   the program for 8 samples on views of samples 0 to 7, 8 to 15, … }

It drives the passes of the lowering that it is given, as `fixpoint` drives its own: it is the first
line of `lowering_passes`, and no pass that a pipeline can name. The largest chunk whose plan fits
is taken, and one arena serves all chunks in turn. Preconditions: the batch can be resized
(`passes.builders.resized_batch`). The batch is the leading dimension of every argument and result
that has it, so that a chunk is a piece of memory. Nothing is reduced over the batch, so that no
chunk depends on another, or adds to its result. Without a budget, or within it, nothing changes.
On a GPU the workspace of kernels counts too (copies in another layout, partial sums); where that
alone exceeds the budget, and the batch cannot be chunked, nothing changes either, and a remark says
why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass, PassPipeline
from xdsl.rewriter import InsertPoint, Rewriter

from convir.analysis.refusal import Refusal
from convir.dialects.diagnostics import DiagnosticError, error_at
from convir.dialects.kernel import ops as kernel
from convir.dialects.rt import ops as rt
from convir.lowering.buffers.buffer_type import buffer_type
from convir.lowering.buffers.workspace import launch_scratch
from convir.lowering.kernels.cuda.launch import POINTER_ALIGNMENT
from convir.passes.builders.resized_batch import with_batch
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_workspace
from convir.passes.manager.quantities import bytes_change

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.context import Context

    from convir.lowering.kernels.target import Target


@dataclass(frozen=True, eq=False)
class _Lowered:
    """A function lowered for one batch size."""

    size: int
    kernels: tuple[kernel.FuncOp, ...]
    program: func.FuncOp
    scratch: int
    """Bytes of the launch that needs most beside the arena."""

    @property
    def peak(self) -> int:
        """The bytes of its temporaries."""
        return self.arena + self.scratch

    @property
    def arena(self) -> int:
        """The bytes of its arena."""
        arenas = [op for op in self.program.body.block.ops if isinstance(op, rt.ArenaOp)]
        return sum(rt.buffer_bytes(arena.memory.type) for arena in arenas)


@dataclass(frozen=True)
class _Chunker:
    ctx: Context
    module: ModuleOp
    function: func.FuncOp
    lowering: tuple[ModulePass, ...]
    gpu: Target | None

    @property
    def name(self) -> str:
        return self.function.sym_name.data

    def lowered(self, size: int, *, independent: bool = True) -> _Lowered | Refusal:
        """The function for a batch of `size`, in a module of its own; refused where samples depend
        on each other, if they must not."""
        resized = with_batch(self.module, self.name, size, independent=independent)
        if isinstance(resized, Refusal):
            return resized
        for op in list(resized.ops):
            if isinstance(op, func.FuncOp) and op.sym_name.data != self.name:
                Rewriter.erase_op(op)
        with remarks.muted():
            PassPipeline(self.lowering).apply(self.ctx, resized)
        kernels = tuple(op for op in resized.ops if isinstance(op, kernel.FuncOp))
        program = next(op for op in resized.ops if isinstance(op, func.FuncOp))
        scratch = max((launch_scratch(each, self.gpu) for each in kernels), default=0)
        for kernel_func in kernels:
            kernel_func.sym_name = StringAttr(_kernel_name(kernel_func.sym_name.data, size))
        for launch in [op for op in program.body.block.ops if isinstance(op, rt.LaunchOp)]:
            callee = _kernel_name(launch.callee.root_reference.data, size)
            launch.callee = SymbolRefAttr(callee)
        return _Lowered(size, kernels, program, scratch)

    def chunks(self, full: _Lowered, budget: int) -> list[_Lowered] | Refusal:
        """Lowerings for the largest chunk whose peak is within `budget`, as often as the batch of
        `full` holds it, and for the rest."""
        chunk = self._largest_within(full, budget)
        if isinstance(chunk, Refusal):
            return chunk
        whole, left = divmod(full.size, chunk.size)
        rest = self.lowered(left) if left else None
        if isinstance(rest, Refusal):
            return rest
        return [chunk] * whole + ([] if rest is None else [rest])

    def _largest_within(self, full: _Lowered, budget: int) -> _Lowered | Refusal:
        """Peaks lie nearly on a line over the batch: every other size that is tried is where the
        line meets the budget, and the others halve what is left, which bounds their number."""
        low, high, on_line = self.lowered(1), full, True
        if isinstance(low, Refusal):
            return low
        if low.peak > budget:
            return Refusal(f"one sample alone needs more than {budget} bytes of workspace")
        while (between := high.size - low.size - 1) > 0:
            share = (budget - low.peak) / (high.peak - low.peak) if on_line else 0.5
            found = self.lowered(low.size + min(max(int(share * (between + 1)), 1), between))
            if isinstance(found, Refusal):
                return found
            low, high = (found, high) if found.peak <= budget else (low, found)
            on_line = not on_line
        return low

    def stitched(self, chunks: Sequence[_Lowered], full: _Lowered) -> func.FuncOp | Refusal:
        """One program that runs the programs of `chunks` on consecutive pieces of the batch."""
        types = list(full.program.function_type.inputs)
        outputs = len(self.function.function_type.outputs)
        chunk_types = list(chunks[0].program.function_type.inputs)
        for position, (whole, piece) in enumerate(zip(types, chunk_types, strict=True)):
            refusal = _leading_only(whole, piece, is_output=position >= len(types) - outputs)
            if refusal is not None:
                return refusal
        block = Block(arg_types=types)
        for argument, old in zip(block.args, self.function.body.block.args, strict=False):
            argument.name_hint = old.name_hint
        size = max(chunk.arena for chunk in chunks)
        arena = rt.ArenaOp(size) if size else None
        if arena is not None:
            block.add_op(arena)
        done = 0
        for chunk in chunks:
            _append(block, chunk, arena, done)
            done += chunk.size
        block.add_op(func.ReturnOp())
        program = func.FuncOp(self.name, FunctionType.from_lists(types, []), Region(block))
        program.attributes = {
            **self.function.attributes,
            rt.PROGRAM_ATTR: UnitAttr(),
            rt.OUTPUTS_ATTR: IntegerAttr(outputs, i64),
        }
        program.location = self.function.location
        return program


def _leading_only(whole: Attribute, piece: Attribute, *, is_output: bool) -> Refusal | None:
    """Whether a chunk of the buffer `whole` is one piece of its memory."""
    if whole == piece:
        return Refusal("a result is summed over the batch") if is_output else None
    sizes = zip(
        cast("MemRefType[Attribute]", whole).get_shape(),
        cast("MemRefType[Attribute]", piece).get_shape(),
        strict=True,
    )
    differing = [dim for dim, (all_, some) in enumerate(sizes) if all_ != some]
    return None if differing == [0] else Refusal("the batch is not the leading dimension")


def _is_unaligned(program: func.FuncOp) -> bool:
    """Whether kernels of a GPU, which load vectors, would read or write views as they cannot."""
    views = [op for op in program.body.block.ops if isinstance(op, rt.ViewOp)]
    return any(view.offset.value.data % POINTER_ALIGNMENT for view in views)


def _append(block: Block, chunk: _Lowered, arena: rt.ArenaOp | None, done: int) -> None:
    """Append the calls of `chunk` on the samples from number `done` on."""
    mapping: dict[SSAValue, SSAValue] = {}
    for argument, buffer in zip(chunk.program.body.block.args, block.args, strict=True):
        if argument.type == buffer.type:
            mapping[argument] = buffer
            continue
        sample = rt.buffer_bytes(argument.type) // chunk.size
        view = rt.ViewOp(buffer, done * sample, argument.type)
        block.add_op(view)
        mapping[argument] = view.view
    for op in chunk.program.body.block.ops:
        if isinstance(op, rt.ArenaOp):
            assert arena is not None
            mapping[op.memory] = arena.memory
        elif not isinstance(op, func.ReturnOp):
            block.add_op(op.clone(mapping))


def _kernel_name(name: str, size: int) -> str:
    """The kernels of different chunk sizes stand in one module."""
    return f"{name}_of_{size}"


def _failure(chunker: _Chunker, full: _Lowered, budget: int, why: Refusal) -> DiagnosticError:
    message = (
        f"@{chunker.name} needs {full.peak} bytes of workspace, the budget is {budget}, "
        f"and its batch cannot be chunked: {why.reason}"
    )
    return DiagnosticError(error_at(chunker.function, message))


def _batch_of(function: func.FuncOp) -> int | None:
    """The leading size of the first argument."""
    inputs: tuple[Attribute, ...] = function.function_type.inputs.data
    if not inputs or not isinstance(inputs[0], TensorType):
        return None
    shape = buffer_type(cast("Attribute", inputs[0]), function).get_shape()
    return shape[0] if shape else None


def _replace(function: func.FuncOp, program: func.FuncOp, lowered: Iterable[_Lowered]) -> None:
    """Put `program` in the place of `function`, and the kernels it launches before it."""
    for chunk in lowered:
        for kernel_func in chunk.kernels:
            kernel_func.detach()
            Rewriter.insert_op(kernel_func, InsertPoint.before(function))
    Rewriter.insert_op(program, InsertPoint.before(function))
    Rewriter.erase_op(function)


@dataclass(frozen=True)
class ChunkedLowering(ModulePass):
    """Lowers functions whose temporaries exceed `workspace_bytes` for chunks of their batch."""

    name = "chunk-batch"

    passes: tuple[ModulePass, ...]
    """The whole lowering, without a budget."""
    workspace_bytes: int | None = None
    """The most that temporaries may take, in bytes; None for no limit."""
    gpu: Target | None = None
    """What cuda kernels are chosen for; None for the host."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function on tensors.

        Raises:
            DiagnosticError: a function does not fit, and cannot be chunked.
            PassFailedException: there is no such workspace.
        """
        check_workspace(self.workspace_bytes)
        if self.workspace_bytes is None:
            return
        for function in [f for f in op.ops if isinstance(f, func.FuncOp)]:
            if function.body.blocks and rt.PROGRAM_ATTR not in function.attributes:
                self._chunk(
                    _Chunker(ctx, op, function, self.passes, self.gpu), self.workspace_bytes
                )

    def _chunk(self, chunker: _Chunker, budget: int) -> None:
        batch = _batch_of(chunker.function)
        if batch is None:
            return
        full = chunker.lowered(batch, independent=False)
        if isinstance(full, Refusal):
            remarks.refused(self.name, chunker.function, full.reason)
            return
        if full.peak <= budget:
            return
        chunks = chunker.chunks(full, budget)
        program = chunks if isinstance(chunks, Refusal) else chunker.stitched(chunks, full)
        if full.arena <= budget and not isinstance(program, Refusal) and _is_unaligned(program):
            program = Refusal(f"a chunk would not begin at a multiple of {POINTER_ALIGNMENT} bytes")
        if isinstance(chunks, Refusal) or isinstance(program, Refusal):
            why = chunks if isinstance(chunks, Refusal) else program
            assert isinstance(why, Refusal)
            if full.arena > budget:
                raise _failure(chunker, full, budget, why)
            remarks.refused(self.name, chunker.function, why.reason)
            return
        remarks.fired(
            self.name,
            chunker.function,
            f"peak {bytes_change(full.peak, max(c.peak for c in chunks))} of workspace: "
            f"{len(chunks)} chunks of up to {chunks[0].size} samples",
        )
        _replace(chunker.function, program, dict.fromkeys(chunks))
