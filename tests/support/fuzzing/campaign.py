"""Many cases, spread over processes, each under a watchdog."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from random_programs.choices import seeded
from random_programs.programs import Program, random_program

from convir.dialects.context import new_context
from convir.dialects.diagnostics import DiagnosticError
from fuzzing.case import Work, check_case, random_work
from fuzzing.minimise import minimised
from fuzzing.verdicts import Failed, Finding, Kind, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from xdsl.context import Context

SECONDS_PER_CASE = 20.0
SECONDS_PER_MINIMISATION = 20.0
CHUNK = 25
"""Cases that a process takes at a time."""
MAX_MINIMISED = 4
"""Failures of one cause that a process makes smaller; of the others it keeps the text."""


@dataclass(frozen=True)
class Campaign:
    """Which cases are run."""

    seed: int
    count: int
    jobs: int = 1
    names: tuple[str, ...] = ()
    """The only passes; empty for all, pipelines, the lowering and whole compilations."""
    seconds: float = float("inf")
    """When no further cases are begun."""

    def run(self, progress: Callable[[Tally], None] = lambda tally: None) -> Tally:
        """Run all cases; `progress` sees what was found so far."""
        start, total = time.monotonic(), Tally()
        chunks = range(0, self.count, CHUNK)
        if self.jobs == 1:
            for first in chunks:
                if time.monotonic() - start > self.seconds:
                    break
                total.add(self._chunk(first))
                progress(total)
            return total
        with multiprocessing.get_context("fork").Pool(self.jobs, _single_threaded) as pool:
            for tally in pool.imap_unordered(self._chunk, chunks):
                total.add(tally)
                progress(total)
                if time.monotonic() - start > self.seconds:
                    pool.terminate()
                    break
        return total

    def _chunk(self, first: int) -> Tally:
        tally, ctx = Tally(), new_context()
        gc.disable()  # IR is cycles that are in use, which each collection would walk in vain
        for case in range(first, min(first + CHUNK, self.count)):
            self.run_case(case, tally, ctx)
        gc.enable()
        gc.collect()
        return tally

    def drawn(self, case: int, ctx: Context) -> tuple[Program, Work]:
        """The program and the work of one case."""
        c = seeded(self.seed, case)
        program = random_program(c, ctx)
        return program, random_work(c, program, self.names)

    def run_case(self, case: int, tally: Tally, ctx: Context) -> None:
        """Run one case and add what it finds."""
        try:
            with time_limit(SECONDS_PER_CASE):
                program, work = self.drawn(case, ctx)
        except DiagnosticError as error:
            failed = Failed(Kind.UNREAD, "generator", str(error))
            tally.findings.append(Finding(case, failed.signature, failed.what, "", ""))
            return
        failed = outcome(ctx, program, work, tally)
        if failed is None:
            return
        text, what = program.text, failed.what
        alike = [one for one in tally.findings if one.failed == failed.signature]
        if len(alike) < MAX_MINIMISED:
            try:
                with time_limit(SECONDS_PER_MINIMISATION):
                    text = minimised(ctx, program, work, failed)
            except TimeoutError:
                pass
        tally.findings.append(Finding(case, failed.signature, what, str(work), text))


def outcome(ctx: Context, program: Program, work: Work, tally: Tally) -> Failed | None:
    """What is wrong in a case, within its time."""
    try:
        with time_limit(SECONDS_PER_CASE):
            check_case(ctx, program, work, tally)
    except Failed as failed:
        return failed
    except TimeoutError:
        return Failed(Kind.SLOW, str(work), f"not done after {SECONDS_PER_CASE:.0f} s")
    return None


def _single_threaded() -> None:
    """Many processes share the machine: none starts threads of its own."""
    os.environ["OMP_NUM_THREADS"] = "1"


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Raise TimeoutError in the block after so many seconds."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
