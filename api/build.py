"""From a module to an rt program: the part of compiling that needs the whole compiler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.open_sizes import computes_with
from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context
from convir.dialects.diagnostics import DiagnosticError, error_at, verify
from convir.dialects.port_names import INPUTS_ATTR, OUTPUTS_ATTR
from convir.frontends.onnx.errors import OpenSizeError
from convir.lowering.pipeline import lowering_passes
from convir.lowering.regions.outline_kernels import OutlineKernelsPass
from convir.lowering.selection.select_kernels import SelectKernelsPass
from convir.lowering.tensor_passes import passes_for
from convir.passes.allow_tf32 import AllowTf32Pass
from convir.passes.bind_sizes.pass_ import BindSizesPass, is_dynamic
from convir.passes.bind_sizes.size_rules import spelled
from convir.passes.inline import inline_calls
from convir.passes.manager.pass_manager import apply_passes
from convir.passes.manager.pipeline_text import parse_pipeline
from convir.reference.limits import memory_bytes
from convir.runtime.cache.object_cache import private_records
from convir.runtime.cache.program_entry import Signature
from convir.runtime.devices import HOST
from convir.runtime.program import DYNAMIC_SIZE
from convir.runtime.read_program import named, read_program, tensor_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context

    from convir.api.sources import Source
    from convir.dialects.kernel import ops as kernel
    from convir.frontends.onnx.ends import Ends
    from convir.lowering.selection.tune import Tunable
    from convir.runtime.devices import Device
    from convir.runtime.program import Program

DEFAULT_FUNCTION = "main"
"""What is compiled of a module with several functions, unless a name is given."""


class Early(Protocol):
    """What compiles kernels of a program that is lowered."""

    def chosen(self, region: kernel.RegionOp, /) -> None:
        """`region` has its config."""
        ...

    def outlined(self, module: ModuleOp, /) -> None:
        """All kernels of `module` are functions."""
        ...


@dataclass(frozen=True)
class _Telling(ModulePass):
    """A pass that tells what it has chosen."""

    name = SelectKernelsPass.name

    wrapped: SelectKernelsPass
    early: Early

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every kernel region."""
        self.wrapped.select(op, self.early.chosen)


