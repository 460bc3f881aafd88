"""Every scalar op on the values where it can go wrong, against the reference, on every target."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from host_kernels import TARGETS, assert_same, program_text, run_program, runnable

from convir.dialects.context import read_module
from convir.lowering.llvm.target import HOST
from convir.runtime.reference import evaluate
from convir.runtime.reference.dtypes import BFLOAT16

INTEGERS = ("i1", "i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
DTYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
    "f16": np.float16,
    "bf16": BFLOAT16,
    "f32": np.float32,
    "f64": np.float64,
}


ULPS = 32
"""Between two libraries' elementary functions: the reference's erf is an interpolation."""


@dataclass(frozen=True)
class Case:
    """One op in a kernel: `line` computes `%r` from `%a`, `%b` and `%c`."""

    line: str
    operands: tuple[str, ...]
    result: str

    @property
    def id(self) -> str:
        return f"{self.line.split()[0]} {' '.join(self.operands)} {self.result}"

    @property
    def kernel(self) -> str:
        names = "abc"[: len(self.operands)]
        vector = "affine_map<(i) -> (i)>"
        maps = ", ".join([vector] * (len(names) + 1))
        typed = list(zip(names, self.operands, strict=True))
        arguments = ", ".join(f"%{n}v: tensor<?x{t}>" for n, t in typed)
        ins = ", ".join(f"%{n}v" for n in names)
        types = ", ".join(f"tensor<?x{t}>" for t in self.operands)
        scalars = ", ".join(f"%{n}: {t}" for n, t in typed)
        return f"""
