"""Questions of every layer about types, places and errors, at their boundaries."""

from __future__ import annotations

import struct

import pytest
from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IndexType,
    IntAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    NoneAttr,
    Signedness,
    StringAttr,
    UnknownLoc,
    f32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Region
from xdsl.utils.exceptions import PassFailedException

from convir.dialects.address_space import ADDRESS_SPACE_BYTES, MAX_RANK, check_addressable
from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.compat.errors import reason_of
from convir.dialects.compat.symbols import lookup_symbol
from convir.dialects.compat.types import integer_width, signless_width
from convir.dialects.context import read_module
from convir.dialects.conv.constant import parse_range_key, range_key
from convir.dialects.diagnostics import (
    Diagnostic,
    DiagnosticError,
    diagnostic_of,
    error_at,
    file_location,
    shortened,
)
from convir.dialects.dominance import dominator_tree
from convir.dialects.stream_attributes import is_state, states_of

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ([1] * MAX_RANK, None),
        ([1] * (MAX_RANK + 1), "no tensor has 65 dimensions"),
        ([0], None),
        ([2, -1], "no tensor has the sizes"),
        ([ADDRESS_SPACE_BYTES - 1], None),
        ([1 << 24, 1 << 23], "no address space holds"),
        ([(1 << 24) - 1, 1 << 23], None),
        ([0, ADDRESS_SPACE_BYTES], "no address space holds"),
        ([0, ADDRESS_SPACE_BYTES - 1], None),
    ],
)
def test_what_an_address_space_holds(shape: list[int], reason: str | None) -> None:
    if reason is None:
        check_addressable(shape)
        return
    with pytest.raises(ValueError, match=reason):
        check_addressable(shape)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RecursionError("maximum depth"), "nested too deeply"),
        (KeyError("x"), ""),
        (struct.error("x"), ""),
        (ValueError("a\n b"), "a b"),
        (ValueError("Exceeds the limit for integer string conversion"), "integer literal is too"),
    ],
)
def test_what_a_user_is_told_of_an_exception(error: Exception, reason: str) -> None:
    assert reason_of(error).startswith(reason)
    assert bool(reason_of(error)) == bool(reason)


def test_long_texts_lose_their_middle() -> None:
    assert shortened("x" * 600) == "x" * 600
    assert shortened("a" * 300 + "b" + "c" * 300) == "a" * 300 + " … " + "c" * 300


def at(file: str) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(3), IntAttr(4))


@pytest.mark.parametrize(
    ("location", "file"),
    [
        (at("a"), "a"),
        (UnknownLoc(), None),
        (NameLoc(StringAttr("n"), at("a")), "a"),
        (CallSiteLoc(at("a"), at("b")), "a"),
        (FusedLoc((UnknownLoc(), at("a"), at("b")), NoneAttr()), "a"),
        (FusedLoc((NameLoc(StringAttr("n"), at("b")), at("a")), NoneAttr()), "b"),
    ],
)
def test_the_first_place_is_where_an_error_is(location: Attribute, file: str | None) -> None:
    assert file_location(location) == (None if file is None else at(file))


def test_errors_stand_at_the_nearest_place() -> None:
    function = FuncOp("f", ([], []))
    module = ModuleOp([function])
    function.location, module.location = UnknownLoc(), UnknownLoc()
    assert error_at(function, "a\nb") == Diagnostic("<unknown>", 0, 0, "error", "a b")
    module.location = at("a")
    assert str(error_at(function, "b")) == "a:3:4: error: b"


def test_an_exception_is_one_line() -> None:
    error = DiagnosticError(Diagnostic("f", 1, 2, "error", "first"), Diagnostic("f", 2, 2, "e", ""))
    assert diagnostic_of(error).message == "first"
    assert str(diagnostic_of(PassFailedException("a\n b"))) == "<unknown>:0:0: error: a b"
    assert str(diagnostic_of(ZeroDivisionError())) == "<unknown>:0:0: error: ZeroDivisionError"


