"""Every scalar op that kernels may hold, and the values where each can go wrong."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from convir.reference.dtypes import BFLOAT16

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


def divisible(case: Case) -> list[Any]:
    """All pairs whose quotient exists."""
    a, b = products([values(t) for t in case.operands])
    overflows = (a == np.iinfo(a.dtype).min) & (b == -1)
    defined = (b != 0) & ~overflows
    return [a[defined], b[defined]]


def shifts(case: Case) -> list[Any]:
    """All values by all amounts below the width."""
    element = values(case.operands[0])
    amounts = np.arange(element.itemsize * 8, dtype=element.dtype)
    return products([element, amounts])


def in_range(case: Case) -> list[Any]:
    """The floats whose whole part the result can hold."""
    info = np.iinfo(DTYPES[case.result])
    unsigned = "fptoui" in case.line
    low, high = (0, 2 * info.max + 1) if unsigned else (info.min, info.max)
    wide = values(case.operands[0]).astype(np.float64)
    whole = np.trunc(wide)
    inside = np.isfinite(wide) & (whole >= low) & (whole < float(high))
    return [values(case.operands[0])[inside]]


def arguments_of(case: Case) -> list[Any]:
    """Arguments for which the op of `case` is defined."""
    if case in DIVISIONS:
        return divisible(case)
    if case in SHIFTS:
        return shifts(case)
    if case in TO_INTEGERS:
        return in_range(case)
    return products([values(t) for t in case.operands])
