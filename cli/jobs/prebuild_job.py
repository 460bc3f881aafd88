"""Programs compiled ahead for a GPU by several processes, and how many of them are."""

from __future__ import annotations

import logging
import sys
from functools import partial

from rich.console import Console
from rich.progress import Progress

from convir.api.prebuild import Missing, missing_kernels, prebuild
from convir.cli.arguments.parser import UsageError
from convir.cli.files.streams import EXIT_FAILURE, EXIT_OK
from convir.cli.jobs.processes import spread
from convir.lowering.kernels.target import Target, named, names
from convir.lowering.selection.records.read import read_records, shipped_file
from convir.lowering.selection.records.record import machine_of
from convir.runtime.cores import available_cores
from convir.runtime.cuda.toolkit import NoGpuError
from convir.runtime.devices import find_device


def gpu_of(given: str | None) -> Target:
    """The GPU that a command line names; without a name the one that is here.

    Raises:
        UsageError: there is no such GPU.
    """
    try:
        if given is None:
            return find_device("cuda").gpu
        return named(given) if given in names() else Target.parse(given)
    except NoGpuError as error:
        raise UsageError(f"--target is needed: {error}") from error
    except ValueError as error:
        known = ", ".join(names())
        raise UsageError(f"--target: {error}, nor one of {known}") from error


def recorded(gpu: Target) -> list[str]:
    """The lines of the records that are shipped for a GPU.

    Raises:
        UsageError: there are none.
    """
    file = shipped_file(machine_of(gpu))
    if not file.exists():
        raise UsageError(f"--records: none are shipped for {gpu.name or gpu}")
    return list(dict.fromkeys(record.problem for record in read_records(file)))


def run(sources: list[str], gpu: Target, jobs: int, *, allow_tf32: bool, check: bool) -> int:
    """Compile, or look up, every source; returns the exit status."""
    work = partial(_made, gpu=str(gpu), allow_tf32=allow_tf32, check=check)
    console, errors = Console(), Console(stderr=True)
    failures = 0
    complete = 0
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        bar = progress.add_task("looking up" if check else "compiling", total=len(sources))
        for source, found in zip(
            sources, spread(work, sources, jobs or available_cores()), strict=True
        ):
            progress.advance(bar)
            if isinstance(found, str):
                failures += 1
                sys.stderr.write(f"convir.prebuild: error: {source}: {found}\n")
            else:
                complete += found.missing == 0
    count = len(sources)
    what = "open without NVRTC" if check else "are in the cache"
    console.print(f"{complete} of {count} programs {what}", soft_wrap=True)
    return EXIT_FAILURE if failures else EXIT_OK


def _made(source: str, gpu: str, *, allow_tf32: bool, check: bool) -> Missing | str:
    """What is missing afterwards, or why it cannot be said."""
    logging.disable(logging.WARNING)  # a fallback is told where the program runs
    target = Target.parse(gpu)
    try:
        if check:
            return missing_kernels(source, target, allow_tf32=allow_tf32)
        prebuild(source, target, allow_tf32=allow_tf32)
    except Exception as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return Missing(0, 0)
