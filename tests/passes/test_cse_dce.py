"""`cse` and `dce` on hand-written modules: what goes, what stays, and how much work it takes."""

from __future__ import annotations

import pytest

from convir.dialects.context import new_context, parse_module
from convir.passes.canonicalize.pass_ import CanonicalizePass
from convir.passes.cse import CsePass
from convir.passes.dce import DcePass

pytestmark = pytest.mark.fast

UNKNOWN = "builtin.unregistered"


def run_pass(
    text: str, pass_class: type[CsePass] | type[DcePass] | type[CanonicalizePass]
) -> list[str]:
    """The names of the operations left, in order, functions and module left out."""
    ctx = new_context(allow_unregistered=True)
    module = parse_module(text, ctx=ctx)
    pass_class().apply(ctx, module)
    module.verify()
    return [op.name for op in module.walk() if op.name not in ("builtin.module", "func.func")]


def test_commuted_operands_are_the_same() -> None:
    names = run_pass(
        """
        func.func @f(%a: i32, %b: i32) -> (i32, i32) {
          %0 = arith.addi %a, %b : i32
          %1 = arith.addi %b, %a : i32
          return %0, %1 : i32, i32
        }""",
        CsePass,
    )
    assert names == ["arith.addi", "func.return"]


def test_signed_zeros_are_not_the_same() -> None:
    names = run_pass(
        """
        func.func @f() -> (f32, f32) {
          %0 = arith.constant 0.0 : f32
          %1 = arith.constant -0.0 : f32
          return %0, %1 : f32, f32
        }""",
        CsePass,
    )
    assert names == ["arith.constant", "arith.constant", "func.return"]


def test_regions_that_differ_in_an_inner_type_are_not_the_same() -> None:
    def through(inner: str) -> str:
        return f"""
          %{inner} = scf.if %c -> (f16) {{
            %0 = arith.extf %a : f16 to {inner}
            %1 = arith.addf %0, %0 : {inner}
            %2 = arith.truncf %1 : {inner} to f16
            scf.yield %2 : f16
          }} else {{
            scf.yield %a : f16
          }}"""

    names = run_pass(
        f"""
        func.func @f(%c: i1, %a: f16) -> (f16, f16) {{
          {through("f32")}
          {through("f64")}
          return %f32, %f64 : f16, f16
        }}""",
        CsePass,
    )
    assert names.count("scf.if") == 2


def test_an_inner_scope_is_not_seen_outside_it() -> None:
    names = run_pass(
        """
        func.func @f(%c: i1, %a: i32) -> (i32, i32) {
          %0 = scf.if %c -> (i32) {
            %1 = arith.muli %a, %a : i32
            scf.yield %1 : i32
          } else {
            %1 = arith.muli %a, %a : i32
            scf.yield %1 : i32
          }
          %2 = arith.muli %a, %a : i32
          return %0, %2 : i32, i32
        }""",
        CsePass,
    )
    assert names.count("arith.muli") == 3


def wide(body: str, user: str) -> str:
    """A function that computes each of two values a hundred times, and reads all two hundred."""
    twice = "\n".join(
        f"%a{i} = arith.addi %x, %y : i32\n%b{i} = arith.muli %x, %y : i32" for i in range(100)
    )
    every = ", ".join(f"%a{i}, %b{i}" for i in range(100))
    types = ", ".join(["i32"] * 200)
    return body.format(twice=twice, user=user.format(every=every, types=types), types=types)


def test_all_operands_of_a_wide_operation_are_replaced() -> None:
    text = wide(
        """
        func.func @f(%x: i32, %y: i32, %c: i1) -> ({types}) {{
          {twice}
          scf.if %c {{
            {user}
            scf.yield
          }}
          {user}
        }}""",
        '"test.reads"({every}) : ({types}) -> ()',
    )
    text = text.rstrip().removesuffix("}") + wide("{user}", "return {every} : {types}") + "}"
    ctx = new_context(allow_unregistered=True)
    module = parse_module(text, ctx=ctx)
    CsePass().apply(ctx, module)
    module.verify()
    ops = {op.name: op for op in module.walk()}
    users = [op for op in module.walk() if len(op.operands) == 200]
    assert len(users) == 3
    for user in users:
        owners = [operand.owner for operand in user.operands]
        assert owners == [ops["arith.addi"], ops["arith.muli"]] * 100
    assert [op.name for op in module.walk()][2:] == [
        *("arith.addi", "arith.muli", "scf.if", UNKNOWN, "scf.yield"),
        *(UNKNOWN, "func.return"),
    ]


def test_a_wide_operation_may_stand_before_what_it_reads() -> None:
    text = wide(
        """
        "test.graph"() ({{
          {user}
          %x = arith.constant 1 : i32
          %y = arith.constant 2 : i32
          {twice}
        }}) : () -> ()""",
        '"test.reads"({every}) : ({types}) -> ()',
    )
    assert run_pass(text, CsePass) == [
        *(UNKNOWN, UNKNOWN, "arith.constant", "arith.constant"),
        *("arith.addi", "arith.muli"),
    ]


def test_a_write_between_two_reads_keeps_both() -> None:
    def reads(between: str) -> list[str]:
        return run_pass(
            f"""
            func.func @f(%m: memref<4xf32>, %i: index, %x: f32) -> (f32, f32) {{
              %0 = memref.load %m[%i] : memref<4xf32>
              {between}
              %1 = memref.load %m[%i] : memref<4xf32>
              return %0, %1 : f32, f32
            }}""",
            CsePass,
        )

    assert reads("").count("memref.load") == 1
    assert reads("memref.store %x, %m[%i] : memref<4xf32>").count("memref.load") == 2
    assert reads('"test.unknown"() : () -> ()').count("memref.load") == 2


def test_dead_cycles_and_unreachable_blocks_go() -> None:
    names = run_pass(
        """
        func.func @f(%a: i32) -> i32 {
          %0 = arith.addi %a, %a : i32
          %1 = arith.muli %0, %0 : i32
          cf.br ^bb2
        ^bb1:
          %2 = arith.muli %a, %a : i32
          cf.br ^bb2
        ^bb2:
          return %a : i32
        }""",
        DcePass,
    )
    assert names == ["cf.br", "func.return"]


@pytest.mark.parametrize("pass_class", [DcePass, CanonicalizePass])
def test_a_value_that_is_computed_from_itself_alone_goes(
    pass_class: type[DcePass] | type[CanonicalizePass],
) -> None:
    names = run_pass(
        """
        func.func @f(%a: i32, %c: i1) -> i32 {
          cf.br ^bb1
        ^bb1:
          "cf.cond_br"(%c)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
        ^bb2:
          return %a : i32
        ^bb3:
          %0 = arith.muli %a, %1 : i32
          %1 = arith.addi %a, %0 : i32
          cf.br ^bb3
        }""",
        pass_class,
    )
    assert names == ["cf.br", "cf.cond_br", "func.return"]


def test_effects_and_unknown_operations_stay() -> None:
    names = run_pass(
        """
        func.func @f(%m: memref<4xf32>, %i: index, %x: f32) {
          %0 = memref.load %m[%i] : memref<4xf32>
          memref.store %x, %m[%i] : memref<4xf32>
          %1 = "test.unknown"() : () -> i32
          return
        }""",
        DcePass,
    )
    assert names == ["memref.store", "builtin.unregistered", "func.return"]
