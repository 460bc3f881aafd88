"""`convir.compile`: from a source of any kind to an executable, in one call.

What was compiled before comes from the program cache, without the compiler being imported.
"""

from __future__ import annotations

import gc
import logging
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from convir.analysis.refusal import Refusal
from convir.api.arguments import (
    check_fraction,
    check_integer,
    check_pipeline,
    check_shapes,
    check_type,
    check_values,
)
from convir.api.batches import LESS, MORE, PLANNED, Batches
from convir.api.plans import early_kernels, load_plan, made_for, plan_others
from convir.api.progress import telling
from convir.api.sources import source_of
from convir.runtime.cache.entry_fields import FormatError
from convir.runtime.cache.program_cache import (
    Question,
    load_program,
    program_lock,
    store_program,
)
from convir.runtime.cache.program_entry import ModelFiles, Signature
from convir.runtime.compile_error import CompileError
from convir.runtime.devices import CUDA, find_device
from convir.runtime.dynamic import CAPACITY, DynamicExecutable
from convir.runtime.executable import Executable
from convir.runtime.program import adopt_configs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from convir.api.batches import Bound, Rebind
    from convir.api.build import Build
    from convir.api.sources import Source
    from convir.runtime.cuda.plan import CudaPlan
    from convir.runtime.devices import Device
    from convir.runtime.host.plan import HostPlan
    from convir.runtime.program import Program

DEFAULT_PIPELINE = "default"

KERNELS_DONE = "kernels, "
"""What a step of `progress` begins with that says how many kernels are compiled; all are known."""

MOST_GARBAGE = 1_000_000
"""Objects that compiling may leave in memory until Python's next collection of all objects, about
100 bytes each; a network of 400 nodes allocates 800,000 that outlive their use."""

_log = logging.getLogger(__name__)


