"""Every bit pattern of a float survives reading and printing, here and through MLIR's own tool."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr
from xdsl.utils.hints import isa

from convir.dialects.context import read_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp

# Bits of exponent and of fraction.
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
RANDOM_PATTERNS = 200


def patterns(name: str) -> list[int]:
    """Zeros, infinities, a quiet NaN, the least and greatest of each range, and random ones."""
    exponent, fraction = FORMATS[name]
    infinity = ((1 << exponent) - 1) << fraction
    one = ((1 << exponent - 1) - 1) << fraction
    positive = [0, 1, (1 << fraction) - 1, 1 << fraction, one, one + 1, infinity - 1, infinity]
    positive.append(infinity | 1 << fraction - 1)
    sign = 1 << exponent + fraction
    drawn = random.Random(name).choices(range(infinity), k=RANDOM_PATTERNS)
    return [*positive, *(sign | bits for bits in positive), *drawn]


def module_of(name: str) -> str:
    width = 1 + sum(FORMATS[name])
    bits = [f"0x{pattern:0{width // 4}X}" for pattern in patterns(name)]
    scalars = [f"%s{n} = arith.constant {text} : {name}" for n, text in enumerate(bits)]
    splats = [f"%d{n} = arith.constant dense<{t}> : tensor<3x{name}>" for n, t in enumerate(bits)]
    # A long list is printed as one string, a short one element by element.
    lists = [
        f"%l{n} = arith.constant dense<[{', '.join(part)}]> : tensor<{len(part)}x{name}>"
        for n, part in enumerate((bits, bits[:18], ["0x0000", bits[9]]))
    ]
    return "func.func @f() {\n" + "\n".join((*scalars, *splats, *lists)) + "\nfunc.return\n}\n"


def stored_bits(module: ModuleOp) -> list[bytes]:
    data: list[bytes] = []
    for op in module.walk():
        if not isinstance(op, ConstantOp):
            continue
        if isa(op.value, DenseIntOrFPElementsAttr):
            data.append(op.value.data.data)
        else:
            assert isinstance(op.value, FloatAttr)
            data.append(op.value.type.pack((op.value.value.data,)))
    return data


@pytest.mark.parametrize("name", FORMATS)
def test_bits_are_read_as_written(name: str):
    size = (1 + sum(FORMATS[name])) // 8
    expected = [pattern.to_bytes(size, "little") for pattern in patterns(name)]
    stored = stored_bits(read_module(module_of(name)))
    assert stored[: len(expected)] == expected
    assert stored[len(expected) : 2 * len(expected)] == expected
    assert stored[2 * len(expected)] == b"".join(expected)


@pytest.mark.parametrize("name", FORMATS)
def test_printing_keeps_every_bit(name: str):
    module = read_module(module_of(name))
    assert stored_bits(read_module(str(module))) == stored_bits(module)


@pytest.mark.parametrize("name", FORMATS)
def test_mlir_reads_the_same_bits(name: str, iree_opt: Callable[..., str]):
    module = read_module(module_of(name))
    assert stored_bits(read_module(iree_opt(str(module)))) == stored_bits(module)