def test_widths_are_those_of_integers() -> None:
    unsigned = IntegerType(8, Signedness.UNSIGNED)
    assert [integer_width(t) for t in (unsigned, IntegerType(4), IndexType(), f32)] == [
        8,
        4,
        None,
        None,
    ]
    assert [signless_width(t) for t in (unsigned, IntegerType(4), IndexType(), f32)] == [
        *(None, 4, None, None),
    ]


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        (range_key("weights", 0, 7), ("weights", 0, 7)),
        (range_key("a[1:2].w", 12, 345), ("a[1:2].w", 12, 345)),
        ("weights", None),
        ("weights[1]", None),
        ("weights[1:2]x", None),
    ],
)
def test_keys_of_ranges(key: str, parts: tuple[str, int, int] | None) -> None:
    assert parse_range_key(key) == parts


STATES = """
func.func @f(%x: f32, %s: f32, %t: f32) attributes {convir.states = 2 : i64} {
  %n = arith.negf %x : f32
  "test.op"() ({ ^bb0(%inner: f32): "test.termop"() : () -> () }) : () -> ()
  func.return
}
func.func @g(%x: f32) { func.return }
"""


def test_states_are_the_last_arguments() -> None:
    first, second = (op for op in read_module(STATES).ops if isinstance(op, FuncOp))
    assert (states_of(first), states_of(second)) == (2, 0)
    assert [is_state(arg) for arg in first.body.block.args] == [False, True, True]
    assert not is_state(second.body.block.args[0])
    negated, other, _ = first.body.block.ops
    assert not is_state(negated.results[0])
    assert not is_state(other.regions[0].block.args[0])


NESTED = """
module @outer { module @inner { func.func private @f() } func.func private @g() }
func.func private @g()
"""


def test_symbols_of_symbols() -> None:
    module = read_module(NESTED)
    inner = lookup_symbol(module, "outer")
    assert isinstance(inner, ModuleOp)
    (last,) = (op for op in module.ops if isinstance(op, FuncOp))
    assert lookup_symbol(last, "g") is last
    assert lookup_symbol(module, "f") is None
    found = lookup_symbol(inner.body.block.first_op, "f")  # pyright: ignore[reportArgumentType]
    assert isinstance(found, FuncOp)
    alone = FuncOp("alone", ([], []))
    with pytest.raises(ValueError, match="has no SymbolTable ancestor"):
        lookup_symbol(alone, "f")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("^a: END", "^a: cf.br ^b ^b: END"),
        ("^a(%x: f32): END", "^a(%x: f16): END"),
        ("^a(%x: f32): END", "^a: END"),
        ("%0 = arith.constant 1 : i32 END", "END"),
        ("%0 = arith.constant 1 : i32 END", "%0 = arith.constant 2 : i32 END"),
        ("cf.br ^a ^a: cf.br ^b ^b: END", "cf.br ^b ^a: cf.br ^b ^b: END"),
        ('"test.op"() : () -> () END', '"test.op"() ({ END }) : () -> () END'),
    ],
)
def test_what_is_not_the_same(one: str, other: str) -> None:
    def wrapped(text: str) -> ModuleOp:
        ends = text.replace("END", '"test.termop"() : () -> ()')
        return read_module(f'"test.op"() ({{ {ends} }}) : () -> ()')

    assert is_equivalent(wrapped(one), wrapped(one))
    assert not is_equivalent(wrapped(one), wrapped(other))
    assert not is_equivalent(wrapped(other), wrapped(one))
    assert not is_equivalent(wrapped(one), wrapped(one).body)
    assert not is_equivalent(wrapped(one).body, wrapped(one))


BRANCHES = """
func.func @f(%b: i1) {
  cf.cond_br %b, ^b1, ^b2
^b1:
  cf.cond_br %b, ^b3, ^b4
^b2:
  cf.br ^b5
^b3:
  cf.br ^b4
^b4:
  cf.cond_br %b, ^b1, ^b5
^b5:
  func.return
^b6:
  cf.br ^b5
}
"""


def test_dominators() -> None:
    assert dominator_tree(Region()) == {}
    (function,) = read_module(BRANCHES).ops
    blocks = list(function.regions[0].blocks)
    tree = {
        blocks.index(block): sorted(map(blocks.index, below))
        for block, below in dominator_tree(function.regions[0]).items()
    }
    assert tree == {0: [1, 2, 5], 1: [3, 4], 2: [], 3: [], 4: [], 5: []}
