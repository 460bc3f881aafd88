"""`canonicalize` on random scalar arithmetic: the same bits before and after, in every type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.context import new_context, read_module
from convir.passes.canonicalize.pass_ import CanonicalizePass
from convir.passes.cse import CsePass
from convir.reference import EvaluationError, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

INTEGERS = {"i1": 1, "i8": 8, "i32": 32, "index": 64}
FLOATS = ("f16", "bf16", "f32", "f64")
INTEGER_OPS = (
    *("addi", "subi", "muli", "andi", "ori", "xori", "shli", "shrsi", "shrui", "divsi", "divui"),
    *("remsi", "remui", "ceildivsi", "ceildivui", "floordivsi", "maxsi", "maxui", "minsi", "minui"),
)
# Not maximumf and minimumf: the reference leaves the sign of their zeros open.
FLOAT_OPS = ("addf", "subf", "mulf", "divf")
INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = ("oeq", "ogt", "oge", "olt", "ole", "one", "ueq", "ugt", "une", "ord", "uno")
CASTS = (
    *(("extsi", "i8", "i32"), ("extui", "i8", "i32"), ("trunci", "i32", "i8")),
    *(("extsi", "i1", "i8"), ("extui", "i1", "i8"), ("trunci", "i8", "i1")),
    *(("index_cast", "i32", "index"), ("index_cast", "index", "i32")),
    *(("index_cast", "i8", "index"), ("index_cast", "index", "i8")),
    *(("extf", "f16", "f32"), ("extf", "bf16", "f32"), ("extf", "f32", "f64")),
    *(("truncf", "f32", "f16"), ("truncf", "f32", "bf16"), ("truncf", "f64", "f32")),
    *(("sitofp", "i8", "f16"), ("uitofp", "i8", "f32"), ("sitofp", "i32", "f32")),
    *(("bitcast", "i32", "f32"), ("bitcast", "f32", "i32")),
)
DTYPES = {
    "i1": np.bool_,
    "i8": np.int8,
    "i32": np.int32,
    "index": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
FLOAT_LITERALS = ("0.0", "-0.0", "1.0", "-1.0", "0.1", "2049.0", "6.0e4", "1.0e-7")
SPECIAL = (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 0.1, 6e4, 1e-7)


class Body:
    """The lines of a function under construction, and its values by type."""

    def __init__(self, draw: Callable[..., int]) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.values: dict[str, list[str]] = {kind: [f"%{kind}"] for kind in DTYPES}

    def below(self, end: int) -> int:
        return self.draw(st.integers(0, end - 1))

    def pick(self, items: tuple[str, ...]) -> str:
        return items[self.below(len(items))]

    def emit(self, text: str, kind: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = arith.{text}")
        self.values[kind].append(name)
        return name

    def value(self, kind: str) -> str:
        """A constant, the last value, or any value of type `kind`."""
        choice = self.below(3)
        known = self.values[kind]
        if choice == 0:
            return self.emit(f"constant {self.literal(kind)} : {kind}", kind)
        return known[-1] if choice == 1 else known[self.below(len(known))]

    def literal(self, kind: str) -> str:
        if kind in FLOATS:
            return self.pick(FLOAT_LITERALS)
        if kind == "i1":
            return "01"[self.below(2)]
        half = 1 << (INTEGERS[kind] - 1)
        return str((0, 1, 2, -1, 7, -7, half - 1, -half)[self.below(8)])

    def step(self) -> None:
        choice = self.below(6)
        if choice < 2:
            kind = self.pick(tuple(INTEGERS))
            name = self.pick(INTEGER_OPS)
            self.emit(f"{name} {self.value(kind)}, {self.value(kind)} : {kind}", kind)
        elif choice == 2:
            kind = self.pick(FLOATS)
            name = self.pick(FLOAT_OPS)
            self.emit(f"{name} {self.value(kind)}, {self.value(kind)} : {kind}", kind)
        elif choice == 3:
            name, source, result = CASTS[self.below(len(CASTS))]
            self.emit(f"{name} {self.value(source)} : {source} to {result}", result)
        elif choice == 4:
            kind = self.pick(tuple(DTYPES))
            integer = kind in INTEGERS
            predicate = self.pick(INTEGER_PREDICATES if integer else FLOAT_PREDICATES)
            lhs, rhs = self.value(kind), self.value(kind)
            self.emit(f"cmp{'i' if integer else 'f'} {predicate}, {lhs}, {rhs} : {kind}", "i1")
        else:
            kind = self.pick(tuple(DTYPES))
            operands = ", ".join((self.value("i1"), self.value(kind), self.value(kind)))
            self.emit(f"select {operands} : {kind}", kind)


@st.composite
def functions(draw: Callable[..., int]) -> str:
    """A module with one function `main` that returns the last value of every type."""
    body = Body(draw)
    for _ in range(1 + body.below(10)):
        body.step()
    kinds = ", ".join(DTYPES)
    parameters = ", ".join(f"%{kind}: {kind}" for kind in DTYPES)
    results = ", ".join(values[-1] for values in body.values.values())
    lines = "\n".join(body.lines)
    return (
        f"func.func @main({parameters}) -> ({kinds}) {{\n{lines}\n  return {results} : {kinds}\n}}"
    )


def arguments(seed: int) -> list[npt.NDArray[np.generic]]:
    rng = np.random.default_rng(seed)
    given: list[npt.NDArray[np.generic]] = []
    for kind, dtype in DTYPES.items():
        if kind in FLOATS:
            given.append(np.asarray(rng.choice(SPECIAL)).astype(dtype))
        else:
            given.append(np.asarray(rng.choice([0, 1, 2, -1, 5, 100])).astype(dtype))
    return given


def run(text: str, seed: int, *, simplify: bool) -> tuple[bytes, ...]:
    """The bytes of every result, NaN being one number."""
    ctx = new_context()
    module = read_module(text, "random.mlir", ctx)
    if simplify:
        for one in (CanonicalizePass(), CsePass(), CanonicalizePass()):
            one.apply(ctx, module)
            module.verify()
    with np.errstate(all="ignore"):
        results = evaluate(module, "main", arguments(seed))
    return tuple(
        result.tobytes() if kind in INTEGERS else bytes_of_float(result)
        for kind, result in zip(DTYPES, results, strict=True)
    )


def bytes_of_float(result: npt.NDArray[np.generic]) -> bytes:
    return b"NaN" if np.isnan(result.astype(np.float64)) else result.tobytes()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=functions(), seed=st.integers(0, 2**16))
def test_every_bit_stays(text: str, seed: int) -> None:
    try:
        before = run(text, seed, simplify=False)
    except EvaluationError:
        assume(False)
        return
    assert run(text, seed, simplify=True) == before


def test_what_integers_are_to_themselves_is_read_back_as_it_was() -> None:
    text = """
    func.func @main(%x: tensor<2xi8>) -> (tensor<2xi1>, tensor<2xi1>) {
      %0 = arith.cmpi uge, %x, %x : tensor<2xi8>
      %1 = arith.cmpi slt, %x, %x : tensor<2xi8>
      return %0, %1 : tensor<2xi1>, tensor<2xi1>
    }"""
    module = read_module(text)
    CanonicalizePass().apply(new_context(), module)
    assert is_equivalent(module, read_module(str(module)))
    expected = np.array([[True] * 2, [False] * 2])
    found = evaluate(module, "main", (np.array([1, -1], np.int8),))
    np.testing.assert_array_equal(found, expected)
