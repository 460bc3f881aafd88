"""Steps that are loop nests of their own: reductions, and reads at computed indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from random_programs.function import Value
from random_programs.types import FLOATS

if TYPE_CHECKING:
    from random_programs.function import RandomFunction


def reduce(k: RandomFunction, v: Value) -> None:
    """One or two results over the same loops; sums of small values only."""
    if not v.shape:
        return
    dim = k.choices.integer(0, len(v.shape) - 1)
    shape = (*v.shape[:dim], *v.shape[dim + 1 :])
    loops = [f"d{i}" for i in range(len(v.shape))]
    kept = [loop for i, loop in enumerate(loops) if i != dim]
    if v.element in FLOATS:
        op = k.choices.pick(("addf", "maximumf") if v.small else ("maximumf", "minimumf"))
    else:
        op = k.choices.pick(("addi", "xori", "maxsi", "minui"))
    inits = [k.splat(shape, v.element, 1) for _ in range(k.choices.integer(1, 2))]
    maps = [f"affine_map<({', '.join(loops)}) -> ({', '.join(loops)})>"]
    maps += [f"affine_map<({', '.join(loops)}) -> ({', '.join(kept)})>"] * len(inits)
    kinds = ", ".join('"reduction"' if i == dim else '"parallel"' for i in range(len(loops)))
    types = ", ".join(init.type for init in inits)
    outs = ", ".join(init.name for init in inits)
    accumulators = [f"%o{i}" for i in range(len(inits))]
    arguments = ", ".join(f"{o}: {v.element}" for o in accumulators)
    body = "".join(
        f"    %r{i} = arith.{op} {o}, %a : {v.element}\n" for i, o in enumerate(accumulators)
    )
    yielded = ", ".join(f"%r{i}" for i in range(len(inits)))
    elements = ", ".join([v.element] * len(inits))
    result = k.name()
    suffix = f":{len(inits)}" if len(inits) > 1 else ""
    returned = f"({types})" if len(inits) > 1 else types
    k.lines.append(
        f"{result}{suffix} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
        f"iterator_types = [{kinds}]}} ins({v.name} : {v.type}) outs({outs} : {types}) {{\n"
        f"  ^bb0(%a: {v.element}, {arguments}):\n{body}"
        f"    linalg.yield {yielded} : {elements}\n  }} -> {returned}"
    )
    for i in range(len(inits)):
        name = f"{result}#{i}" if len(inits) > 1 else result
        k.values.append(Value(name, shape, v.element, small=False))


def gather(k: RandomFunction, v: Value) -> None:
    """A generic that reads a tensor at indices it computes: reversed, or every other one."""
    if not v.shape:
        return
    rank, dim = len(v.shape), k.choices.integer(0, len(v.shape) - 1)
    size = v.shape[dim]
    loops = ", ".join(f"d{i}" for i in range(rank))
    identity = f"affine_map<({loops}) -> ({loops})>"
    init = k.empty(v.shape, v.element)
    op = k.choices.pick(("floordivsi", "ceildivsi", "remsi", "reverse"))
    lines = [f"%i{d} = linalg.index {d} : index" for d in range(rank)]
    lines += ["%two = arith.constant 2 : index", f"%last = arith.constant {size - 1} : index"]
    if op == "reverse":
        lines.append(f"%at = arith.subi %last, %i{dim} : index")
    else:
        lines.append(f"%m = arith.{op} %i{dim}, %two : index")
        lines.append("%at = arith.minsi %m, %last : index")
    indices = ", ".join("%at" if d == dim else f"%i{d}" for d in range(rank))
    lines.append(f"%e = tensor.extract {v.name}[{indices}] : {v.type}")
    body = "\n    ".join(lines)
    kinds = ", ".join(['"parallel"'] * rank)
    k.emit(
        v.shape,
        v.element,
        f"linalg.generic {{indexing_maps = [{identity}], iterator_types = [{kinds}]}} "
        f"outs({init.name} : TYPE) {{\n  ^bb0(%o: {v.element}):\n    {body}\n"
        f"    linalg.yield %e : {v.element}\n  }} -> TYPE",
        small=v.small,
    )
