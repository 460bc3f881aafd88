"""One case: a random program, what is done with it, and what that must keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.utils.exceptions import PassFailedException

from convir.api.compile import compile as convir_compile
from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.passes.manager.registry import CONVIR_PASSES
from convir.passes.pipelines import PIPELINES
from convir.reference.checking.check import Checker
from convir.runtime.compile_error import CompileError
from fuzzing.choose_passes import lowering, random_passes
from fuzzing.properties import (
    apply_all,
    apply_one,
    check_printing,
    check_repeated,
    check_results,
    check_same,
)
from fuzzing.verdicts import Failed, Kind, Tally

if TYPE_CHECKING:
    from random_programs.choices import Choices
    from random_programs.programs import Program
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


LOWERING, COMPILED = "lowering", "compile"
"""What stands among names of passes for all passes of the lowering, and for `convir.compile`."""
PRINTED_ONE_IN = 6
"""Modules for one that is printed and read in the custom form, and one in the generic form."""


@dataclass(frozen=True)
class Work:
    """What is done with a program."""

    passes: tuple[ModulePass, ...]
    """One after the other, each checked."""
    pipeline: str = ""
    """A pipeline that runs as one, before `passes`."""
    compiled: bool = False
    """Whether the program is compiled for the host and called."""

    def __str__(self) -> str:
        names = [self.pipeline] if self.pipeline else []
        names += [str(one) for one in self.passes]
        return ", ".join([*names, *(["compile"] if self.compiled else [])])


def random_work(c: Choices, program: Program, names: tuple[str, ...] = ()) -> Work:
    """What is done with `program`: only the passes `names`, or the one thing that they name."""
    (name,) = names if len(names) == 1 else ("",)
    if name in PIPELINES:
        return Work((), pipeline=name)
    if name == LOWERING:
        return Work(lowering(c), pipeline=c.pick(("default", "")))
    if name == COMPILED:
        return Work((), compiled=True)
    if names:
        return Work(tuple(random_passes(c, program, names)))
    turn = c.below(20)
    if turn < 12:
        return Work(tuple(random_passes(c, program, CONVIR_PASSES)))
    kind = c.pick(tuple(PIPELINES)) if turn < 15 else LOWERING if turn < 19 else COMPILED
    return random_work(c, program, (kind,))


def check_case(ctx: Context, program: Program, work: Work, tally: Tally) -> None:
    """Do `work` with `program`.

    Raises:
        Failed: a property does not hold.
    """
    tally.functions += 1
    try:
        module = read_module(program.text, "random.mlir", ctx)
    except DiagnosticError as error:
        raise Failed(Kind.UNREAD, "read", str(error)) from error
    turn = len(program.text) % PRINTED_ONE_IN
    if turn < 2:
        check_printing(ctx, module, "source", generic=turn == 0)
    with np.errstate(all="ignore"):
        checker = Checker(module, "main", arguments=program.arguments)
    if work.compiled:
        tally.unchecked += not _compiled(program, checker, tally)
        return
    if work.pipeline:
        passes = PIPELINES[work.pipeline]
        tally.runs[work.pipeline] += 1
        before = module.clone()
        if not apply_all(ctx, module, passes):
            tally.refused[work.pipeline] += 1
            return
        tally.unchecked += not check_same(checker, module, work.pipeline)
        tally.changed[work.pipeline] += not is_equivalent(before, module)
        check_repeated(ctx, module, passes, work.pipeline)
    for one in work.passes:
        if not _passed(ctx, module, one, checker, tally):
            return


def _passed(
    ctx: Context, module: ModuleOp, one: ModulePass, checker: Checker, tally: Tally
) -> bool:
    """Apply one pass in place and check it; False if it refused."""
    tally.runs[one.name] += 1
    before = module.clone()
    if not apply_one(ctx, module, one):
        tally.refused[one.name] += 1
        return False
    if is_equivalent(before, module):
        return True
    tally.changed[one.name] += 1
    tally.unchecked += not check_same(checker, module, one.name)
    check_repeated(ctx, module, (one,), one.name)
    turn = tally.changed[one.name] % PRINTED_ONE_IN
    if turn < 2:
        check_printing(ctx, module, one.name, generic=turn == 0)
    return True


def _compiled(program: Program, checker: Checker, tally: Tally) -> bool:
    """Compile for the host, call, and compare; True if results were compared."""
    tally.runs["compile"] += 1
    try:
        executable = convir_compile(program.text, device="host", threads=1)
        called: Any = executable(*program.arguments)
    except (DiagnosticError, PassFailedException, CompileError) as error:
        if "raised" in str(error) or "invalid IR" in str(error):
            raise Failed(Kind.INTERNAL, "compile", f"{type(error).__name__}: {error}") from error
        tally.refused["compile"] += 1
        return False
    except TimeoutError:
        raise
    except Exception as error:
        raise Failed(Kind.INTERNAL, "compile", f"{type(error).__name__}: {error}") from error
    tally.changed["compile"] += 1
    results = cast("tuple[Any, ...]", called if type(called) is tuple else (called,))
    return check_results(checker, [np.asarray(result) for result in results], "compile")
