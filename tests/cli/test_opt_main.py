"""`convir-opt` in process: exit statuses, and what goes to which stream."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from convir.cli.opt import main
from convir.dialects.diagnostics import DiagnosticError, error_at
from convir.passes.manager import remarks
from convir.passes.manager.registry import ALL_PASSES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

pytestmark = pytest.mark.fast

FUNCTION = """func.func @f(%a: i32) -> i32 {
  %c = arith.constant 3 : i32
  return %a : i32
}
"""


@dataclass(frozen=True)
class _Scripted(ModulePass):
    """A pass that does what its subclass says, to every op or to the module."""

    name = "scripted"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise NotImplementedError


class _Crash(_Scripted):
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("no such\nthing")


class _Fail(_Scripted):
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise PassFailedException("too wide")


class _FailAtFunction(_Scripted):
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise DiagnosticError(error_at(op.body.block.ops.first or op, "too wide"))


class _Break(_Scripted):
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "func.return":
                inner.operands = ()


class _Remark(_Scripted):
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "arith.constant":
                remarks.fired("scripted", inner, "it is dead")
            if inner.name == "func.return":
                remarks.refused("scripted", inner, "it is needed")


class _Interrupt(_Scripted):
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
    def put(data: str | bytes) -> None:
        data = data.encode() if isinstance(data, str) else data
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "in.mlir"
    path.write_text(FUNCTION)
    return str(path)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[ModulePass]], None]:
    def register(pass_class: type[ModulePass]) -> None:
        assert isinstance(ALL_PASSES, dict)
        monkeypatch.setitem(ALL_PASSES, "scripted", lambda: pass_class)

    return register


def test_ir_goes_to_stdout_and_reports_to_stderr(
    source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([source, "-p", "dce", "--timing", "--print-ir-before-all"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("builtin.module {\n  func.func @f(%a: i32)")
    assert "IR Dump" not in out
    assert "IR Dump Before dce" in err
    assert "pass 1 dce" in err


@pytest.mark.parametrize("argv", [[], ["-"]])
def test_stdin_is_read_when_no_file_is_named(
    argv: list[str], stdin: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stdin(FUNCTION)
    assert main(argv) == 0
    assert "@f" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (FUNCTION[:60], "<stdin>:2:"),
        ("func.func @f() {\n  return\n", "<stdin>:3:1:"),
        ('\n\n "made.up"() : () -> ()', "<stdin>:3:2:"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "<stdin>:1:1:"),
        (b"func.func\n\n   \xc3\x28", "<stdin>:3:4:"),
        ("(" * 5000, "<stdin>:1:1:"),
    ],
)
def test_a_wrong_input_is_one_located_line_and_its_source(
    text: str | bytes,
    place: str,
    stdin: Callable[[str | bytes], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    stdin(text)
    assert main([]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    message, *shown = err.splitlines()
    assert message.startswith(place)
    assert ": error: " in message
    assert len(shown) in (0, 2)  # nothing is shown of an empty line
    assert all(line.isprintable() and len(line) < 200 for line in shown)
    assert not shown or shown[1].strip() == "^"


@pytest.mark.parametrize(
    "argv",
    [
        ["-p", "canonicalise"],
        ["-p", "dce{x=1}"],
        ["-p", "dce{"],
        ["-p", "dce}"],
        ["-p", 'dce{"'],
        ["-p", "(dce)"],
        ["--pass-pipeline", "func.func(dce))"],
        ["--pipeline", "forward-dada"],
        ["--pipelin", "x"],
        ["-t", "ptx"],
        ["--compile-to", "moon"],
        ["-o"],
        ["-o", "/nonexistent/folder/file"],
        ["-o", "/"],
        ["/nonexistent/file"],
        ["/"],
        ["a\0b"],
        ["one", "two"],
        ["--dump-stages-to", "/dev/null"],
    ],
)
def test_a_wrong_command_line_is_one_line_and_two(
    argv: list[str], stdin: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stdin("")
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("convir-opt: error: ")
    assert err.count("\n") == 1


def test_a_pass_that_crashes_is_one_line(
    source: str, scripted: Callable[[type[ModulePass]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(_Crash)
    assert main([source, "-p", "scripted"]) == 1
    reason = "pass scripted raised KeyError: 'no such\\nthing' (--debug shows the traceback)"
    assert capsys.readouterr().err == f"{source}:0:0: error: defect of convir: {reason}\n"


def test_debug_shows_the_traceback(
    source: str, scripted: Callable[[type[ModulePass]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(_Crash)
    assert main([source, "-p", "scripted", "--debug"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_pass_failure_is_located_where_the_pass_says(
    source: str, scripted: Callable[[type[ModulePass]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(_FailAtFunction)
    assert main([source, "-p", "scripted"]) == 1
    shown = f"{FUNCTION.splitlines()[0]}\n^\n"
    assert capsys.readouterr().err == f"{source}:1:1: error: too wide\n{shown}"


def test_a_pass_that_breaks_the_module_is_named(
    source: str, scripted: Callable[[type[ModulePass]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(_Break)
    assert main([source, "-p", "scripted"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"{source}:3:3: error: pass scripted left invalid IR: 'func.return'")


def test_verification_after_passes_can_be_disabled(
    source: str, scripted: Callable[[type[ModulePass]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(_Break)
    assert main([source, "-p", "scripted", "--no-verify-each"]) == 0
    assert "func.return\n" in capsys.readouterr().out


def test_remarks_say_what_was_done_and_what_not(
    source: str, scripted: Callable[[type[ModulePass]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(_Remark)
    assert main([source, "-p", "scripted", "--remarks"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"{source}:2:8: remark: [scripted] arith.constant rewritten: it is dead",
        f"{source}:3:3: remark: [scripted] func.return not rewritten: it is needed",
    ]
    assert main([source, "-p", "scripted"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("pass_class", "expected"),
    [
        (_Fail, "// expected-error@unknown {{too wide}}"),
        (_FailAtFunction, "// expected-error@-4 {{wide}}"),
        (_Crash, "// expected-error-re@unknown {{defect of convir: {{.*}}KeyError}}"),
        (
            _Remark,
            "// expected-remark@-3 {{constant rewritten}}\n// expected-remark@-3 {{not rewritten}}",
        ),
    ],
)
def test_expected_diagnostics_of_passes(
    pass_class: type[ModulePass],
    expected: str,
    scripted: Callable[[type[ModulePass]], None],
    stdin: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    scripted(pass_class)
    stdin(FUNCTION + expected)
    status = main(["-p", "scripted", "--verify-diagnostics", "--remarks"])
    assert (status, capsys.readouterr().err) == (0, "")


def test_an_unexpected_remark_fails(
    scripted: Callable[[type[ModulePass]], None],
    stdin: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    scripted(_Remark)
    stdin(FUNCTION + "// expected-remark@-3 {{rewritten}}")
    assert main(["-p", "scripted", "--verify-diagnostics", "--remarks"]) == 1
    line, *_ = capsys.readouterr().err.splitlines()
    assert line.startswith("<stdin>:3:3: error: unexpected remark: [scripted] func.return")


def test_an_interrupt_is_quiet(
    source: str, scripted: Callable[[type[ModulePass]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(_Interrupt)
    assert main([source, "-p", "scripted"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_failed_run_leaves_the_output_as_it_was(
    source: str, tmp_path: Path, scripted: Callable[[type[ModulePass]], None]
) -> None:
    scripted(_Fail)
    target = tmp_path / "out.mlir"
    target.write_text("before")
    assert main([source, "-p", "scripted", "-o", str(target)]) == 1
    assert target.read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"in.mlir", "out.mlir"}


def test_the_output_replaces_the_target_of_a_link_and_keeps_its_mode(
    source: str, tmp_path: Path
) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    assert main([source, "-o", str(link)]) == 0
    assert link.is_symlink()
    assert "@f" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o640


def test_the_output_may_be_the_input(source: str) -> None:
    assert main([source, "-p", "dce", "-o", source]) == 0
    with open(source) as file:
        assert "arith.constant" not in file.read()


def test_one_chunk_after_a_wrong_one_is_still_compiled(
    stdin: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stdin(f"nonsense\n// -----\n{FUNCTION}")
    assert main(["--split-input-file"]) == 1
    out, err = capsys.readouterr()
    assert "@f" in out
    assert err.startswith("<stdin>:1:1: error: ")
