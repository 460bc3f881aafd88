"""`convir.compile(…, autotune=True)`: configs of a program's kernels measured on its GPU.

Selection takes the config that is predicted to be the fastest, and predictions err by some percent.
Here the few fastest by prediction are timed, each kernel as its program has it: with its epilogue,
and with what other kernels have computed in the L2 cache, where the program leaves it. The times
become tuning records of this machine; a kernel that has a record is not measured again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from convir.lowering.selection.kernel_candidates import Candidates
from convir.lowering.selection.records.read import find, records_of
from convir.lowering.selection.records.record import Measurement, Record
from convir.lowering.selection.records.write import save
from convir.runtime.bench.alone import alone_on
from convir.runtime.bench.timing import measure
from convir.runtime.cache.object_cache import private_records, user_records
from convir.runtime.cache.private_files import NotPrivateError, make_folder
from convir.runtime.compile_error import CompileError
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.device import CudaProgram
from convir.runtime.cuda.planner import plan_program
from convir.runtime.cuda.toolchain.compile import Compilations, compiler, cubins_digest
from convir.runtime.program import BFLOAT16, signature_text
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from convir.lowering.selection.tune import Tunable, TunableKernel
    from convir.runtime.cuda.graph import CudaGraph
    from convir.runtime.cuda.plan import CudaPlan
    from convir.runtime.cuda.toolchain.compile import Cubin
    from convir.runtime.devices import Device
    from convir.runtime.program import Array, Program, TensorSpec

CONFIGS = 8
"""Of a kernel, by predicted time."""

ROUNDS = 7
"""How often each is timed, in turns, before the slow ones are left out."""

FINALISTS = 3
FINAL_ROUNDS = 15

_FLUSH_BYTES = 1 << 29
"""Written ahead of a timed call: several times any GPU's L2 cache, and long enough for the host to
have queued the call before the GPU comes to it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Planned:
    """A kernel, and the plans in which it has a config."""

    candidates: Candidates
    computed: tuple[bool, ...]
    """Which of its operands other kernels compute."""
    programs: Mapping[str, tuple[Program, CudaPlan]]


def autotune(module: Tunable, device: Device, told: Callable[[int, int], None]) -> None:
    """Measure the kernels of a program that have no record, and keep the records.

    Args:
        module: the program.
        device: its GPU. One process measures there at a time.
        told: is told how many kernels are measured, and of how many.

    Raises:
        DiagnosticError: the program uses what the GPU cannot run.
        PassFailedException: a kernel has no code for the GPU.
        NoGpuError: a part of the CUDA toolkit is missing.
    """
    tables = records_of(module.machine, private_records())
    asked = [
        each
        for each in module.kernels
        if find(tables, (module.machine, each.candidates.signature)) is None
    ]
    planned = [each for each in (_planned(module, kernel) for kernel in asked) if each]
    if not planned:
        return
    file = user_records()
    try:
        make_folder(file.parent)
    except NotPrivateError as error:
        _log.warning("kernels are not measured, since nothing would read the records: %s", error)
        return
    with Compilations(device.gpu.arch) as compilations:
        compilations.start(
            source
            for each in planned
            for _, plan in each.programs.values()
            for source in plan.sources
        )
        for number, each in enumerate(planned):
            cubins = {
                config: cubins
                for config, (_, plan) in each.programs.items()
                if (cubins := _compiled(compilations, plan, config)) is not None
            }
            try:
                with alone_on(device.index):
                    measured = _measured(each, cubins, device)
            except MemoryError as error:
                _log.warning("'%s' and others are not measured: %s", next(iter(cubins)), error)
                measured = {}
            if measured:
                save(file, [_record(module, each, measured)])
            told(number + 1, len(planned))
    toolkit.cupy().get_default_memory_pool().free_all_blocks()  # Others want the memory too.


def _planned(module: Tunable, kernel: TunableKernel) -> _Planned | None:
    """The likely configs of a kernel; None where there is no choice."""
    candidates = kernel.candidates
    assert isinstance(candidates, Candidates)  # The others are the host's.
    configs = candidates.fastest(CONFIGS)
    if len(configs) < 2:
        return None
    alone = module.alone(kernel)
    programs = {config: read_program(alone.lowered(config), "main") for config in configs}
    plans = {
        config: (each, plan_program(each, candidates.gpu)) for config, each in programs.items()
    }
    return _Planned(candidates, alone.computed, plans)


