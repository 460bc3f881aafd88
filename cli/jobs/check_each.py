"""`--check-each`: every pass that changes the module is proved by running it.

The module as it was before the first change is executed once on the NumPy reference; what each
later pass makes of it is executed on the same inputs and compared with that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.traits import SymbolTable

from convir.cli.arguments.parser import UsageError
from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.diagnostics import Diagnostic, DiagnosticError, error_at
from convir.reference.checking.check import Budget, Checker, Report
from convir.reference.ops.programs import tensor_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation
    from xdsl.passes import ModulePass


@dataclass
class CheckEach:
    """Executes the module after each pass that changed it and compares."""

    report: Callable[[Diagnostic], None]
    """Takes a warning for what was not checked, and a remark for what was."""
    file: str
    """What those call the input."""
    seed: int
    budget: Budget
    _before: ModuleOp | None = None
    """A copy of the module after the last change."""
    _checker: Checker | None = None
    """Knows what the module computed before the first change."""
    _types: dict[str, FunctionType] = field(default_factory=dict[str, FunctionType])
    """What each function took and gave then."""

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Keep a copy of what the first pass starts from."""
        if self._before is None:
            self._before = module.clone()

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Compare, if `module_pass` changed anything.

        Raises:
            DiagnosticError: the module computes something else than before.
        """
        if self._before is None or is_equivalent(self._before, module):
            return
        if self._checker is None:
            self._types = _function_types(self._before)
            self._checker = Checker(self._before, seed=self.seed, budget=self.budget)
        self._before = module.clone()
        report = self._check(self._checker, module)
        message = f"[{module_pass.name}] {report}"
        if not report.checked:
            self.report(Diagnostic(self.file, 0, 0, "warning", message))
            return
        if not report.passed:
            raise DiagnosticError(error_at(_function_of(module, report), message))
        self.report(Diagnostic(self.file, 0, 0, "remark", message))

    def _check(self, checker: Checker, module: ModuleOp) -> Report:
        """What `checker` finds, unless the functions no longer take what they took."""
        types = _function_types(module)
        for name, before in self._types.items():
            if types.get(name, before) != before:
                reason = f"@{name} was {before} and is {types[name]}"
                return Report(False, False, reason=reason)
        return checker.check(module)


def _function_types(module: ModuleOp) -> dict[str, FunctionType]:
    """What each function with a body takes and gives, the buffers of a program as tensors.

    A tensor of one element and rank 0 is a scalar, as both are one buffer of a program.
    """
    functions = (op for op in module.walk() if isinstance(op, FuncOp))
    return {
        op.sym_name.data: FunctionType.from_lists(
            *([_as_scalar(t) for t in types] for types in tensor_types(op))
        )
        for op in functions
        if op.body.blocks
    }


def _as_scalar(value_type: Attribute) -> Attribute:
    if not isinstance(value_type, TensorType):
        return value_type
    tensor_type = cast("TensorType[Attribute]", value_type)
    return tensor_type if tensor_type.get_shape() else tensor_type.element_type


def _function_of(module: ModuleOp, report: Report) -> Operation:
    """The function that `report` is about, or the module where it is not known."""
    name = report.where.partition(" ")[0].removeprefix("@")
    function = SymbolTable.lookup_symbol(module, name)
    return module if function is None else function


def parse_budget(text: str | None) -> Budget:
    """The budget written `BYTES` or `BYTES,FLOPS`; the default one where nothing is written.

    Raises:
        UsageError: it is not one or two positive numbers.
    """
    if text is None:
        return Budget()
    try:
        numbers = [int(float(part)) for part in text.split(",")]
        budget = Budget(*numbers)
    except (OverflowError, TypeError, ValueError) as exc:
        raise UsageError(f"--check-budget: '{text}' is not BYTES[,FLOPS]") from exc
    if min(numbers) <= 0:
        raise UsageError(f"--check-budget: '{text}' is not positive")
    return budget
