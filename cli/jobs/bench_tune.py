"""`convir-bench --tune`: the likely configs of every kernel measured on this device, and recorded.

On the host these are the register tiles of planar kernels. A GPU's kernels are all compiled before
it is used. What has a record is left alone, but for `--stale`: then it is measured again if a
config that is likely compiles to other code by now, or was not measured. Code of another version of
the compiler is not compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console

from convir.cli.arguments.parser import WHOLE, UsageError
from convir.cli.files.streams import EXIT_FAILURE, EXIT_OK
from convir.cli.jobs.bench_job import bench_device
from convir.cli.jobs.bench_problems import module_of, pipeline_of, problems_of
from convir.cli.jobs.processes import spread
from convir.lowering.loops.llvm.llvm_binding import VERSIONS
from convir.lowering.selection.candidates import machine_for
from convir.lowering.selection.planar_candidates import PlanarCandidates
from convir.lowering.selection.records.read import find, records_of
from convir.lowering.selection.records.record import Record
from convir.lowering.selection.records.write import save
from convir.lowering.selection.tune import Tunable, TunableKernel, tunable
from convir.passes import run
from convir.reference import FloatFormat, evaluate
from convir.runtime.bench.row import OURS
from convir.runtime.bench.session import Effort, tolerance_of
from convir.runtime.bench.timing import Timing
from convir.runtime.bench.tune import ConfigToMeasure, Expected, measure_configs
from convir.runtime.cache.object_cache import user_records
from convir.runtime.cache.private_files import NotPrivateError, make_folder
from convir.runtime.compile_error import CompileError
from convir.runtime.cuda.toolchain.compile import (
    compile_cubin,
    compiler,
    cubins_digest,
    kernel_usage,
)
from convir.runtime.cuda.toolkit import NoGpuError
from convir.runtime.devices import HOST, find_device
from convir.runtime.executable import Executable
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Mapping, Sequence

    from convir.cli.arguments.parser import Part
    from convir.dialects.conv.problem import ConvProblem
    from convir.frontends.miopen import ConvLine
    from convir.lowering.kernels.cuda.launch import CudaKernel
    from convir.lowering.kernels.target import Target
    from convir.lowering.selection.records.record import Key, Measurement
    from convir.runtime.bench.candidate import Candidate
    from convir.runtime.bench.device import BenchDevice
    from convir.runtime.program import Array, Program

FUNCTION = "main"
NOT_COMPILED = "none"
"""What stands for the digest of code that the compiler refuses."""

Loads: TypeAlias = "Callable[[Program], Executable]"
"""Loads a program onto the device that is tuned."""


@dataclass(frozen=True)
class ToTune:
    """One kernel of one problem that is to be measured."""

    problem: ConvProblem
    module: Tunable
    kernel: TunableKernel
    configs: Mapping[str, tuple[CudaKernel, ...]]
    """What is measured, by predicted time, with what it launches on a GPU."""

    @property
    def key(self) -> Key:
        """What there is one record of."""
        return self.module.machine, self.kernel.candidates.signature

    @cached_property
    def codes(self) -> dict[str, str]:
        """The digest of the compiled code of every config that is measured."""
        candidates = self.kernel.candidates
        if isinstance(candidates, PlanarCandidates):
            return candidates.codes
        arch = candidates.gpu.arch
        return {config: _code(launches, arch) for config, launches in self.configs.items()}

    @property
    def compiler(self) -> str:
        """What compiles the code."""
        return VERSIONS if self.module.gpu is None else compiler()

    def is_of_other_code(self, record: Record) -> bool:
        """Whether a record lacks a config that would be measured, or has it with other code."""
        if record.compiler != self.compiler:
            return not set(self.configs) <= {measured.config for measured in record.measurements}
        known = {(measured.config, measured.code) for measured in record.measurements}
        return not self.codes.items() <= known


def _code(launches: Sequence[CudaKernel], arch: str) -> str:
    try:
        return cubins_digest([launch.source for launch in launches], arch)
    except CompileError:
        return NOT_COMPILED


@dataclass(frozen=True)
class Wanted:
    """Which kernels are tuned, and with how many configs."""

    file: Path
    """Where records go, and are looked for first."""
    most: int
    """Configs of the family that is predicted to be the fastest; see `Candidates.likely`."""
    stale: bool = False
    """Also kernels whose record is old."""
    allow_tf32: bool = False
    part: Part = WHOLE
    jobs: int = 1
    """Processes that compile."""


def tune_suites(
    suites: Sequence[tuple[str, Sequence[ConvLine]]], options: argparse.Namespace
) -> int:
    """Tune the kernels of all lines; returns the exit status.

    Raises:
        UsageError: the device cannot be used.
    """
    try:
        device = find_device(options.device)
    except NoGpuError as error:
        raise UsageError(f"--device {options.device}: {error}") from error
    file = _records_file() if options.records is None else Path(options.records)
    wanted = Wanted(
        file, options.configs, options.stale, options.allow_tf32, options.part, options.jobs
    )
    given = [problem for _, lines in suites for problem in problems_of(lines)]
    bench = bench_device(options)
    problems = [each for one in given for each in (one, *bench.rearranged(one))]
    gpu = None if device.kind == HOST else device.gpu
    kernels = kernels_to_tune(problems, gpu, wanted)

    def load(program: Program) -> Executable:
        return Executable(device.load(program, threads=options.threads))

    effort = Effort(options.seed, options.budget, options.repeats)
    return tune(kernels, bench, load, effort, file)


def _records_file() -> Path:
    """The user's file, in a folder of the user's own.

    Raises:
        UsageError: others may write there, so that nothing would read it.
    """
    file = user_records()
    try:
        make_folder(file.parent)
    except NotPrivateError as error:
        raise UsageError(f"{error}; or --records FILE") from error
    return file


def kernels_to_tune(
    problems: Sequence[ConvProblem], gpu: Target | None, wanted: Wanted
) -> list[ToTune]:
    """The kernels of a part that have no record for `gpu`, or for the host if it is None; where it
    is said, old ones too. What is compiled to tell or to measure them is in the cache then.

    Parts are about as much work each: the problems go to them in turns, by their FLOPs.
    """
    tables = records_of(machine_for(gpu), (wanted.file,))
    pipeline = pipeline_of(OURS, allow_tf32=wanted.allow_tf32)
    found: dict[str, ToTune] = {}
    for problem in problems:
        module = tunable(run(module_of(problem), pipeline).module, gpu)
        for kernel in module.kernels:
            each = ToTune(problem, module, kernel, kernel.candidates.likely(wanted.most))
            found.setdefault(kernel.candidates.signature, each)
    ordered = sorted(found.values(), key=lambda each: each.problem.flops, reverse=True)
    mine = ordered[wanted.part.number - 1 :: wanted.part.count]
    known = [(each, find(tables, each.key)) for each in mine]
    asked = [(each, record) for each, record in known if wanted.stale or record is None]
    if gpu is not None and wanted.jobs > 1:
        compile_ahead([each for each, _ in asked], gpu, wanted.jobs)
    return [each for each, record in asked if record is None or each.is_of_other_code(record)]


def compile_ahead(kernels: Sequence[ToTune], gpu: Target, jobs: int) -> None:
    """Put the code of all configs into the cache of cubins, with so many processes and no GPU.

    What cannot be compiled is left out: it fails again, with a reason, where it is measured.
    """
    plans = [plan for each in kernels for plan in each.configs.values()]
    sources = dict.fromkeys(launch.source for plan in plans for launch in plan)
    list(spread(partial(_compiled, arch=gpu.arch), list(sources), jobs))


def _compiled(source: str, arch: str) -> bool:
    try:
        compile_cubin(source, arch)
    except CompileError:
        return False
    return True


def tune(
    kernels: Sequence[ToTune], bench: BenchDevice, load: Loads, effort: Effort, file: Path
) -> int:
    """Measure, save after every kernel, and print a line for each; returns the exit status.

    It is a failure where a config is wrong or cannot be compiled, and where a kernel is left
    without a time; a config that spills is skipped with a note.
    """
    console = Console()
    failed = False
    for each in kernels:
        spilling: set[str] = set()
        record = _record(each, bench, load, effort, spilling)
        save(file, [record])
        _print(console, record, spilling)
        failed |= record.best is None
        failed |= any(m.us is None and m.config not in spilling for m in record.measurements)
    console.print(f"{len(kernels)} kernels measured: {file}")
    return EXIT_FAILURE if failed else EXIT_OK


def _record(
    each: ToTune, bench: BenchDevice, load: Loads, effort: Effort, spilling: set[str]
) -> Record:
    """The measurements of one kernel; configs that spill are added to `spilling`."""
    problem, candidates = each.problem, each.kernel.candidates
    inputs = bench.inputs(problem, effort.seed)
    relative = tolerance_of(problem, tf32=candidates.tf32)
    expected = Expected(bench.expected(problem, inputs, partial(_formula, problem)), relative)

    def candidate(config: str) -> Candidate:
        if each.module.gpu is not None:
            spilled = _spilled(each.configs[config], each.module.gpu)
            if spilled is not None:
                spilling.add(config)
                raise spilled
        module = each.module.lowered(each.kernel, config)
        return bench.ours(config, load(read_program(module, FUNCTION)), inputs)

    configs = [
        ConfigToMeasure(config, code, partial(candidate, config))
        for config, code in each.codes.items()
    ]
    measured = measure_configs(configs, bench, expected, effort)
    return Record(*each.key, str(problem), measured, each.compiler)


def _spilled(launches: Sequence[CudaKernel], gpu: Target) -> CompileError | None:
    """Why a kernel is not measured: it spills more than its config declares.

    Raises:
        CompileError: it cannot be compiled.
    """
    for kernel in launches:
        usage = kernel_usage(kernel.source, gpu.arch)[kernel.symbol]
        if usage.spill_bytes > kernel.spill_bytes:
            message = f"{kernel.symbol} spills {usage.spill_bytes} bytes of registers"
            return CompileError(message, source=kernel.source, options=gpu.arch, log=str(usage))
    return None


def _formula(problem: ConvProblem, inputs: Sequence[Array]) -> Array:
    module = module_of(problem)
    return evaluate(module, FUNCTION, inputs, float_format=FloatFormat.WIDE)[0]


def _print(console: Console, record: Record, spilling: Collection[str]) -> None:
    first, best = record.measurements[0], record.best
    lines = [f"rule    {_figures(first)}"]
    if best is not None and best is not first:
        lines.append(f"record  {_figures(best)}")
    for measured in record.measurements:
        if measured.us is None and measured is not first:
            what = "skipped" if measured.config in spilling else "failed "
            lines.append(f"{what} {_figures(measured)}")
    console.print("\n".join([record.problem, *lines]), soft_wrap=True, markup=False)


def _figures(measured: Measurement) -> str:
    if measured.us is None:
        return f"{measured.config}: {measured.failure}"
    return f"{Timing(*measured.us)} µs  {measured.config}"