def _compiled(
    compilations: Compilations, plan: CudaPlan, config: str
) -> Mapping[str, Cubin] | None:
    try:
        return compilations.finished(plan.sources)
    except CompileError as error:
        _log.warning("'%s' is not measured: %s", config, error)
        return None


def _measured(
    each: _Planned, cubins: Mapping[str, Mapping[str, Cubin]], device: Device
) -> dict[str, tuple[float, float, float]]:
    """Median, 20th and 80th percentile in µs by config; those that are much slower have times of
    fewer rounds."""
    if not cubins:
        return {}
    cupy = toolkit.cupy()
    with cupy.cuda.Device(device.index):
        clock = _Clock(cupy)
        calls: dict[str, Callable[[], None]] = {}
        for config, code in cubins.items():
            program, plan = each.programs[config]
            plan = replace(plan, cubins=code)
            loaded = CudaProgram.of_plan(plan, lambda given=program: given, device.index)
            graph = loaded.capture(1)
            calls[config] = clock.call(graph, loaded.inputs, each.computed)
        times = measure(calls, clock.us, rounds=ROUNDS)
        best = sorted(calls, key=lambda config: times[config].median)[:FINALISTS]
        times |= measure({config: calls[config] for config in best}, clock.us, rounds=FINAL_ROUNDS)
    return {config: (each.median, each.p20, each.p80) for config, each in times.items()}


class _Clock:
    """Times of replays, each behind what leaves the L2 cache as a program leaves it."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._flush = cupy.empty(_FLUSH_BYTES, "u1")
        self._first, self._last = cupy.cuda.Event(), cupy.cuda.Event()
        self._values: dict[tuple[Any, ...], Any] = {}

    def call(
        self, graph: CudaGraph, specs: Sequence[TensorSpec], computed: Sequence[bool]
    ) -> Callable[[], None]:
        """What flushes the cache, writes the operands that other kernels compute (the first one
        last, which the kernel ahead computes), and replays `graph` between the events."""
        values = [self._value(spec) for spec in specs]
        for target, value in zip(graph.inputs, values, strict=True):
            target[...] = value
        written = [
            (target, value)
            for target, value, is_computed in zip(graph.inputs, values, computed, strict=True)
            if is_computed
        ]

        def call() -> None:
            self._flush.fill(0)
            for target, value in reversed(written):
                target[...] = value
            self._first.record()
            graph.replay()
            self._last.record()
            self._last.synchronize()

        return call

    def us(self, call: Callable[[], object], repeats: int) -> float:
        """Of the replay of a `call`."""
        del repeats
        call()
        return 1e3 * float(self._cupy.cuda.get_elapsed_time(self._first, self._last))

    def _value(self, spec: TensorSpec) -> Array:
        """Normally distributed, or zeros where that has no meaning; the same for all configs."""
        key = spec.shape, spec.dtype
        found = self._values.get(key)
        if found is None:
            random = self._cupy.random.default_rng(0).standard_normal
            if spec.dtype == BFLOAT16:
                bits = random(spec.shape, "f4").view("u4") >> 16
                found = bits.astype("u2").view(BFLOAT16)
            elif spec.dtype.kind == "f":
                found = random(spec.shape, "f4").astype(spec.dtype)
            else:
                found = self._cupy.zeros(spec.shape, spec.dtype)
            self._values[key] = found
        return found


def _record(
    module: Tunable, each: _Planned, measured: Mapping[str, tuple[float, float, float]]
) -> Record:
    program, _ = next(iter(each.programs.values()))
    arch = each.candidates.gpu.arch
    return Record(
        module.machine,
        each.candidates.signature,
        signature_text(program.inputs, program.outputs),
        tuple(
            Measurement(config, cubins_digest(each.programs[config][1].sources, arch), us)
            for config, us in measured.items()
        ),
        compiler(),
    )
