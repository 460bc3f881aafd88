"""`convir.passes.run`, pipelines as text, and the registry."""

from __future__ import annotations

import runpy
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes

from convir.dialects.context import new_context, read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.passes import UNIVERSE, run
from convir.passes.manager import remarks
from convir.passes.manager.fixpoint import FixpointPass, leaves_unchanged, unrolled
from convir.passes.manager.pass_manager import PassCrashError
from convir.passes.manager.pipeline_text import (
    PipelineError,
    named_pipeline,
    parse_pipeline,
    with_defaults,
)
from convir.passes.manager.registry import ALL_PASSES, CONVIR_PASSES, LOWERING_PASSES
from convir.passes.pipelines import PIPELINES

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[3]

TEXT = """func.func @f(%a: i32) -> i32 {
  %c = arith.constant 3 : i32
  return %a : i32
}
"""


@dataclass(frozen=True)
class _RemarkOnConstants(ModulePass):
    name = "remark-on-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "arith.constant":
                remarks.refused(self.name, inner, "only looking")


@dataclass(frozen=True)
class _Crash(ModulePass):
    name = "crash"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise ZeroDivisionError


@dataclass(frozen=True)
class _Break(ModulePass):
    name = "break"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if inner.name == "func.return":
                inner.detach()
                inner.erase()


def test_a_pass_that_leaves_invalid_ir_is_named() -> None:
    with pytest.raises(DiagnosticError) as caught:
        run(TEXT, (_Break(),))
    assert str(caught.value).startswith("<string>:2:8: error: pass break left invalid IR: ")


def test_run_leaves_the_given_module_as_it_was() -> None:
    module = read_module(TEXT)
    result = run(module, "dce")
    assert "arith.constant" in str(module)
    assert "arith.constant" not in str(result.module)


def test_run_takes_passes_and_texts_in_one_sequence() -> None:
    result = run(TEXT, (_RemarkOnConstants(), "canonicalize,dce", _RemarkOnConstants()))
    (remark,) = result.remarks
    assert remark == remarks.Remark(
        "remark-on-constants", "arith.constant", "<string>:2:8", False, "only looking", function="f"
    )


@dataclass(frozen=True)
class _Reduce(ModulePass):
    """Makes even constants odd, or odd ones even: each of the two leaves work for the other."""

    name = "reduce"
    even: bool

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            value = inner.properties.get("value")
            if not isinstance(value, IntegerAttr):
                continue
            number = value.value.data
            while number and (number % 2 == 0) is self.even:
                number = number // 2 if self.even else number - 1
            if number != value.value.data:
                inner.properties["value"] = IntegerAttr(number, i32)
            remarks.refused(self.name, inner, str(number))


def test_a_fixpoint_takes_turns_until_each_pass_has_nothing_to_do() -> None:
    halve, decrement = _Reduce(True), _Reduce(False)
    both = FixpointPass((halve, decrement))
    result = run(TEXT.replace("constant 3", "constant 20"), (both,))
    assert [remark.reason for remark in result.remarks] == ["5", "4", "1", "0"]
    module = result.module
    assert "arith.constant 0 : i32" in str(module)
    assert list(unrolled((both,), module)) == [halve, decrement]
    nested = FixpointPass((both, halve, both))
    assert list(unrolled((nested, halve), module)) == [halve, decrement, halve]


@pytest.mark.parametrize("told_of_it", [False, True])
def test_a_pass_that_says_so_spares_the_look_at_what_it_left(told_of_it: bool) -> None:
    halve, decrement = _Reduce(True), _Reduce(False)
    module = read_module(TEXT.replace("constant 3", "constant 20"))
    turns = unrolled((FixpointPass((halve, decrement)),), module)
    for _ in range(2):
        next(turns).apply(new_context(), module)
    leaves_unchanged(module if told_of_it else read_module(TEXT))  # which is not so
    assert next(turns, None) is (None if told_of_it else halve)


def test_run_without_passes_returns_what_it_read() -> None:
    assert str(run(TEXT, "").module) == str(read_module(TEXT))


def test_run_raises_what_the_user_can_mend() -> None:
    with pytest.raises(DiagnosticError, match="<string>:1:1: error: "):
        run("nonsense", "")
    with pytest.raises(PipelineError, match="did you mean 'canonicalize'"):
        run(TEXT, "canonicalise")
    with pytest.raises(PassCrashError, match="pass crash raised ZeroDivisionError"):
        run(TEXT, (_Crash(),))