@dataclass(frozen=True)
class Build:
    """One function of one source, on its way to a device."""

    source: Source
    asked: str | None
    """The function to compile; None for the one there is, or `main` of several."""
    pipeline: str | Sequence[ModulePass]
    device: Device
    workspace_bytes: int | None
    allow_tf32: bool = False

    @cached_property
    def read(self) -> ModuleOp:
        """The module of the source.

        Raises:
            DiagnosticError: the source is not valid IR.
        """
        return self.source.read()

    @cached_property
    def function(self) -> str:
        """The name of the function to compile.

        Raises:
            DiagnosticError: the source is not valid IR.
            PassFailedException: the module has no such function, or it is not clear which one.
        """
        return entry_of(self.read, self.asked)

    @cached_property
    def module(self) -> ModuleOp:
        """The function and what it calls, verified, its calls inlined.

        Raises:
            DiagnosticError: the source is not valid IR, or a call cannot be inlined.
        """
        module = self.read
        if not any(isinstance(op, CallOp) for op in module.walk()):
            return module
        module = _with_callees(module, self.function)
        for call, refusal in inline_calls(module).items():
            message = f"'{call.name}' op stays a call, which no device makes: {refusal}"
            raise DiagnosticError(error_at(call, message))
        return module

    @cached_property
    def passes(self) -> tuple[ModulePass, ...]:
        """What runs before the lowering.

        Raises:
            PipelineError: the pipeline's text is malformed or names what does not exist.
        """
        given = self.pipeline
        passes = parse_pipeline(given) if isinstance(given, str) else tuple(given)
        first = (AllowTf32Pass(),) if self.allow_tf32 else ()
        return passes_for(self.device.kind, (*first, *passes), self.device.gpu)

    def signature(self) -> Signature | None:
        """What calls bind, or None if the arguments' types say every size.

        Raises:
            DiagnosticError: the source is not valid IR.
            PipelineError: the pipeline's text is malformed or names what does not exist.
        """
        _ = self.passes  # a mistake is told now, not by the first call
        try:
            entry = self._dynamic_entry()
        except OpenSizeError:
            if self.source.open is None:
                raise
            return _signature_of(self.source.open.ends())
        if entry is None:
            return None
        inputs, outputs = (
            named([tensor_spec(declared) for declared in types], entry, attribute)
            for types, attribute in (
                (entry.function_type.inputs, INPUTS_ATTR),
                (entry.function_type.outputs, OUTPUTS_ATTR),
            )
        )
        if not any(DYNAMIC_SIZE in spec.shape for spec in inputs):
            return None
        self.source.settle()
        return Signature(inputs, outputs, self.function)

    def copy(self) -> ModuleOp:
        """A copy of the function and of what it refers to.

        Raises:
            DiagnosticError: the source is not valid IR, or a call cannot be inlined.
            PassFailedException: the module has no such function.
        """
        return _with_callees(self.module, self.function)

    def program(
        self,
        shapes: Sequence[Sequence[int]] | None = None,
        early: Early | None = None,
    ) -> Program:
        """Lower a copy of the function, for arguments of `shapes` where its types leave sizes open.

        Args:
            shapes: of the arguments.
            early: is told of kernels as soon as they are known.

        Raises:
            DiagnosticError: the source is not valid IR, or uses what the device cannot run.
            PassFailedException: likewise.
        """
        entry = self._dynamic_entry()
        passes = self._bound_passes(entry, shapes)
        lowering = lowering_passes(
            self.device.kind, self.workspace_bytes, self.device.gpu, private_records()
        )
        if early is not None:
            lowering = tuple(
                _Telling(each, early) if isinstance(each, SelectKernelsPass) else each
                for each in lowering
            )

        def behind(done: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
            del following
            if early is not None and isinstance(done, OutlineKernelsPass):
                early.outlined(module)

        module = self.copy() if entry is not None else self._taken()
        try:
            apply_passes(new_context(), module, passes, verify_each=False)
            PassPipeline(lowering, callback=behind).apply(new_context(), module)
            verify(module)
        except Exception:
            self._blame(passes)
            raise
        program = read_program(module, self.function)
        self.source.settle()
        if self.device.kind == HOST:
            self._require_memory(program)
        return program

    def _bound_passes(
        self, entry: FuncOp | None, shapes: Sequence[Sequence[int]] | None
    ) -> tuple[ModulePass, ...]:
        """What runs before the lowering for arguments of `shapes`; `entry` leaves sizes open."""
        if shapes is None and entry is not None:
            shapes = [tensor_spec(declared).shape for declared in entry.function_type.inputs]
        if shapes is None:
            return self.passes
        return BindSizesPass(tuple(map(spelled, shapes)), self.function), *self.passes

    def tunable(self, shapes: Sequence[Sequence[int]] | None = None) -> Tunable:
        """The function with its kernels selected for a GPU, and the configs that each may have.

        Args:
            shapes: as `program` takes them.

        Raises:
            DiagnosticError: the source is not valid IR.
            PassFailedException: a pass refuses it.
        """
        from convir.lowering.selection.tune import tunable  # noqa: PLC0415  (few ask for it)

        module = self.copy()
        passes = self._bound_passes(self._dynamic_entry(), shapes)
        apply_passes(new_context(), module, passes, verify_each=False)
        self.source.settle()
        return tunable(module, self.device.gpu)

    def computes_with_batch(self, arguments: Sequence[int]) -> Refusal | None:
        """Why a batch is more than a size, which begins some arguments; None where it is not."""
        entry = self._dynamic_entry()
        if entry is None:
            return Refusal("its sizes are known")
        return computes_with(entry, {(number, 0) for number in arguments})

    def _taken(self) -> ModuleOp:
        """As `copy`, but nobody reads the module again, unless the source is read again."""
        module = self.module
        if [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)] != [self.function]:
            return self.copy()
        for name in ("read", "module"):
            self.__dict__.pop(name, None)
        return module

    def _require_memory(self, program: Program) -> None:
        """Refuse a program whose temporaries and results this machine has no memory for.

        Raises:
            DiagnosticError: it has none; located at the function.
        """
        size = program.arena_bytes + sum(spec.nbytes for spec in program.outputs)
        if size <= memory_bytes():
            return
        entry = SymbolTable.lookup_symbol(self.module, self.function)
        if entry is not None:
            message = (
                f"'{self.function}' takes {size} bytes, more than the {memory_bytes()} of memory"
            )
            raise DiagnosticError(error_at(entry, message))

    def _blame(self, passes: Sequence[ModulePass]) -> None:
        """Run `passes` again and verify after each, which takes as long as rewriting.

        Raises:
            DiagnosticError: one of them leaves invalid IR, or fails.
            PassCrashError: one of them is broken.
        """
        module = self.copy()
        verify(module)
        apply_passes(new_context(), module, passes)

    def _dynamic_entry(self) -> FuncOp | None:
        """The function, if a tensor in it has a size that its type leaves open."""
        entry = SymbolTable.lookup_symbol(self.module, self.function)
        if not isinstance(entry, FuncOp) or entry.is_declaration or not is_dynamic(entry):
            return None
        return entry


def _signature_of(ends: Ends) -> Signature:
    """What calls of a model bind."""
    inputs, outputs = (
        tuple(replace(tensor_spec(declared), name=name) for name, declared in each)
        for each in (ends.inputs, ends.outputs)
    )
    return Signature(inputs, outputs, DEFAULT_FUNCTION)


def entry_of(module: ModuleOp, asked: str | None) -> str:
    """The name of the function to compile: the one that is asked for; if none is, the only one
    that has a body and is not private, or `main`.

    Raises:
        PassFailedException: there is none, or several and none of them is called `main`.
    """
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    names = [op.sym_name.data for op in functions]
    if asked is not None and asked in names:
        return asked
    public = [op.sym_name.data for op in functions if op.body.blocks and not _is_private(op)]
    if asked is None and (len(public) == 1 or DEFAULT_FUNCTION in names):
        return DEFAULT_FUNCTION if DEFAULT_FUNCTION in names else public[0]
    known = ", ".join(f"@{name}" for name in names) or "none"
    wanted = DEFAULT_FUNCTION if asked is None else asked
    hint = "; say which one: function=NAME" if asked is None and names else ""
    raise PassFailedException(f"the module has no function @{wanted}; it has {known}{hint}")


def _is_private(function: FuncOp) -> bool:
    visibility = function.sym_visibility
    return visibility is not None and visibility.data == "private"


def _with_callees(module: ModuleOp, function: str) -> ModuleOp:
    """A copy of `module` without the functions that `function` does not refer to."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    waiting, kept = [function], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in functions or name in kept:
            continue
        kept.add(name)
        waiting += _referred(functions[name])
    return ModuleOp(
        [op.clone() for op in module.ops if not isinstance(op, FuncOp) or op.sym_name.data in kept],
        dict(module.attributes),
    )


def _referred(function: FuncOp) -> list[str]:
    """The symbols that stand in `function`."""
    return [
        attribute.root_reference.data
        for op in function.body.walk()
        for attribute in (*op.properties.values(), *op.attributes.values())
        if isinstance(attribute, SymbolRefAttr)
    ]
