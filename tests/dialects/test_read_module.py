"""Reading a module: what is accepted, and where and how an error is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdsl.utils.hints import isa

from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from xdsl.ir import Attribute
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FileLineColLoc, FloatAttr

pytestmark = pytest.mark.fast


def constant(literal: str) -> Attribute:
    module = read_module(f"func.func @f() {{\n  %0 = arith.constant {literal}\n  func.return\n}}")
    op = next(op for op in module.walk() if op.name == "arith.constant")
    return op.properties["value"]


def stored_bytes(value: Attribute) -> bytes:
    assert isa(value, DenseIntOrFPElementsAttr)
    return value.data.data


def error_of(text: str | bytes) -> str:
    with pytest.raises(DiagnosticError) as caught:
        read_module(text, "in.mlir")
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("text", ["", "\n", "  // only a comment", "// a\n\n// b\n"])
def test_input_without_an_op_is_an_empty_module(text: str):
    assert not read_module(text).ops


def test_a_splat_is_stored_as_one_element():
    value = constant("dense<1.5> : tensor<1024x1024x512xf32>")
    assert len(stored_bytes(value)) == 4
    assert str(value) == "dense<1.500000e+00> : tensor<1024x1024x512xf32>"


@pytest.mark.parametrize(
    ("literal", "data"),
    [
        ("dense<0xFC00> : tensor<4xf16>", b"\x00\xfc"),
        ("dense<0xFF80> : tensor<4xbf16>", b"\x80\xff"),
        ("dense<[0x7FC00001, -0.0]> : tensor<2xf32>", b"\x01\x00\xc0\x7f\x00\x00\x00\x80"),
        ("dense<0x8000000000000001> : tensor<f64>", b"\x01\x00\x00\x00\x00\x00\x00\x80"),
        ("dense<65520.0> : tensor<2xf16>", b"\x00\x7c"),
        ("dense<1.0e39> : tensor<2xf32>", b"\x00\x00\x80\x7f"),
        ('dense<"0x0000803F"> : tensor<7xf32>', b"\x00\x00\x80\x3f"),
        ('dense<"0x0F02"> : tensor<2xi4>', b"\xff\x02"),
        ("dense<[true, false]> : tensor<2xi1>", b"\xff\x00"),
        ("dense<255> : tensor<3xi8>", b"\xff"),
        ("dense<> : tensor<0xf32>", b""),
        ("dense<[[], []]> : tensor<2x0xf32>", b""),
        ("dense<(1.0, 0x7F800000)> : tensor<2xcomplex<f32>>", b"\0\0\x80\x3f\0\0\x80\x7f"),
    ],
)
def test_elements_are_bit_exact(literal: str, data: bytes):
    assert stored_bytes(constant(literal)) == data


def test_hexadecimal_scalars_are_bit_patterns():
    value = constant("0x3E00 : f16")
    assert isinstance(value, FloatAttr)
    assert value.value.data == 1.5


@pytest.mark.parametrize(
    ("literal", "message"),
    [
        ("1 : f32", "2:23: error: unexpected decimal integer literal"),
        ("300 : i8", "2:23: error: integer constant out of range"),
        ("-0x1F : f32", "leading minus"),
        ("dense<[1.0, 0x1FC00]> : tensor<2xf16>", "2:35: error: hexadecimal float constant"),
        ("dense<[[1.0], [2.0, 3.0]]> : tensor<2x1xf32>", "ranks are not consistent"),
        ("dense<[1.0]> : tensor<2xf32>", "does not match type ([2])"),
        ('dense<"0x00"> : tensor<2xf32>', "size is invalid"),
        ("dense<1.0> : tensor<99999999999999999999xf32>", "does not fit in 64 bits"),
        ("1 : i99999999", "integer width must be"),
    ],
)
def test_a_literal_that_does_not_fit_is_an_error_at_the_literal(literal: str, message: str):
    text = f"func.func @f() {{\n  %0 = arith.constant {literal}\n  func.return\n}}"
    assert message in error_of(text)


def test_ops_are_located_at_their_names():
    module = read_module(
        "func.func @f() {\n  %0 = arith.constant 1 : i32\n  func.return\n}", "a.mlir"
    )
    locations = {op.name: op.location for op in module.walk()}
    place = locations["arith.constant"]
    assert isinstance(place, FileLineColLoc)
    assert str(place) == 'loc("a.mlir":2:8)'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"module {\n \xc3\x28}", "in.mlir:2:2: error: not UTF-8 text: byte 0xC3"),
        (b"\x4d\x4c\xef\x52", "in.mlir:1:3: error: not UTF-8 text: byte 0xEF"),
        ("func.func @f() {", "in.mlir:1:17: error:"),
        ("arith.nothing", "in.mlir:1:1: error: unknown operation 'arith.nothing'"),
        ("no.thing", "in.mlir:1:1: error: dialect 'no' of operation 'no.thing' is not registered"),
        (
            "func.func @f() {\n  %0 = arith.negf %1 : f32\n  func.return\n}",
            "in.mlir:2:19: error: use of undeclared SSA value %1",
        ),
        (
            "func.func @f() {\n  linalg.generic {indexing_maps = 3, iterator_types = []} {}\n}",
            "in.mlir:2:18: error: expected indexing_maps",
        ),
        ('%0 = "' + "a" * 100_000, "in.mlir:1:6: error: string literal is not closed"),
        ('"builtin.module"()({' * 3000, "nested too deeply"),
    ],
)
def test_each_error_is_one_located_line(text: str | bytes, message: str):
    assert message in error_of(text)
