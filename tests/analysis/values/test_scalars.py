"""Scalar arithmetic on constants: what is folded, to what, and what is left to run time."""

from __future__ import annotations

import pytest

from convir.analysis.values.integers import BINARY, apply, signed, unsigned
from convir.analysis.values.scalars import fold, scalar_constant
from convir.dialects.context import read_module

pytestmark = pytest.mark.fast

# The op on %a and %b of the type of both; the elements; the type of the result; the result.
CASES: list[tuple[str, tuple[str, ...], str, str, float | None]] = [
    ("arith.extsi", ("-1",), "i8", "i32", -1),
    ("arith.extui", ("-1",), "i8", "i32", 255),
    ("arith.extui", ("true",), "i1", "i32", 1),
    ("arith.extsi", ("true",), "i1", "i32", -1),
    ("arith.trunci", ("300",), "i32", "i8", 44),
    ("arith.trunci", ("200",), "i32", "i8", -56),
    ("arith.uitofp", ("-1",), "i8", "f32", 255),
    ("arith.sitofp", ("-1",), "i8", "f32", -1),
    ("arith.sitofp", ("16777217",), "i32", "f32", 16777216),
    ("arith.index_cast", ("-3",), "index", "i32", -3),
    ("arith.fptosi", ("-1.75",), "f32", "i8", -1),
    ("arith.fptosi", ("127.5",), "f32", "i8", 127),
    ("arith.fptosi", ("128.0",), "f32", "i8", None),
    ("arith.fptosi", ("-128.5",), "f32", "i8", -128),
    ("arith.fptosi", ("-129.0",), "f32", "i8", None),
    ("arith.fptoui", ("255.5",), "f32", "i8", -1),
    ("arith.fptoui", ("256.0",), "f32", "i8", None),
    ("arith.fptoui", ("-1.0",), "f32", "i8", None),
    ("arith.fptosi", ("0x7F800000",), "f32", "i32", None),
    ("arith.extf", ("1.5",), "f16", "f32", 1.5),
    ("arith.truncf", ("1.0001",), "f32", "f16", 1.0),
    ("arith.truncf", ("1.0e10",), "f32", "f16", None),
    ("arith.negf", ("1.5",), "f32", "f32", -1.5),
    ("arith.addf", ("1.5", "2.0"), "f32", "f32", 3.5),
    ("arith.subf", ("1.5", "2.0"), "f32", "f32", -0.5),
    ("arith.mulf", ("1.5", "2.0"), "f32", "f32", 3.0),
    ("arith.divf", ("1.5", "2.0"), "f32", "f32", 0.75),
    ("arith.divf", ("1.5", "0.0"), "f32", "f32", None),
    ("arith.maximumf", ("-0.0", "0.0"), "f32", "f32", 0.0),
    ("arith.minimumf", ("-0.0", "1.0"), "f32", "f32", -0.0),
    ("arith.addi", ("127", "1"), "i8", "i8", -128),
    ("arith.muli", ("16", "17"), "i8", "i8", 16),
    ("arith.divsi", ("-7", "2"), "i8", "i8", -3),
    ("arith.divsi", ("-128", "-1"), "i8", "i8", None),
    ("arith.divsi", ("-128", "1"), "i8", "i8", -128),
    ("arith.divui", ("-128", "-1"), "i8", "i8", 0),
    ("arith.divui", ("-1", "2"), "i8", "i8", 127),
    ("arith.divui", ("1", "0"), "i8", "i8", None),
    ("arith.remsi", ("-7", "2"), "i8", "i8", -1),
    ("arith.remui", ("-1", "16"), "i8", "i8", 15),
    ("arith.ceildivsi", ("-7", "2"), "i8", "i8", -3),
    ("arith.ceildivui", ("7", "2"), "i8", "i8", 4),
    ("arith.floordivsi", ("-7", "2"), "i8", "i8", -4),
    ("arith.shli", ("3", "7"), "i8", "i8", -128),
    ("arith.shli", ("3", "8"), "i8", "i8", None),
    ("arith.shrsi", ("-128", "7"), "i8", "i8", -1),
    ("arith.shrui", ("-128", "7"), "i8", "i8", 1),
    ("arith.shrui", ("-128", "8"), "i8", "i8", None),
    ("arith.shrui", ("-128", "-1"), "i8", "i8", None),
    ("arith.maxsi", ("-1", "1"), "i8", "i8", 1),
    ("arith.maxui", ("-1", "1"), "i8", "i8", -1),
    ("arith.minsi", ("-1", "1"), "i8", "i8", -1),
    ("arith.minui", ("-1", "1"), "i8", "i8", 1),
    ("arith.andi", ("12", "10"), "i8", "i8", 8),
    ("arith.ori", ("12", "10"), "i8", "i8", 14),
    ("arith.xori", ("12", "10"), "i8", "i8", 6),
    *(
        (f"arith.cmpi {p}", ("-1", "1"), "i8", "i1", int(is_so))
        for p, is_so in (
            *(("eq", False), ("ne", True), ("slt", True), ("sle", True), ("sgt", False)),
            *(("sge", False), ("ult", False), ("ule", False), ("ugt", True), ("uge", True)),
        )
    ),
    *(
        (f"arith.cmpi {p}", ("-1", "-1"), "i8", "i1", int(is_so))
        for p, is_so in (
            *(("eq", True), ("ne", False), ("slt", False), ("sle", True), ("sgt", False)),
            *(("sge", True), ("ult", False), ("ule", True), ("ugt", False), ("uge", True)),
        )
    ),
    *(
        (f"arith.cmpf {p}", ("-0.0", "0.0"), "f32", "i1", int(is_so))
        for p, is_so in (
            *(("oeq", True), ("one", False), ("olt", False), ("ole", True), ("ogt", False)),
            *(("oge", True), ("ueq", True), ("une", False), ("ult", False), ("uge", True)),
        )
    ),
    *(
        (f"arith.cmpf {p}", ("1.0", "2.0"), "f32", "i1", int(is_so))
        for p, is_so in (
            *(("oeq", False), ("one", True), ("olt", True), ("ole", True), ("ogt", False)),
            *(("oge", False), ("ueq", False), ("une", True), ("ult", True), ("uge", False)),
            *(("ule", True), ("ugt", False), ("ord", None), ("uno", None)),
        )
        if is_so is not None
    ),
    ("math.exp", ("0.0",), "f32", "f32", 1.0),
    ("math.exp", ("1.0",), "f32", "f32", None),
    ("math.tanh", ("-0.0",), "f32", "f32", -0.0),
    ("math.absf", ("-1.5",), "f32", "f32", 1.5),
]