def compile(
    source: str | Path | ModuleOp | Any,
    pipeline: str | Sequence[ModulePass] = DEFAULT_PIPELINE,
    device: str = "auto",
    *,
    function: str | None = None,
    workspace_bytes: int | None = None,
    threads: int | None = None,
    specialisations: int = CAPACITY,
    shapes: Sequence[Sequence[int] | None] = (),
    values: Mapping[str, Any] | None = None,
    example_inputs: Sequence[Any] | None = None,
    size: float = 1.0,
    allow_tf32: bool = False,
    autotune: bool = False,
    progress: bool | Callable[[str], None] = False,
) -> Executable:
    """Compile one function on tensors to an executable.

    Where the types of its arguments leave sizes open (`tensor<?x8xf32>`, a named dimension of an
    ONNX model), it is a `DynamicExecutable`, which compiles once for each set of shapes that it is
    called with; batches from a quarter of one that is compiled to eight times as many share its
    code where the kernels' code does not depend on them.

    Programs whose pipelines are text are kept on disk: the same text, or a module that prints so,
    is compiled once, whatever the process.

    Args:
        source: MLIR text, the path of a file that holds it, a MIOpenDriver line
            (`conv -n 4 -c 64 …`), the path of an .onnx or .nam model, a module (left unchanged), a
            `ModelProto` of ONNX that holds its tensors itself, a `torch.nn.Module`, or an
            `ExportedProgram` of `torch.export`.
        pipeline: passes to run before lowering: `default`, a pipeline's name, passes as text, or
            the passes themselves; an empty string for none.
        device: `host` (or `cpu`), `cuda`, `cuda:1`, or `auto` for a GPU where there is one.
        function: the name of the function to compile; None for the only one, or `main` of several.
        workspace_bytes: the most that temporaries may take, in bytes; None for no limit.
        threads: at most so many threads a launch on the host; None for all cores.
        specialisations: how many sets of shapes stay compiled, where sizes are dynamic.
        shapes: of the inputs of a model, in order, where it leaves sizes open, which calls bind
            otherwise: of a .nam model, the block, (1, channels, frames).
        values: inputs of an ONNX model that become constants, by name, as arrays: such as the
            sample rate that chooses a branch. The executable does not take them.
        example_inputs: the arguments of a `torch.nn.Module`, for whose sizes and dtypes it is
            compiled; its parameters and buffers are constants of the executable.
        size: which of the models that a .nam file contains, from 0 (the smallest) to 1.
        allow_tf32: whether a GPU may round what it multiplies in f32 to TF32 (10 bits of mantissa),
            as the pass `allow-tf32` says.
        autotune: whether the likely configs of the program's kernels are measured on the GPU first,
            which takes seconds; the times are kept as tuning records of this machine. On the host
            it changes nothing.
        progress: whether a line on standard error, where that is a terminal, says how far a
            compilation is that takes longer than two seconds; or what is called with each step, a
            text such as `kernels, 3 of 50`. Nothing is said of a program from the cache.

    Raises:
        DiagnosticError: the source is not valid IR.
        PassFailedException: the function uses what the device cannot run, or there is no such
            function.
        CompileError: a toolchain refused generated code.
        OSError: a file of text cannot be read.
        TypeError: an argument is of a type that means nothing here.
        ValueError: `device` names no device; a number is too small or too large for what it says;
            a .nam model is given no shape.
        NoGpuError: a GPU was asked for by name and cannot be used.
    """
    check_pipeline(pipeline)
    check_type("device", device, str, "the name of a device")
    check_type("function", function, str | None, "the name of a function")
    check_integer("workspace_bytes", workspace_bytes, 0, optional=True)
    check_integer("threads", threads, 1, optional=True)
    check_integer("specialisations", specialisations, 1)
    check_shapes(shapes)
    check_values(values)
    check_fraction("size", size)
    check_type("allow_tf32", allow_tf32, bool, "True or False")
    check_type("autotune", autotune, bool, "True or False")
    job = Job(
        source_of(source, shapes, size, values, example_inputs),
        function,
        pipeline,
        find_device(device),
        workspace_bytes,
        threads,
        allow_tf32,
        progress,
        autotune,
    )
    try:
        compiled = job.compile()
    finally:
        job.source.forget()
    if isinstance(compiled, Executable):
        return compiled
    job = replace(job, source=job.source.kept())
    batches = Batches(compiled, job.specialise, job.rebinding, _has_compiled)
    return DynamicExecutable(compiled, job.device.name, batches.specialise, specialisations)


@contextmanager
def _compiling() -> Generator[None]:
    """Quick imports, and no collection of garbage meanwhile: IR is one graph of cycles that is all
    in use, which each collection would walk in vain. What was read of its kernels goes with it, and
    what is left of the IR goes with a later collection."""
    from convir.analysis.structural_keys import forget_bodies  # noqa: PLC0415  (bring xDSL along)
    from convir.dialects.compat.startup import quick_imports  # noqa: PLC0415
    from convir.dialects.conv.held_elements import holding_elements  # noqa: PLC0415

    collects = gc.isenabled()
    gc.disable()
    try:
        with quick_imports(), holding_elements():
            _import_compiler()
            yield
    finally:
        forget_bodies()
        if collects:
            _GARBAGE.leave()
            gc.enable()


class _Garbage:
    """What compiling has left for a later collection of all objects."""

    def __init__(self) -> None:
        self._objects = 0

    def leave(self) -> None:
        """Make what was allocated since collections ceased old, which spares the next collection
        the walk; collect where that is too much by now."""
        if gc.get_freeze_count():
            return  # somebody wants what they froze to stay so
        self._objects += gc.get_count()[0]
        if self._objects > MOST_GARBAGE:
            gc.collect()
            self._objects = 0
        else:
            _make_old()


_GARBAGE = _Garbage()


def _make_old() -> None:
    """Move all objects to the oldest generation, without a walk."""
    gc.freeze()
    gc.unfreeze()


