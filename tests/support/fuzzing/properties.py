"""What must hold: results and validity stay, a second run does nothing, printing is stable."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.printer import Printer
from xdsl.utils.exceptions import PassFailedException

from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError, verify
from convir.passes.manager.fixpoint import are_the_same, parts_of, unrolled
from convir.passes.manager.remarks import collect
from fuzzing.verdicts import Failed, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from convir.reference.checking.check import Checker


def printed(module: ModuleOp, *, generic: bool = False) -> str:
    """The text of a module, in the custom or the generic form."""
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def check_printing(ctx: Context, module: ModuleOp, where: str, *, generic: bool) -> None:
    """Printing, parsing and printing again gives the same text, and the same IR."""
    text = printed(module, generic=generic)
    try:
        again = read_module(text, "printed.mlir", ctx)
    except DiagnosticError as error:
        raise Failed(Kind.PRINTING, where, f"is not read back: {error}\n{text}") from error
    if (found := printed(again, generic=generic)) != text:
        lines = zip(text.splitlines(), found.splitlines(), strict=False)
        one, other = next(((a, b) for a, b in lines if a != b), ("", ""))
        raise Failed(Kind.PRINTING, where, f"prints differently\n{one}\n{other}")
    if not is_equivalent(module, again):
        raise Failed(Kind.PRINTING, where, f"is other IR when it is read back\n{text}")


def apply_one(ctx: Context, module: ModuleOp, one: ModulePass) -> bool:
    """Apply a pass in place and verify what it changed; False if it refused, readably."""
    before = parts_of(module)
    if not _ran(ctx, module, one):
        return False
    if are_the_same(before, parts_of(module)):
        return True
    try:
        verify(module)
    except DiagnosticError as error:
        raise Failed(Kind.INVALID, one.name, str(error)) from error
    return True


def _ran(ctx: Context, module: ModuleOp, one: ModulePass) -> bool:
    try:
        one.apply(ctx, module)
    except (DiagnosticError, PassFailedException) as error:
        if "invalid" in str(error) or "Error" in str(error):
            raise Failed(Kind.INTERNAL, one.name, f"{type(error).__name__}: {error}") from error
        return False
    except TimeoutError:
        raise
    except Exception as error:
        raise Failed(Kind.INTERNAL, one.name, f"{type(error).__name__}: {error}") from error
    return True


def apply_all(ctx: Context, module: ModuleOp, passes: Sequence[ModulePass]) -> bool:
    """Apply passes in place; False if one refused."""
    return all(apply_one(ctx, module, one) for one in unrolled(passes, module))


def check_repeated(ctx: Context, module: ModuleOp, passes: Sequence[ModulePass], name: str) -> None:
    """What `passes` left, verified, they leave, and none says that it fired."""
    again = module.clone()
    before = parts_of(again)
    with collect() as remarks:
        if not all(_ran(ctx, again, one) for one in unrolled(passes, again)):
            return
    if fired := [remark for remark in remarks if remark.fired]:
        raise Failed(Kind.REPEATED, name, f"fires again: {fired[0]}")
    if not are_the_same(before, parts_of(again)) and not is_equivalent(module, again):
        one, other = printed(module).splitlines(), printed(again).splitlines()
        pairs = zip([*one, ""], [*other, ""], strict=False)
        first = next(((a, b) for a, b in pairs if a != b), ("", ""))
        raise Failed(Kind.REPEATED, name, f"changes what it left\n{first[0]}\n{first[1]}")


def check_same(checker: Checker, module: ModuleOp, name: str) -> bool:
    """`module` computes what the source does; False if that was not checked."""
    with np.errstate(all="ignore"):
        report = checker.check(module)
    if not report.checked:
        return False
    if not report.passed:
        raise Failed(Kind.DIFFERS, name, str(report))
    return True


def check_results(checker: Checker, results: Any, name: str) -> bool:
    """Results computed elsewhere are those of the source."""
    with np.errstate(all="ignore"):
        report = checker.check_results("main", results)
    if report.checked and not report.passed:
        raise Failed(Kind.DIFFERS, name, str(report))
    return report.checked
