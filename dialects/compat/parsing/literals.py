"""Number literals as MLIR means them: hexadecimal floats are bit patterns, splats one element.

xDSL reads `dense<0xFC00> : tensor<4xf16>` as the number 64512 and keeps a splat once per element
of its type. Elements here become the bytes of `DenseIntOrFPElementsAttr` directly, so every bit
pattern survives, and a splat is stored as a single element whatever its shape.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    Signedness,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import AnyDenseElement, RankedStructure
    from xdsl.utils.lexer import Span

INDEX_BITS = 64
"""The width in which `index` constants are stored, in bits."""

BITS_PER_BYTE = 8


class LiteralError(Exception):
    """A literal that its type cannot hold; the message says why."""

    span: Span | None = None
    """The number at fault, where it is one of many."""


@dataclass(frozen=True)
class Number:
    """One number as the text spells it, before its type is known."""

    text: str
    """Its digits without the sign, or `true` or `false`."""
    negative: bool
    span: Span

    @property
    def is_hexadecimal(self) -> bool:
        """Whether the text is a hexadecimal literal."""
        return self.text.startswith("0x")

    @property
    def is_boolean(self) -> bool:
        """Whether the text is `true` or `false`."""
        return self.text in ("true", "false")

    @property
    def is_float(self) -> bool:
        """Whether the text is a decimal float literal."""
        return "." in self.text

    def to_int(self) -> int:
        """The signed value of an integer or boolean literal."""
        if self.is_boolean:
            return int(self.text == "true")
        magnitude = int(self.text, 16 if self.is_hexadecimal else 10)
        return -magnitude if self.negative else magnitude


Element: TypeAlias = "Number | tuple[Number, Number]"
"""One element of a dense literal: a number, or the parts of a complex one."""


def pack_float(number: Number, element_type: AnyFloat) -> bytes:
    """The little-endian bytes of `number` in a float type.

    Decimals round to nearest even and overflow to infinity; hexadecimals are the bits themselves.

    Raises:
        LiteralError: not a literal of a float.
    """
    size = element_type.compile_time_size
    if number.is_boolean:
        raise LiteralError("expected i1 type for 'true' or 'false' values")
    if number.is_hexadecimal:
        if number.negative:
            raise LiteralError("hexadecimal float literal should not have a leading minus")
        bits = number.to_int()
        if bits.bit_length() > element_type.bitwidth:
            raise LiteralError("hexadecimal float constant out of range for type")
        return bits.to_bytes(size, "little")
    if not number.is_float:
        raise LiteralError(
            "unexpected decimal integer literal for a floating point value: "
            "add a trailing dot to make it a float"
        )
    value = float(number.text)
    return pack_rounded(-value if number.negative else value, element_type)


def pack_rounded(value: float, element_type: AnyFloat) -> bytes:
    """The little-endian bytes of `value` rounded to nearest even, infinity past the range."""
    try:
        return element_type.pack((value,))
    except OverflowError:
        return element_type.pack((math.copysign(math.inf, value),))
    except NotImplementedError:
        raise LiteralError(f"literals of type {element_type} are not supported") from None


def pack_integer(number: Number, element_type: IntegerType | IndexType) -> bytes:
    """The little-endian bytes of `number` in an integer type or `index`.

    Raises:
        LiteralError: a float, or out of the type's range.
    """
    value = integer_value(number, element_type)
    size = element_type.compile_time_size
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def integer_value(number: Number, element_type: IntegerType | IndexType) -> int:
    """The value of `number`, which must be a literal of `element_type` and in its range.

    A signless type takes both its signed and its unsigned range; the value is the signed one.

    Raises:
        LiteralError: a float, or out of the type's range.
    """
    if number.is_float:
        raise LiteralError("expected integer elements, but parsed floating-point")
    signless = isinstance(element_type, IndexType) or (
        element_type.signedness.data == Signedness.SIGNLESS
    )
    bits = INDEX_BITS if isinstance(element_type, IndexType) else element_type.width.data
    if number.is_boolean and (isinstance(element_type, IndexType) or bits != 1):
        raise LiteralError("expected i1 type for 'true' or 'false' values")
    value = number.to_int()
    if isinstance(element_type, IntegerType):
        if element_type.signedness.data == Signedness.UNSIGNED:
            if number.negative:
                raise LiteralError("negative integer literal not valid for unsigned integer type")
            return _in_range(value, 0, 1 << bits)
        if element_type.signedness.data == Signedness.SIGNED:
            return _in_range(value, -(1 << bits) >> 1, 1 << bits >> 1)
    assert signless
    value = _in_range(value, -(1 << bits) >> 1, 1 << bits)
    return value - (1 << bits) if value >= 1 << bits >> 1 else value


def _in_range(value: int, low: int, end: int) -> int:
    if low <= value < end:
        return value
    raise LiteralError("integer constant out of range for type")


def pack_element(element: Element, element_type: AnyDenseElement) -> bytes:
    """The bytes of one element of a dense literal; a pair is a complex number.

    Raises:
        LiteralError: the literal does not fit the type.
    """
    if isinstance(element_type, ComplexType):
        if not isinstance(element, tuple):
            raise LiteralError("expected a complex literal `(real, imaginary)`")
        real, imaginary = element
        part_type = element_type.element_type
        return pack_element(real, part_type) + pack_element(imaginary, part_type)
    if isinstance(element, tuple):
        raise LiteralError("complex literal given for a type that is not complex")
    if isinstance(element_type, AnyFloat):
        return pack_float(element, element_type)
    return pack_integer(element, element_type)


def _pack_located(element: Element, element_type: AnyDenseElement) -> bytes:
    try:
        return pack_element(element, element_type)
    except LiteralError as error:
        error.span = (element[0] if isinstance(element, tuple) else element).span
        raise


def dense_from_numbers(
    elements: Sequence[Element],
    shape: Sequence[int] | None,
    shaped_type: RankedStructure[AnyDenseElement],
) -> DenseIntOrFPElementsAttr:
    """A dense attribute from the elements of a literal, row-major; `shape` None is a splat.

    Raises:
        LiteralError: the shape or an element does not fit the type.
    """
    type_shape = tuple(shaped_type.get_shape())
    if shape is not None and tuple(shape) != type_shape:
        raise LiteralError(
            f"inferred shape of elements literal ({list(shape)}) "
            f"does not match type ({list(type_shape)})"
        )
    element_type = shaped_type.element_type
    data = b"".join(_pack_located(element, element_type) for element in elements)
    return dense_from_bytes(data, shaped_type)


def dense_from_hex(
    text: str, shaped_type: RankedStructure[AnyDenseElement]
) -> DenseIntOrFPElementsAttr:
    """A dense attribute from `"0x…"`: every element's little-endian bytes, or those of one splat.

    Raises:
        LiteralError: not such a string, or not as many bytes as the type has.
    """
    if not text.startswith("0x"):
        raise LiteralError("expected string containing hex digits starting with `0x`")
    try:
        data = bytes.fromhex(text[2:])
    except ValueError:
        raise LiteralError("invalid hex digits in dense literal") from None
    element_size = shaped_type.element_type.compile_time_size
    count = math.prod(shaped_type.get_shape())
    if len(data) not in (element_size, element_size * count):
        raise LiteralError(
            f"elements hex data size is invalid for the type: {len(data)} bytes "
            f"for {count} elements of {element_size}"
        )
    return dense_from_bytes(data, shaped_type)


def dense_from_bytes(
    data: bytes, shaped_type: RankedStructure[AnyDenseElement]
) -> DenseIntOrFPElementsAttr:
    """A dense attribute from the bytes of its elements; equal ones are held once, as a splat.

    Of a byte that is wider than its element only the low bits count. What prints the same is then
    the same attribute.
    """
    element_type = shaped_type.element_type
    if isinstance(element_type, IntegerType) and element_type.width.data < BITS_PER_BYTE:
        data = data.translate(_byte_table(element_type))
    size = element_type.compile_time_size
    first = data[:size]
    if first and first == data[size : 2 * size] and data == first * (len(data) // size):
        data = first
    return DenseIntOrFPElementsAttr(shaped_type, BytesAttr(data))


def _byte_table(element_type: IntegerType) -> bytes:
    # One element a byte, of which MLIR reads only the low bits; xDSL reads the whole byte.
    end = 1 << element_type.width.data
    unsigned = element_type.signedness.data == Signedness.UNSIGNED
    low = 0 if unsigned else -end >> 1
    return bytes(((byte - low) % end + low) & 0xFF for byte in range(256))


def float_from_bytes(data: bytes, element_type: AnyFloat) -> float:
    """The value of one little-endian element.

    Raises:
        LiteralError: the type cannot be unpacked.
    """
    try:
        return element_type.unpack(data, 1)[0]
    except (NotImplementedError, struct.error):
        raise LiteralError(f"literals of type {element_type} are not supported") from None
