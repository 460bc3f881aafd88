"""Steps with a loop over samples: slices of a batch, computed one by one and stored again."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from random_programs.contractions import contraction, scattered_contraction
from random_programs.elements import pointwise
from random_programs.moves import pad, transpose
from random_programs.nests import reduce

if TYPE_CHECKING:
    from random_programs.function import RandomFunction, Value

BODIES = (contraction, scattered_contraction, pointwise, reduce, transpose, pad)


def sample_loop(k: RandomFunction, v: Value) -> None:
    """`scf.for` over one dimension of `v`, or the same unrolled."""
    c = k.choices
    if not v.shape or 0 in v.shape or len(v.shape) > 3:
        return
    outside, lines = list(k.values), k.lines
    k.lines = []
    dim = c.below(len(v.shape))
    k.values = [_sample(k, v, dim)]
    for _ in range(c.integer(1, 3)):
        c.pick(BODIES)(k, k.values[-1])
    computed, body = k.values[-1], k.lines
    k.lines, k.values = lines, [*outside, *(new for new in k.inputs if new not in outside)]
    place, count = c.below(len(computed.shape) + 1), v.shape[dim]
    shape = (*computed.shape[:place], count, *computed.shape[place:])
    is_argument = c.one_in(3)
    init = k.of_type(shape, computed.element) if is_argument else k.uniform(shape, computed.element)
    if c.one_in(3):
        _unroll(k, body, computed, init, place)
        return
    zero, end, one = (k.line(f"arith.constant {number} : index") for number in (0, count, 1))
    stored = k.name()
    body.append(f"{stored} = {_stored(computed.name, '%acc', init, place, '%n')}")
    body.append(f"scf.yield {stored} : {init.type}")
    text = "\n    ".join(body)
    op = f"scf.for %n = {zero} to {end} step {one} iter_args(%acc = {init.name}) -> (TYPE)"
    k.emit(shape, init.element, f"{op} {{\n    {text}\n  }}", small=False)


def _sample(k: RandomFunction, v: Value, dim: int) -> Value:
    """Sample `%n` of `v`, without its dimension."""
    sizes = [1 if d == dim else size for d, size in enumerate(v.shape)]
    offsets = ", ".join("%n" if d == dim else "0" for d in range(len(sizes)))
    small = [size for d, size in enumerate(v.shape) if d != dim]
    op = f"tensor.extract_slice {v.name}[{offsets}] {sizes} {[1] * len(sizes)} : {v.type} to TYPE"
    return k.hidden(small, v.element, op, small=v.small)


def _stored(sample: str, acc: str, init: Value, place: int, index: str) -> str:
    sizes = [1 if d == place else size for d, size in enumerate(init.shape)]
    offsets = ", ".join(index if d == place else "0" for d in range(len(sizes)))
    small = replace(init, shape=tuple(n for d, n in enumerate(init.shape) if d != place))
    slots = f"[{offsets}] {sizes} {[1] * len(sizes)}"
    return f"tensor.insert_slice {sample} into {acc}{slots} : {small.type} into {init.type}"


def _unroll(k: RandomFunction, body: list[str], computed: Value, init: Value, place: int) -> None:
    own = {match for line in body for match in re.findall(r"^(%v\d+)", line)}
    pattern = re.compile(r"%v\d+")
    acc = init.name
    for number in range(init.shape[place]):

        def renamed(match: re.Match[str], number: int = number) -> str:
            return f"{match[0]}u{number}" if match[0] in own else match[0]

        index = k.line(f"arith.constant {number} : index")
        k.lines += [re.sub(r"%n\b", index, pattern.sub(renamed, line)) for line in body]
        sample = pattern.sub(renamed, computed.name)
        acc = k.line(_stored(sample, acc, init, place, index))
    k.values.append(replace(init, name=acc, small=False))