kernel.func @k({arguments}) -> tensor<?x{self.result}> {{
  %e = tensor.empty() : tensor<?x{self.result}>
  %y = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins({ins} : {types}) outs(%e : tensor<?x{self.result}>) {{
  ^bb0({scalars}, %o: {self.result}):
    %r = {self.line}
    linalg.yield %r : {self.result}
  }} -> tensor<?x{self.result}>
  kernel.return %y : tensor<?x{self.result}>
}}"""


def binary(names: str, types: tuple[str, ...], dialect: str = "arith") -> list[Case]:
    return [
        Case(f"{dialect}.{name} %a, %b : {t}", (t, t), t) for name in names.split() for t in types
    ]


def unary(names: str, types: tuple[str, ...], dialect: str = "math") -> list[Case]:
    return [Case(f"{dialect}.{name} %a : {t}", (t,), t) for name in names.split() for t in types]


def comparisons(op: str, predicates: str, types: tuple[str, ...]) -> list[Case]:
    return [
        Case(f"arith.{op} {predicate}, %a, %b : {t}", (t, t), "i1")
        for predicate in predicates.split()
        for t in types
    ]


def casts(op: str, pairs: list[tuple[str, str]]) -> list[Case]:
    return [Case(f"arith.{op} %a : {a} to {b}", (a,), b) for a, b in pairs]


def widths(types: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(itertools.combinations(types, 2))


PROPER = INTEGERS[1:]
ARITHMETIC = [
    *binary("addi subi muli andi ori xori maxsi minsi maxui minui", (*INTEGERS, "index")),
    *binary("addf subf mulf divf maximumf minimumf maxnumf minnumf", FLOATS),
    *unary("negf", FLOATS, "arith"),
    *comparisons("cmpi", "eq ne slt sle sgt sge ult ule ugt uge", (*INTEGERS, "index")),
    *comparisons(
        "cmpf", "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true", FLOATS
    ),
    *[Case(f"arith.select %a, %b, %c : {t}", ("i1", t, t), t) for t in (*INTEGERS, *FLOATS)],
]
DIVISIONS = binary("divsi divui remsi remui floordivsi ceildivsi ceildivui", (*PROPER, "index"))
SHIFTS = binary("shli shrsi shrui", (*PROPER, "index"))
CASTS = [
    *casts("extsi", widths(INTEGERS)),
    *casts("extui", widths(INTEGERS)),
    *casts("trunci", [(b, a) for a, b in widths(INTEGERS)]),
    *casts("index_cast", [(t, "index") for t in INTEGERS] + [("index", t) for t in INTEGERS]),
    *casts("extf", [("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64")]),
    *casts("extf", [("f32", "f64")]),
    *casts("truncf", [("f64", "f32"), ("f64", "f16"), ("f64", "bf16")]),
    *casts("truncf", [("f32", "f16"), ("f32", "bf16")]),
    *casts("sitofp", list(itertools.product(INTEGERS, FLOATS))),
    *casts("uitofp", list(itertools.product(INTEGERS, FLOATS))),
    *casts("bitcast", [("i16", "f16"), ("bf16", "i16"), ("i32", "f32"), ("f64", "i64")]),
    *casts("bitcast", [("f16", "bf16")]),
]
TO_INTEGERS = [
    *casts("fptosi", list(itertools.product(FLOATS, PROPER))),
    *casts("fptoui", list(itertools.product(FLOATS, PROPER))),
]
EXACT_MATH = [
    *unary("absf ceil floor trunc roundeven round sqrt rsqrt", FLOATS),
    *unary("absi ctpop ctlz cttz", PROPER),
    *binary("copysign", FLOATS, "math"),
    *[Case(f"math.fma %a, %b, %c : {t}", (t, t, t), t) for t in FLOATS[:3]],
]
INEXACT_MATH = [
    *unary("exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan", FLOATS),
    *unary("sinh cosh tanh asinh acosh atanh cbrt erf", FLOATS),
    *binary("powf atan2", FLOATS, "math"),
]


def values(element: str) -> Any:
    """The values of a type where an op on it changes its behaviour."""
    dtype = np.dtype(DTYPES[element])
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        found = [0, 1, 2, 3, 7, 100, -1, -2, -3, -7, -100, info.min, info.min + 1, info.max]
        return np.array([*found, info.max // 3, info.max - 1], dtype)
    bits = np.dtype(f"i{dtype.itemsize}")
    special = np.array([0.0, 1.0, 1.5, 2.5, 3.0, 0.1, 1e-3, 77.0, np.inf, np.nan], np.float64)
    positive = special.astype(dtype)
    # The smallest subnormals, the border to the normal numbers, and the largest number.
    one, largest = (np.array(x, np.float64).astype(dtype).view(bits) for x in (1.0, np.inf))
    mantissa = {2: 7 if dtype == BFLOAT16 else 10, 4: 23, 8: 52}[dtype.itemsize]
    edges = [1, 2, 3, (1 << mantissa) - 1, 1 << mantissa, int(one) + 1, int(largest) - 1]
    everything = np.concatenate([positive, np.array(edges, bits).view(dtype)])
    return np.concatenate([everything, -everything])


def products(arrays: list[Any]) -> list[Any]:
    """All combinations of the elements, as one array for each operand."""
    grid = np.meshgrid(*[np.arange(len(array)) for array in arrays], indexing="ij")
    return [array[index.reshape(-1)] for array, index in zip(arrays, grid, strict=True)]


def expected_and_found(case: Case, arguments: list[Any], target: str) -> tuple[Any, Any]:
    cpu = runnable(target)
    if cpu is None:
        pytest.skip(f"this machine does not run {target} code")
    size = len(arguments[0])
    kernel = case.kernel.replace("?", str(size))
    text = program_text(kernel, [f"{size}x{t}" for t in case.operands], [f"{size}x{case.result}"])
    (expected,) = evaluate(read_module(text), "main", arguments)
    (found,) = run_program(text, arguments, cpu)
    return expected, found


def check(case: Case, arguments: list[Any], target: str) -> None:
    expected, found = expected_and_found(case, arguments, target)
    assert_same(found, expected, case.id)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", [*ARITHMETIC, *CASTS, *EXACT_MATH], ids=lambda case: case.id)
def test_all_values(case: Case, target: str) -> None:
    check(case, products([values(t) for t in case.operands]), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", DIVISIONS, ids=lambda case: case.id)
def test_divisions(case: Case, target: str) -> None:
    a, b = products([values(t) for t in case.operands])
    overflows = (a == np.iinfo(a.dtype).min) & (b == -1)
    defined = (b != 0) & ~overflows
    check(case, [a[defined], b[defined]], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", SHIFTS, ids=lambda case: case.id)
def test_shifts(case: Case, target: str) -> None:
    element = values(case.operands[0])
    amounts = np.arange(element.itemsize * 8, dtype=element.dtype)
    check(case, products([element, amounts]), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", TO_INTEGERS, ids=lambda case: case.id)
def test_floats_to_integers_in_range(case: Case, target: str) -> None:
    info = np.iinfo(DTYPES[case.result])
    unsigned = "fptoui" in case.line
    low, high = (0, 2 * info.max + 1) if unsigned else (info.min, info.max)
    wide = values(case.operands[0]).astype(np.float64)
    whole = np.trunc(wide)
    inside = np.isfinite(wide) & (whole >= low) & (whole < float(high))
    check(case, [values(case.operands[0])[inside]], target)


@pytest.mark.parametrize("case", INEXACT_MATH, ids=lambda case: case.id)
def test_elementary_functions(case: Case) -> None:
    arguments = products([values(t) for t in case.operands])
    expected, found = expected_and_found(case, arguments, HOST)
    dtype = expected.dtype
    epsilon = 2.0 ** -{"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[case.result]
    wide_found, wide_expected = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wide_expected)
    assert_same(found[~finite], expected[~finite], case.id)
    tiny = float(np.array(1, np.dtype(f"i{dtype.itemsize}")).view(dtype))
    np.testing.assert_allclose(
        wide_found[finite],
        wide_expected[finite],
        rtol=ULPS * epsilon,
        atol=ULPS * tiny,
        err_msg=case.id,
    )
