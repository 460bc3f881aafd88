"""LLVM IR to callable machine code, through object code that is cached on disk.

    library = compile_ir(ir, exports=("kernel",))
    address = library.address("kernel")

The object code of one (IR, target, options, LLVM) is compiled once, whatever the process.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from convir.lowering.kernels.host.target import CpuTarget, target
from convir.lowering.loops.llvm.llvm_binding import (
    VERSIONS,
    emit_assembly,
    emit_object,
    llvm,
    run_passes,
)
from convir.runtime.cache.object_cache import cache_of
from convir.runtime.compile_error import CompileError
from convir.runtime.host.linker import Library, Linkers
from convir.runtime.host.object_file import ObjectFileError, is_object, undefined_symbols

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_log = logging.getLogger(__name__)

CODE_VERSION = 1
"""Counts the changes of this module that change object code for the same IR."""

_BUILTINS = frozenset(
    ("__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2")
)
"""What `builtins.ll` defines."""


@dataclass(frozen=True)
class CompileOptions:
    """How IR becomes object code."""

    opt_level: int = 3
    """Code generation effort, 0 to 3."""
    optimize_ir: bool = True
    """Run LLVM's own pipeline of `opt_level`, its vectorizers included. Kernels that were
    emitted with explicit vectors and registers are compiled as they are."""

    def __str__(self) -> str:
        return f"-O{self.opt_level}{'' if self.optimize_ir else ' as it is'}"


AS_EMITTED = CompileOptions(opt_level=3, optimize_ir=False)
"""Registers and vectors are chosen already: LLVM only generates code."""


@dataclass(frozen=True)
class ObjectCode:
    """Machine code for one target, to be loaded."""

    key: str
    """The digest of what it was compiled from: equal keys are equal code."""
    exports: tuple[str, ...]
    """The functions that are called from outside."""
    code: bytes = field(repr=False)
    """An object file."""


_lock = threading.RLock()
"""Of `_libraries`."""
_libraries: WeakValueDictionary[tuple[str, tuple[str, ...]], Library] = WeakValueDictionary()


def compile_ir(
    ir: str,
    *,
    exports: Sequence[str],
    cpu: CpuTarget | None = None,
    options: CompileOptions = CompileOptions(),
) -> Library:
    """Compile `ir`, LLVM assembly, for `cpu` (the host's if None) and load it.

    Symbols that the IR only declares are looked up in the process; half and bfloat conversions
    that the CPU lacks are supplied.

    Raises:
        CompileError: the IR is wrong, or a symbol is defined nowhere. Nothing has run.
    """
    cpu = target() if cpu is None else cpu
    identity = (_key(ir, cpu, options), tuple(exports))
    with _lock:
        library = _libraries.get(identity)
        if library is None:
            code = object_code(ir, cpu, options, exports)
            library = load(code, cpu, source=ir)
        return library


def object_code(
    ir: str,
    cpu: CpuTarget,
    options: CompileOptions = CompileOptions(),
    exports: Sequence[str] = (),
) -> ObjectCode:
    """The object code of `ir`, from the cache where it is there.

    Calls from several threads overlap.

    Raises:
        CompileError: the IR is wrong.
    """
    key = _key(ir, cpu, options)
    return ObjectCode(key, tuple(exports), _object_code(ir, cpu, options, key))


def load(code: ObjectCode, cpu: CpuTarget, *, source: str = "") -> Library:
    """Load object code that was compiled for `cpu`; the IR `source` only stands in errors.

    Raises:
        CompileError: a symbol is defined nowhere. Nothing has run.
    """
    identity = (code.key, code.exports)
    with _lock:
        library = _libraries.get(identity)
        if library is None:
            library = _libraries[identity] = _load(code, source, cpu)
        return library


def assembly(ir: str, cpu: CpuTarget, options: CompileOptions = CompileOptions()) -> str:
    """The assembly of `ir`, to read; never cached. Calls from several threads overlap.

    Raises:
        CompileError: the IR is wrong.
    """
    with _optimized(ir, cpu, options) as module:
        return emit_assembly(_machine(cpu, options.opt_level), module)


def _key(ir: str, cpu: CpuTarget, options: CompileOptions) -> str:
    environment = f"{CODE_VERSION} {VERSIONS}\0{cpu.triple}\0{cpu.cpu}\0{cpu.features}\0{options}\0"
    return hashlib.sha256(environment.encode() + ir.encode()).hexdigest()


def _object_code(ir: str, cpu: CpuTarget, options: CompileOptions, key: str) -> bytes:
    stored = cache_of("objects")

    def known() -> bytes | None:
        code = stored.load(key)
        return code if code is not None and is_object(code, cpu.triple) else None

    if (code := known()) is not None:
        return code
    with stored.lock(key):
        if (code := known()) is not None:  # another thread or process was faster
            return code
        with _optimized(ir, cpu, options) as module:
            code = emit_object(_machine(cpu, options.opt_level), module)
        stored.store(key, code)
    return code


@contextmanager
def _optimized(ir: str, cpu: CpuTarget, options: CompileOptions) -> Generator[Any]:
    """The module of `ir` after LLVM's passes.

    The module is disposed of here, errors included: LLVM disposes of a module before its
    context, and a garbage collector that meets both in one cycle promises no order.
    """
    machine = _machine(cpu, options.opt_level)
    with ExitStack() as opened:
        try:
            module = llvm.parse_assembly(ir, llvm.create_context())
            opened.callback(module.close)
            module.triple = cpu.triple
            module.data_layout = str(machine.target_data)
            module.verify()
        except RuntimeError as error:
            raise _error("LLVM refuses the generated IR", ir, cpu, options, str(error)) from error
        if options.optimize_ir:
            tuning = llvm.create_pipeline_tuning_options(speed_level=options.opt_level)
            tuning.loop_vectorization = tuning.slp_vectorization = options.opt_level > 1
            builder = llvm.create_pass_builder(machine, tuning)
            run_passes(builder, module)
        yield module


class _Machines(threading.local):
    """The target machines of a thread."""

    def __init__(self) -> None:
        self.known: dict[tuple[CpuTarget, int], Any] = {}


_machines = _Machines()


def _machine(cpu: CpuTarget, opt_level: int) -> Any:
    """LLVM's target machine, which no two threads share."""
    known = _machines.known
    if (cpu, opt_level) not in known:
        _initialize()
        known[cpu, opt_level] = llvm.Target.from_triple(cpu.triple).create_target_machine(
            cpu=cpu.cpu,
            features=cpu.features,
            opt=opt_level,
            reloc="pic",
            codemodel="small",
            jit=True,
        )
    return known[cpu, opt_level]


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@cache
def _linkers() -> Linkers:
    return Linkers(lambda: _machine(target(), 3))


@cache
def _builtins(cpu: CpuTarget) -> bytes:
    ir = resources.files("convir.runtime.host").joinpath("builtins.ll").read_text(encoding="utf-8")
    return object_code(ir, cpu).code


def _in_process(name: str) -> bool:
    """Whether the process defines the symbol `name`.

    LLVM finds only what has been loaded through it or is exported globally; the C library's own
    symbols (`memset`, `expf`) are found through the dynamic linker.
    """
    return llvm.address_of_symbol(name) is not None or hasattr(_process(), name)


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _load(code: ObjectCode, ir: str, cpu: CpuTarget) -> Library:
    try:
        undefined = undefined_symbols(code.code)
    except ObjectFileError as error:
        raise _error("the generated code is damaged", ir, cpu, "load", str(error)) from error
    supplied = undefined & _BUILTINS
    missing = sorted(name for name in undefined - supplied if not _in_process(name))
    if missing:
        log = f"undefined: {', '.join(missing)}"
        raise _error("generated code calls what does not exist: " + log, ir, cpu, "load", log)
    objects = (code.code, _builtins(cpu)) if supplied else (code.code,)
    try:
        return _linkers().link(objects, code.exports)
    except RuntimeError as error:
        raise _error("the generated code cannot be loaded", ir, cpu, "load", str(error)) from error


def _error(
    message: str, ir: str, cpu: CpuTarget, options: CompileOptions | str, log: str
) -> CompileError:
    return CompileError(message, source=ir, options=f"{cpu.name} ({cpu.cpu}) {options}", log=log)
