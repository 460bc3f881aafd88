"""Steps of integers that divide, floats that round, and compares that choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from random_programs.types import FLOATS, affine, header, scalar

if TYPE_CHECKING:
    from random_programs.function import RandomFunction, Value

MATH = ("exp", "tanh", "sqrt", "absf", "floor", "erf", "log1p", "sin", "rsqrt")
DIVISIONS = ("divsi", "divui", "floordivsi", "ceildivsi", "ceildivui", "remsi", "remui")
SHIFTS = ("shli", "shrsi", "shrui")
ORDERS = ("olt", "ule", "one", "oeq", "ugt", "uno", "ord", "true", "false")
INTEGER_ORDERS = ("slt", "uge", "eq", "ne", "ult", "sge")


def divide(k: RandomFunction, v: Value) -> None:
    """An integer over one that is at least 1, or shifted by less than its bits."""
    if v.element in (*FLOATS, "i1"):
        return
    other, one = k.choices.pick(k.like(v)), k.splat(v.shape, v.element, 1)
    if k.choices.one_in(4):
        op = k.choices.pick(SHIFTS)
        k.emit(v.shape, v.element, f"arith.{op} {v.name}, {one.name} : TYPE", small=False)
        return
    divisor = k.hidden(v.shape, v.element, f"arith.maxsi {other.name}, {one.name} : TYPE")
    op = k.choices.pick(DIVISIONS)
    k.emit(v.shape, v.element, f"arith.{op} {v.name}, {divisor.name} : TYPE", small=False)


def transcend(k: RandomFunction, v: Value) -> None:
    """A function of `math`."""
    if v.element in FLOATS and v.small:
        op = k.choices.pick(MATH)
        k.emit(v.shape, v.element, f"math.{op} {v.name} : TYPE", small=False)


def compare_tensors(k: RandomFunction, v: Value) -> Value:
    """Which elements of a tensor compare so with those of another."""
    other = k.choices.pick(k.like(v))
    kind, predicates = ("f", ORDERS) if v.element in FLOATS else ("i", INTEGER_ORDERS)
    op = f"arith.cmp{kind} {k.choices.pick(predicates)}, {v.name}, {other.name} : {v.type}"
    return k.emit(v.shape, "i1", op, small=True)


def choose(k: RandomFunction, v: Value) -> None:
    """Elements of one tensor or another, where a third says so."""
    other = k.choices.pick(k.like(v))
    compares = k.choices.one_in(2)
    where = compare_tensors(k, v) if compares else k.of_type(v.shape, "i1")
    op = f"arith.select {where.name}, {v.name}, {other.name} : {where.type}, TYPE"
    k.emit(v.shape, v.element, op, small=v.small and other.small)


def relu(k: RandomFunction, v: Value) -> None:
    """A generic that broadcasts a vector along one dimension, adds it, and clamps at zero."""
    if not v.shape or v.element == "i1":
        return
    dim = k.choices.below(len(v.shape))
    bias = k.of_type((v.shape[dim],), v.element)
    loops = [f"d{i}" for i in range(len(v.shape))]
    order = [loops[i] for i in k.choices.permutation(len(loops))]
    shape = [v.shape[loops.index(loop)] for loop in order]
    init = k.empty(shape, v.element)
    maps = [affine(loops, loops), affine(loops, [loops[dim]]), affine(loops, order)]
    kind, top = ("f", "maximumf") if v.element in FLOATS else ("i", "maxsi")
    e, zero = v.element, k.line(f"arith.constant {scalar(0, v.element)}")
    op = (
        f"{header(maps, ['parallel'] * len(loops))} ins({v.name}, {bias.name} : {v.type}, "
        f"{bias.type}) outs({init.name} : TYPE) {{\n  ^bb0(%a: {e}, %b: {e}, %o: {e}):\n"
        f"    %s = arith.add{kind} %a, %b : {e}\n    %r = arith.{top} %s, {zero} : {e}\n"
        f"    linalg.yield %r : {e}\n  }} -> TYPE"
    )
    k.emit(shape, v.element, op, small=False)