def folded(name: str, numbers: tuple[str, ...], given: str, result: str) -> float | None:
    constants = [
        f"%{i} = arith.constant {n}" + (f" : {given}" if n != "true" else "")
        for i, n in enumerate(numbers)
    ]
    values = ", ".join(f"%{i}" for i in range(len(numbers)))
    is_cast = len(numbers) == 1 and given != result
    kind = f"{given} to {result}" if is_cast else given
    separator = "," if "cmp" in name else ""
    text = "\n".join((*constants, f"%r = {name}{separator} {values} : {kind}", "func.return"))
    (function,) = read_module(f"func.func @f() {{\n{text}\n}}").ops
    op = list(function.regions[0].block.ops)[-2]
    constant = fold(op)
    assert constant is None or constant.type == op.results[0].type
    return None if constant is None else constant.value.data


@pytest.mark.parametrize(
    ("name", "numbers", "given", "result", "expected"),
    CASES,
    ids=[f"{case[0]}-{case[1]}-{case[2]}" for case in CASES],
)
def test_constants_are_folded(
    name: str, numbers: tuple[str, ...], given: str, result: str, expected: float | None
) -> None:
    found = folded(name, numbers, given, result)
    if result == "i1" and found is not None:
        found = abs(found)
    assert str(found) == str(expected) or found == expected != 0


def test_what_is_no_scalar_constant() -> None:
    text = """func.func @f(%x: f32) {
      %0 = arith.constant dense<1.0> : tensor<2xf32>
      %1 = arith.negf %x : f32
      func.return
    }"""
    (function,) = read_module(text).ops
    block = function.regions[0].block
    assert scalar_constant(block.args[0]) is None
    dense, negated, _ = block.ops
    assert scalar_constant(dense.results[0]) is None
    assert scalar_constant(negated.results[0]) is None
    assert fold(negated) is None


@pytest.mark.parametrize("name", sorted(BINARY))
def test_integers_of_three_bits(name: str) -> None:
    """Any spelling of the operands modulo 8 gives the same result modulo 8."""
    for a in range(8):
        for b in range(8):
            found = {
                None if result is None else unsigned(result, 3)
                for result in (
                    apply(name, a + 8 * i, b + 8 * j, 3) for i in (-1, 0) for j in (-1, 0)
                )
            }
            assert len(found) == 1


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_two_s_complement(bits: int) -> None:
    for number in range(-(1 << bits), 2 << bits):
        assert (unsigned(number, bits) - number) % (1 << bits) == 0
        assert (signed(number, bits) - number) % (1 << bits) == 0
        assert 0 <= unsigned(number, bits) < 1 << bits
        assert -(1 << bits) <= 2 * signed(number, bits) < 1 << bits
