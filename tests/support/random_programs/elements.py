"""Steps that compute every element from the elements at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from random_programs.types import FLOATS

if TYPE_CHECKING:
    from random_programs.function import RandomFunction, Value


def pointwise(k: RandomFunction, v: Value) -> None:
    if v.element == "i1":
        op = k.choices.pick(("andi", "ori", "xori", "addi", "maxsi", "minui"))
        k.emit(v.shape, v.element, f"arith.{op} {v.name}, {v.name} : TYPE", small=True)
        return
    other = k.choices.pick(k.like(v))
    floats = ("addf", "subf", "mulf", "maximumf", "minimumf", "divf")
    integers = ("addi", "subi", "muli", "maxsi", "minui", "andi", "xori")
    op = k.choices.pick(floats if v.element in FLOATS else integers)
    small = v.small and other.small and op in ("maximumf", "minimumf", "maxsi")
    k.emit(v.shape, v.element, f"arith.{op} {v.name}, {other.name} : TYPE", small=small)


def convert(k: RandomFunction, v: Value) -> None:
    if v.element in FLOATS:
        place = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2}
        wider = [e for e in FLOATS if place[e] > place[v.element]]
        narrower = [e for e in FLOATS if place[e] < place[v.element]]
        result = k.choices.pick([*wider, *narrower])
        op = "extf" if result in wider else "truncf"
    elif v.element == "index":
        result, op = k.choices.pick(("i8", "i32", "i64")), "index_cast"
    else:
        result = k.choices.pick(FLOATS)
        op = k.choices.pick(("sitofp", "uitofp"))
    small = v.small and op != "uitofp"
    k.emit(v.shape, result, f"arith.{op} {v.name} : {v.type} to TYPE", small=small)


def compare(k: RandomFunction, v: Value) -> None:
    """An elementwise generic: what is at least 1 becomes 1, or the other way round."""
    op, predicate = (
        ("cmpf", "olt") if v.element in FLOATS else ("cmpi", k.choices.pick(("slt", "uge")))
    )
    one = k.splat(v.shape, v.element, 1)
    init = k.empty(v.shape, v.element)
    loops = ", ".join(f"d{i}" for i in range(len(v.shape)))
    identity = f"affine_map<({loops}) -> ({loops})>"
    kinds = ", ".join(['"parallel"'] * len(v.shape))
    arguments = ", ".join(f"%{name}: {v.element}" for name in "abo")
    k.emit(
        v.shape,
        v.element,
        f"linalg.generic {{indexing_maps = [{identity}, {identity}, {identity}], "
        f"iterator_types = [{kinds}]}} ins({v.name}, {one.name} : {v.type}, {v.type}) "
        f"outs({init.name} : TYPE) {{\n  ^bb0({arguments}):\n"
        f"    %p = arith.{op} {predicate}, %a, %b : {v.element}\n"
        f"    %r = arith.select %p, %a, %b : {v.element}\n"
        f"    linalg.yield %r : {v.element}\n  }} -> TYPE",
        small=v.small,
    )
