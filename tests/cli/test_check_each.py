"""`--check-each`: what is compared, what is not, and what a wrong pass gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from convir.cli.arguments.parser import UsageError
from convir.cli.jobs.check_each import parse_budget
from convir.cli.opt import main
from convir.passes.manager.registry import ALL_PASSES
from convir.reference.checking import check_each
from convir.reference.checking.check import Budget, Checker

if TYPE_CHECKING:
    from pathlib import Path

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

pytestmark = pytest.mark.fast

FUNCTION = """func.func @difference(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %dead = arith.addf %b, %b : tensor<4x4xf32>
  %c = arith.subf %a, %b : tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}
"""


@dataclass(frozen=True)
class _SwapOperands(ModulePass):
    """A wrong rewrite: a - b becomes b - a."""

    name = "swap-operands"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "arith.subf":
                inner.operands = tuple(reversed(inner.operands))


@dataclass(frozen=True)
class _DropResult(ModulePass):
    """A pass that changes what the function gives."""

    name = "drop-result"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "func.return":
                inner.operands = ()
            if isinstance(inner, FuncOp):
                inputs = inner.function_type.inputs
                inner.properties["function_type"] = FunctionType.from_lists(list(inputs), [])


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    assert isinstance(ALL_PASSES, dict)
    monkeypatch.setitem(ALL_PASSES, "swap-operands", lambda: _SwapOperands)
    monkeypatch.setitem(ALL_PASSES, "drop-result", lambda: _DropResult)
    path = tmp_path / "in.mlir"
    path.write_text(FUNCTION)
    return str(path)


def test_a_wrong_pass_is_an_error_at_the_function(
    source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([source, "-p", "dce,swap-operands", "--check-each"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{source}:1:1: error: [swap-operands] differs at @difference")
    assert err.endswith("\n^\n")
    assert err.count("\n") == 3


def test_a_right_pass_is_silent_and_says_with_remarks_how_it_was_compared(
    source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([source, "-p", "dce", "--check-each"]) == 0
    assert capsys.readouterr().err == ""
    assert main([source, "-p", "dce", "--check-each", "--remarks"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{source}:1:1: remark: [dce] agrees: ")
    assert line.endswith(" (in @difference)")


def test_past_the_budget_is_a_warning(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([source, "-p", "dce", "--check-each", "--check-budget=8"]) == 0
    assert ": warning: [dce] not checked: " in capsys.readouterr().err


def test_other_types_are_a_warning(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([source, "-p", "drop-result,dce", "--check-each"]) == 0
    first, second = (line for line in capsys.readouterr().err.splitlines() if "[" in line)
    assert ": warning: [drop-result] not checked: @difference was (" in first
    assert ": warning: [dce] not checked: @difference was (" in second


def test_the_module_is_run_before_once_and_after_each_change(
    source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Checker] = []

    def make(before: ModuleOp, *, seed: int, budget: Budget) -> Checker:
        made.append(Checker(before, seed=seed, budget=budget))
        return made[-1]

    monkeypatch.setattr(check_each, "Checker", make)
    assert main([source, "-p", "cse,dce,cse,dce", "--check-each", "--remarks"]) == 0
    assert len(made) == 1
    assert capsys.readouterr().err.count("agrees") == 1


def test_nothing_runs_where_nothing_changes(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_each, "Checker", None)
    assert main([source, "-p", "convert-conv-to-linalg", "--check-each"]) == 0


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        (None, Budget()),
        ("1e6", Budget(bytes=1_000_000)),
        ("4096,2e9", Budget(bytes=4096, flops=2_000_000_000)),
    ],
)
def test_budgets(text: str | None, budget: Budget) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "many", "1,2,3", "0", "-1", "nan", "1e999"])
def test_malformed_budgets(text: str) -> None:
    with pytest.raises(UsageError, match="--check-budget"):
        parse_budget(text)
