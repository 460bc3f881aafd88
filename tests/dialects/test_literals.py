"""Dense literals: wrong ones are one error with its reason, the others are their bytes."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError

pytestmark = pytest.mark.fast

LITERALS: dict[str, tuple[str, str]] = {
    "a float of integers": ("dense<1.5> : tensor<2xi32>", "but parsed floating-point"),
    "true of indices": ("dense<true> : tensor<2xindex>", "expected i1 type for 'true' or 'false'"),
    "true of bytes": ("dense<true> : tensor<2xi8>", "expected i1 type for 'true' or 'false'"),
    "less than 0": ("dense<-1> : tensor<2xui8>", "negative integer literal not valid for unsigned"),
    "an unsigned byte": ("dense<256> : tensor<2xui8>", "out of range"),
    "a signed byte": ("dense<128> : tensor<2xsi8>", "out of range"),
    "a signed byte below": ("dense<-129> : tensor<2xsi8>", "out of range"),
    "a signless byte": ("dense<256> : tensor<2xi8>", "out of range"),
    "a signless byte below": ("dense<-129> : tensor<2xi8>", "out of range"),
    "no pair": ("dense<1.0> : tensor<2xcomplex<f32>>", "expected a complex literal"),
    "a pair": ("dense<(1.0, 2.0)> : tensor<2xf32>", "complex literal given for a type that is not"),
    "no bytes": ('dense<"00000000"> : tensor<1xf32>', "starting with `0x`"),
    "no digits": ('dense<"0x0000000g"> : tensor<1xf32>', "invalid hex digits in dense literal"),
    "too few bytes": ('dense<"0x000000"> : tensor<1xf32>', "3 bytes for 1 elements of 4"),
    "no elements": ("dense<> : tensor<2xf32>", "parsed zero elements"),
    "too few elements": (
        "dense<[1.0]> : tensor<2xf32>",
        "inferred shape of elements literal ([1])",
    ),
    "elements of two ranks": ("dense<[[1.0], 2.0]> : tensor<2x1xf32>", "ranks are not consistent"),
}


@pytest.mark.parametrize("case", LITERALS.values(), ids=LITERALS)
def test_literals_are_refused(case: tuple[str, str]) -> None:
    literal, reason = case
    with pytest.raises(DiagnosticError) as caught:
        read_module(f'"test.op"() {{a = {literal}}} : () -> ()', "in.mlir")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("literal", "elements"),
    [
        ("dense<[0, 255]> : tensor<2xui8>", b"\x00\xff"),
        ("dense<[-128, 127]> : tensor<2xsi8>", b"\x80\x7f"),
        ("dense<[-128, 255]> : tensor<2xi8>", b"\x80\xff"),
        ("dense<[true, false]> : tensor<2xi1>", b"\xff\x00"),
        ("dense<[-1, 2]> : tensor<2xindex>", b"\xff" * 8 + b"\x02" + b"\x00" * 7),
        ('dense<"0x0000803F"> : tensor<2xf32>', b"\x00\x00\x80\x3f"),
        ("dense<[1.0, -0.0]> : tensor<2xf16>", b"\x00\x3c\x00\x80"),
        ("dense<(1.0, -0.0)> : tensor<2xcomplex<f16>>", b"\x00\x3c\x00\x80"),
        ("dense<> : tensor<0xf32>", b""),
    ],
)
def test_literals_are_read(literal: str, elements: bytes) -> None:
    (op,) = read_module(f'"test.op"() {{a = {literal}}} : () -> ()').ops
    attribute = op.attributes["a"]
    assert isinstance(attribute, DenseIntOrFPElementsAttr)
    assert attribute.data.data in (elements, elements * 2)


@pytest.mark.parametrize(
    ("width", "is_one"), [(0, False), (1, True), (2**24 - 1, True), (2**24, False)]
)
def test_widths_of_integers(width: int, is_one: bool) -> None:
    text = f"func.func private @f(i{width})"
    if is_one:
        assert f"i{width}" in str(read_module(text))
        return
    with pytest.raises(DiagnosticError, match="integer width must be from 1 to 16777215 bits"):
        read_module(text)
