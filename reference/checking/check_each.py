"""Every pass that changes a module is checked by running it, as `--check-each` asks for.

The module as it was before the first change is executed once on the NumPy reference; what each
later pass makes of it is executed on the same inputs and compared with that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.traits import SymbolTable

from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.diagnostics import DiagnosticError, error_at
from convir.reference.checking.check import Budget, Checker, Report
from convir.reference.ops.programs import tensor_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute
    from xdsl.passes import ModulePass

    from convir.dialects.diagnostics import Diagnostic


@dataclass
class CheckEach:
    """Executes the module after each pass that changed it and compares."""

    report: Callable[[Diagnostic], None]
    """Takes a warning for what was not checked, and a remark for what was."""
    seed: int = 0
    """Of the inputs."""
    budget: Budget = field(default_factory=Budget)
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
        types = _function_types(module)
        for name, before in self._types.items():
            now = types.get(name, before)
            if now == before:
                report = self._checker.check_function(module, name)
            else:
                report = Report(False, False, reason=f"@{name} was {before} and is {now}")
            self._tell(module_pass.name, module, name, report)

    def _tell(self, pass_name: str, module: ModuleOp, name: str, report: Report) -> None:
        function = SymbolTable.lookup_symbol(module, name) or module
        message = f"[{pass_name}] {report}"
        if report.checked and not report.passed:
            raise DiagnosticError(error_at(function, message))
        found = error_at(function, f"{message} (in @{name})")
        severity = "remark" if report.checked else "warning"
        self.report(replace(found, severity=severity))


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