def test_a_wrong_module_is_not_rewritten() -> None:
    module = read_module(TEXT)
    next(op for op in module.walk() if op.name == "func.return").operands = ()
    with pytest.raises(DiagnosticError, match=r"func\.return"):
        run(module, "dce")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("dce", ["dce"]),
        ("dce,cse", ["dce", "cse"]),
        (" dce\n,\tcse ", ["dce", "cse"]),
        ("builtin.module()", []),
        ("builtin.module(dce,func.func(cse,canonicalize),any(dce))",
         ["dce", "cse", "canonicalize", "dce"]),
        ("func.func(dce),cse", ["dce", "cse"]),
        ("dce,fixpoint( cse, func.func(fixpoint(canonicalize)) )",
         ["dce", "fixpoint(cse,fixpoint(canonicalize))"]),
        ("convert-memref-to-ptr{lower-func=true}", ["convert-memref-to-ptr{lower_func=true}"]),
        ("convert-memref-to-ptr { lower_func=true } , dce",
         ["convert-memref-to-ptr{lower_func=true}", "dce"]),
        ('mlir-opt{executable="a}b" generic=false}', ['mlir-opt{executable="a}b" generic=false}']),
    ],
)  # fmt: skip
def test_pipelines_as_text(text: str, names: list[str]) -> None:
    assert [str(module_pass) for module_pass in parse_pipeline(text)] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dec", "unknown pass 'dec'; did you mean 'dce'?"),
        ("nothing-near-it-at-all", "unknown pass 'nothing-near-it-at-all'"),
        ("dce cse", "expected ',' or the end at column 5"),
        ("dce,", "expected the name of a pass at column 5"),
        (",dce", "expected the name of a pass at column 1"),
        ("builtin.module(dce", "expected ',' or ')' at column 19"),
        ("builtin.module(dce))", "expected ',' or the end at column 20"),
        ("fixpoint(dce", "expected ',' or ')' at column 13"),
        ("fixpoint", "unknown pass 'fixpoint'"),
        ("module(dce)", "anchored on 'module'"),
        ("dce{", "expected '}' at column 5"),
        ("dce{a=}", "pass 'dce'"),
        ("dce{a=1}", "pass 'dce' has no option 'a'; it takes none"),
        ("convert-memref-to-ptr{lower=true}", "no option 'lower'; did you mean 'lower-func'?"),
        ("convert-memref-to-ptr{lower-func=3}", "pass 'convert-memref-to-ptr': "),
        ("scf-parallel-loop-tiling", "pass 'scf-parallel-loop-tiling': "),
        ("dce\0", "expected ',' or the end"),
    ],
)
def test_malformed_pipelines(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    st.lists(
        st.sampled_from(
            [
                "dce",
                "cse",
                "builtin.module",
                "func.func",
                "mlir-opt",
                "backward-data",
                "convert-memref-to-ptr",
                "lower-func",
                "true",
                "1.5",
                "x",
                "é",
                "\0",
                *'(){}[],= \\"-.\n',
            ]
        )
    ).map("".join)
)
def test_any_text_is_a_pipeline_or_a_pipeline_error(text: str) -> None:
    with suppress(PipelineError):
        assert all(isinstance(module_pass, ModulePass) for module_pass in parse_pipeline(text))


def test_an_unknown_named_pipeline() -> None:
    with pytest.raises(PipelineError, match="unknown pipeline 'no-such-pipeline'"):
        named_pipeline("no-such-pipeline")


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_a_named_pipeline_stands_for_its_passes(name: str) -> None:
    assert parse_pipeline(f"{name},dce")[:-1] == named_pipeline(name) == PIPELINES[name]
    assert name not in ALL_PASSES


@pytest.mark.parametrize("name", [*CONVIR_PASSES, *LOWERING_PASSES])
def test_a_pass_of_ours_loads_and_has_a_summary(name: str) -> None:
    pass_class = ALL_PASSES[name]()
    assert pass_class.name == name
    assert (pass_class.__doc__ or "").strip()


def test_the_registry_is_sorted() -> None:
    assert list(CONVIR_PASSES) == sorted(set(CONVIR_PASSES))


def test_a_stock_xdsl_opt_is_offered_nothing_that_it_has() -> None:
    assert not UNIVERSE.all_passes.keys() & get_all_passes().keys()
    assert not UNIVERSE.all_dialects.keys() & get_all_dialects().keys()
    ours = {*CONVIR_PASSES, *LOWERING_PASSES}
    assert set(UNIVERSE.all_passes) == ours - get_all_passes().keys()


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "pass_api.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "drop-whole-insert-slice rewrote tensor.insert_slice at <string>:6:12" in out
    assert "drop-whole-insert-slice left tensor.insert_slice at <string>:7:12" in out
    assert out.count("tensor.insert_slice %") == 1


def test_run_checks_each_pass_and_takes_its_time() -> None:
    result = run(TEXT, "canonicalize,dce", check_each=True, timing=True)
    (check,) = result.checks
    assert check.severity == "remark"
    assert check.message.endswith("(in @f)")
    assert "agrees" in check.message
    assert "pass 1 canonicalize" in result.seconds
    assert run(TEXT, "dce").checks == ()
    assert run(TEXT, "dce").seconds == {}


@pytest.mark.parametrize("name", [*CONVIR_PASSES, *LOWERING_PASSES])
def test_what_is_printed_of_a_pass_parses(name: str) -> None:
    pass_class = ALL_PASSES[name]()
    text = with_defaults(pass_class)
    if pass_class.required_fields():
        assert "=<" in text
        return
    (parsed,) = parse_pipeline(text)
    assert parsed == pass_class()


@pytest.mark.parametrize("name", PIPELINES)
def test_what_is_printed_of_a_pipeline_parses(name: str) -> None:
    assert parse_pipeline(",".join(map(str, PIPELINES[name]))) == PIPELINES[name]