@cache
def _import_compiler() -> None:
    """Import what every compile needs, as objects that the next collections need not walk."""
    import_module("convir.api.build")
    import_module("convir.passes.pipelines")
    if not gc.get_freeze_count():  # else somebody wants what they froze to stay so
        _make_old()


def _has_compiled() -> bool:
    """Whether something was compiled in this process."""
    return _import_compiler.cache_info().currsize > 0


def _plan_of(key: str) -> Signature | HostPlan | CudaPlan | None:
    """What the program cache has of a function."""
    entry = load_program(key)
    return None if isinstance(entry, ModelFiles) else entry


@dataclass(frozen=True)
class Job:
    """How one function becomes an executable, from the cache or from its source."""

    source: Source
    function: str | None
    pipeline: str | Sequence[ModulePass]
    device: Device
    workspace_bytes: int | None = None
    threads: int | None = None
    allow_tf32: bool = False
    progress: bool | Callable[[str], None] = False
    """As `convir.compile` takes it."""
    autotune: bool = False

    def compile(self) -> Executable | Signature:
        """The executable, or what calls have to bind first."""
        return self._made(None)

    def specialise(self, shapes: Sequence[Sequence[int]]) -> Executable:
        """The executable for arguments of these shapes."""
        opened = self.source.open
        if opened is None:
            made = self._made(shapes)
        else:
            made = replace(self, source=opened.bound(shapes)).compile()
        assert isinstance(made, Executable)
        return made

    def rebinding(
        self, arguments: Sequence[int], bound: Sequence[Bound], made: Executable
    ) -> Rebind | Refusal:
        """What makes executables for other batches, or why nothing does.

        Args:
            arguments: those whose first size is the batch.
            bound: the batch, and the next ones, which may be planned beside it.
            made: the executable for the first of them.

        Raises:
            DiagnosticError, PassFailedException: another batch is not valid, or has no program.
        """
        if self.source.open is not None:
            # Reading it decides by sizes: which branch of an If, how often a Loop.
            return Refusal("its model is read anew for each batch")
        with _compiling():
            refused = self._build.computes_with_batch(arguments)
            if refused is not None:
                return refused
            programs, batches = self._chosen_alike(bound, made)
        if len(programs) < PLANNED:
            return Refusal("passes give the next batches other calls")
        served = -(-batches[0] // LESS), batches[0] * MORE
        others = plan_others(
            self.device, made.loaded, programs, batches, served, self.workspace_bytes
        )
        if isinstance(others, Refusal):
            return others

        def rebind(asked: Bound) -> Executable | Refusal:
            found = others(asked.batch, lambda: self._lowered(asked.shapes))
            return found if isinstance(found, Refusal) else Executable(found)

        return rebind

    def _chosen_alike(
        self, bound: Sequence[Bound], made: Executable
    ) -> tuple[list[Program], list[int]]:
        """The programs of the first batch and of some of the next ones with the same configs, and
        these batches: those that passes choose them for, as many as it takes, and where they are
        too few, others with the same calls, whose kernels get the configs of the first."""
        found, others = [(bound[0].batch, made.program)], list["tuple[int, Program]"]()
        kind = self.device.kind
        chosen = made.program.summary(kind)
        for each in bound[1:]:
            program = self._build.program(each.shapes)
            alike = found if program.summary(kind) == chosen else others
            alike.append((each.batch, program))
            if len(found) == PLANNED:
                break
        for batch, program in others:
            if len(found) < PLANNED and adopt_configs(program, made.program, kind):
                found.append((batch, program))
        found.sort(key=lambda each: each[0])
        return [program for _, program in found], [batch for batch, _ in found]

    def plan(self) -> Signature | HostPlan | CudaPlan:
        """What the program cache has from now on, for a device that this machine need not have.

        Raises:
            DiagnosticError, PassFailedException, CompileError: as `convir.compile`.
            NoGpuError: a part of the CUDA toolkit is missing.
        """
        key = self._key(None)
        if key is None:
            return self._planned(key, None)[1]
        return _plan_of(key) or self._plan_alone(key)

    def _plan_alone(self, key: str) -> Signature | HostPlan | CudaPlan:
        with program_lock(key):
            # Another thread or process may have been faster.
            return _plan_of(key) or self._planned(key, None)[1]

    def program(self) -> Program:
        """The program as it is lowered; its sizes are known.

        Raises:
            DiagnosticError, PassFailedException: as `convir.compile`.
        """
        return self._lowered(None)

    def _lowered(self, shapes: Sequence[Sequence[int]] | None) -> Program:
        with _compiling():
            return self._build.program(shapes)

    def _made(self, shapes: Sequence[Sequence[int]] | None) -> Executable | Signature:
        key = self._key(shapes)
        if key is None:
            return self._compile(key, shapes)
        found = self._cached(key, shapes)
        if found is not None:
            return found
        with program_lock(key):
            # Another thread or process may have been faster.
            found = self._cached(key, shapes)
            return found if found is not None else self._compile(key, shapes)

    def _cached(
        self, key: str, shapes: Sequence[Sequence[int]] | None
    ) -> Executable | Signature | None:
        entry = _plan_of(key)
        if entry is None:
            return None
        if isinstance(entry, Signature):
            return entry if shapes is None else None
        try:
            return self._executable(entry, cache(lambda: self._build.program(shapes)))
        except (CompileError, FormatError) as error:
            _log.warning("a cached program cannot be loaded, compiling again: %s", error)
        return None

    def _compile(
        self, key: str | None, shapes: Sequence[Sequence[int]] | None
    ) -> Executable | Signature:
        program, plan = self._planned(key, shapes)
        if program is None or isinstance(plan, Signature):
            return cast("Signature", plan)
        return self._executable(plan, lambda: program)

    def _planned(
        self, key: str | None, shapes: Sequence[Sequence[int]] | None
    ) -> tuple[Program | None, Signature | HostPlan | CudaPlan]:
        """What is stored under `key`, and the program where its sizes are known."""
        with _compiling(), telling(self.progress) as tell:
            tell("passes")
            plan = self._build.signature() if shapes is None else None
            program = None
            if plan is None:
                if self.autotune and self.device.kind == CUDA:
                    self._tune(shapes, tell)
                    key = self._key(shapes)  # There are other records now.
                with early_kernels(self.device) as early:
                    program = self._build.program(shapes, early)
                    tell("kernels")
                    plan = early.plan(
                        program, lambda done, count: tell(f"{KERNELS_DONE}{done} of {count}")
                    )
        if key is not None:
            store_program(key, plan)
        return program, plan

    def _tune(self, shapes: Sequence[Sequence[int]] | None, tell: Callable[[str], None]) -> None:
        from convir.api.autotune import autotune  # noqa: PLC0415  (brings the whole compiler along)

        autotune(
            self._build.tunable(shapes),
            self.device,
            lambda done, count: tell(f"measured kernels, {done} of {count}"),
        )

    def _executable(self, plan: HostPlan | CudaPlan, program: Callable[[], Program]) -> Executable:
        return Executable(load_plan(self.device, plan, program, self.threads))

    def _key(self, shapes: Sequence[Sequence[int]] | None) -> str | None:
        """The key of the program cache; None where only compiling gives an answer."""
        content, pipeline = self.source.content, self.pipeline
        if content is None or not isinstance(pipeline, str):
            return None
        machine = made_for(self.device)
        question = Question(
            content,
            self.function,
            pipeline,
            self.workspace_bytes,
            self.allow_tf32,
            machine,
            self.autotune,
        )
        return question.key(shapes)

    @cached_property
    def _build(self) -> Build:
        from convir.api.build import Build  # noqa: PLC0415  (brings the whole compiler along)

        return Build(
            self.source,
            self.function,
            self.pipeline,
            self.device,
            self.workspace_bytes,
            allow_tf32=self.allow_tf32,
        )
