"""Smaller programs that fail in the same way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.traits import IsTerminator

from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.passes.dce import eliminate_dead_code
from convir.reference import EvaluationError, evaluate
from fuzzing.case import Work, check_case
from fuzzing.verdicts import Failed, Kind, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from random_programs.programs import Program
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue

    from convir.reference.interpreter import Frame


@dataclass
class _Recorded:
    """Observes an evaluation: what every value held."""

    held: dict[SSAValue, Any]

    def observe(self, op: Operation, results: Sequence[Any], frame: Frame) -> None:
        self.held.update(zip(op.results, results, strict=True))

    def bind(self, values: Sequence[SSAValue], sources: Sequence[SSAValue]) -> None:
        pass


def minimised(ctx: Context, program: Program, work: Work, failed: Failed) -> str:
    """The text of the smallest program found that fails as `failed`."""
    if failed.kind in (Kind.SLOW, Kind.UNREAD):
        return program.text
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(ctx, program):
            if _fails(ctx, candidate, work, failed):
                program, smaller = candidate, True
                break
    return program.text


def _fails(ctx: Context, program: Program, work: Work, failed: Failed) -> bool:
    try:
        check_case(ctx, program, work, Tally())
    except Failed as found:
        return found.signature == failed.signature
    return False


def _candidates(ctx: Context, program: Program) -> Iterator[Program]:
    """Programs with one op fewer: only its result is returned, or it is an argument."""
    module = read_module(program.text, "case.mlir", ctx)
    count = len(list(_main(module).body.block.ops))
    for number in range(count):
        for edit in (_returned, _argument):
            clone = module.clone()
            found = edit(clone, number, program.arguments)
            if found is None:
                continue
            _settle(clone)
            text = str(clone)
            if len(text) < len(program.text):
                kept, text = _used_arguments(clone, found)
                yield replace(program, text=text, arguments=tuple(kept))


def _main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp))


def _returned(module: ModuleOp, number: int, arguments: Sequence[Any]) -> list[Any] | None:
    """The function returns what op `number` computes, and nothing else."""
    block = _main(module).body.block
    op, end = list(block.ops)[number], block.last_op
    if not op.results or end is None or list(end.operands) == list(op.results):
        return None
    end.detach()
    end.erase()
    block.add_op(ReturnOp(*op.results))
    return list(arguments)


def _argument(module: ModuleOp, number: int, arguments: Sequence[Any]) -> list[Any] | None:
    """What op `number` computes is an argument."""
    function = _main(module)
    block = function.body.block
    op = list(block.ops)[number]
    if not op.results or op.has_trait(IsTerminator) or not list(op.operands):
        return None
    held: dict[SSAValue, Any] = {}
    try:
        with np.errstate(all="ignore"):
            evaluate(module, "main", arguments, observer=_Recorded(held))
    except (EvaluationError, ValueError):
        return None
    if any(result not in held for result in op.results):
        return None
    found = list(arguments)
    for result in op.results:
        found.append(np.asarray(held[result]))
        result.replace_all_uses_with(block.insert_arg(result.type, len(block.args)))
    op.detach()
    op.erase()
    return found


def _settle(module: ModuleOp) -> None:
    eliminate_dead_code(module)
    function = _main(module)
    end = function.body.block.last_op
    outputs = [] if end is None else [value.type for value in end.operands]
    inputs = [argument.type for argument in function.body.block.args]
    function.properties["function_type"] = FunctionType.from_lists(inputs, outputs)


def _used_arguments(module: ModuleOp, arguments: Sequence[Any]) -> tuple[list[Any], str]:
    """Arguments that nothing reads go."""
    block = _main(module).body.block
    kept: list[Any] = []
    for argument, given in zip(tuple(block.args), arguments, strict=True):
        if argument.first_use is None:
            block.erase_arg(argument)
        else:
            kept.append(given)
    _settle(module)
    return kept, str(module)


__all__ = ["DiagnosticError", "minimised"]
