"""Steps that scatter into zeros, in each of the ways in which programs spell that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from random_programs.types import affine, header, scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from random_programs.function import RandomFunction, Value


def scatter(k: RandomFunction, v: Value) -> None:
    """`v` at a stride, zeros between and around its elements."""
    c = k.choices
    if not v.shape or 0 in v.shape:
        return
    offsets = [c.pick((0, 0, 1, 2)) for _ in v.shape]
    strides = [c.pick((1, 1, 2, 2, 3)) for _ in v.shape]
    tails = [c.pick((0, 0, 1, 2)) for _ in v.shape]
    shape = [
        low + (size - 1) * stride + 1 + tail
        for low, size, stride, tail in zip(offsets, v.shape, strides, tails, strict=True)
    ]
    if np.prod(shape) > 4 * k.max_elements:
        return
    c.pick(SPELLINGS)(k, v, shape, offsets, strides)


def _inserted(
    k: RandomFunction,
    v: Value,
    shape: Sequence[int],
    offsets: Sequence[int],
    strides: Sequence[int],
) -> None:
    """`tensor.insert_slice`."""
    zeros = k.uniform(shape, v.element)
    slots = f"{list(offsets)} {list(v.shape)} {list(strides)}"
    op = f"tensor.insert_slice {v.name} into {zeros.name}{slots} : {v.type} into TYPE"
    k.emit(shape, v.element, op, small=v.small)


def _stretched(
    k: RandomFunction,
    v: Value,
    shape: Sequence[int],
    offsets: Sequence[int],
    strides: Sequence[int],
) -> None:
    """One dimension more of size 1, padded to the stride, and collapsed again."""
    rank = len(v.shape)
    split = [size for pair in zip(v.shape, [1] * rank, strict=True) for size in pair]
    groups = [[2 * dim, 2 * dim + 1] for dim in range(rank)]
    large = k.hidden(
        split,
        v.element,
        f"tensor.expand_shape {v.name} {groups} output_shape {split} : {v.type} into TYPE",
    )
    high = [part for stride in strides for part in (0, stride - 1)]
    spread = padded(k, large, [0] * len(split), high)
    flat = [size * stride for size, stride in zip(v.shape, strides, strict=True)]
    joined = k.hidden(
        flat,
        v.element,
        f"tensor.collapse_shape {spread.name} {groups} : {spread.type} into TYPE",
    )
    low = [min(offset, wanted) for offset, wanted in zip(offsets, shape, strict=True)]
    rest = [max(0, wanted - size - o) for wanted, size, o in zip(shape, flat, low, strict=True)]
    around = padded(k, joined, low, rest)
    slots = f"{[0] * rank} {list(shape)} {[1] * rank}"
    op = f"tensor.extract_slice {around.name}{slots} : {around.type} to TYPE"
    k.emit(shape, v.element, op, small=v.small)


def padded(k: RandomFunction, v: Value, low: Sequence[int], high: Sequence[int]) -> Value:
    """`v` with zeros around it, which no step sees."""
    shape = [a + size + b for a, size, b in zip(low, v.shape, high, strict=True)]
    indices = ", ".join(f"%i{dim}: index" for dim in range(len(shape)))
    block = f"  ^bb0({indices}):\n    %c = arith.constant {scalar(0, v.element)}\n"
    op = f"tensor.pad {v.name} low{list(low)} high{list(high)} {{\n{block}"
    op += f"    tensor.yield %c : {v.element}\n  }} : {v.type} to TYPE"
    return k.hidden(shape, v.element, op, small=v.small)


def _computed(
    k: RandomFunction,
    v: Value,
    shape: Sequence[int],
    offsets: Sequence[int],
    strides: Sequence[int],
) -> None:
    """A generic that reads the element which its own index says, or zero."""
    lines = ["%yes = arith.constant true", f"%zero = arith.constant {scalar(0, v.element)}"]
    inside, places = "%yes", list[str]()
    signed = "u" if k.choices.one_in(2) else "s"
    for dim, (offset, stride, size) in enumerate(zip(offsets, strides, v.shape, strict=True)):
        lines += [
            f"%d{dim} = linalg.index {dim} : index",
            f"%o{dim} = arith.constant {offset} : index",
            f"%t{dim} = arith.constant {stride} : index",
            f"%n{dim} = arith.constant {size - 1} : index",
            f"%z{dim} = arith.constant 0 : index",
            f"%a{dim} = arith.subi %d{dim}, %o{dim} : index",
            f"%low{dim} = arith.cmpi sge, %a{dim}, %z{dim} : index",
            f"%b{dim} = arith.maxsi %a{dim}, %z{dim} : index",
            f"%q{dim} = arith.div{signed}i %b{dim}, %t{dim} : index",
            f"%m{dim} = arith.rem{signed}i %b{dim}, %t{dim} : index",
            f"%on{dim} = arith.cmpi eq, %m{dim}, %z{dim} : index",
            f"%high{dim} = arith.cmpi sle, %q{dim}, %n{dim} : index",
            f"%e{dim} = arith.minsi %q{dim}, %n{dim} : index",
            f"%f{dim} = arith.andi %low{dim}, %on{dim} : i1",
            f"%g{dim} = arith.andi %f{dim}, %high{dim} : i1",
            f"%h{dim} = arith.andi {inside}, %g{dim} : i1",
        ]
        inside = f"%h{dim}"
        places.append(f"%e{dim}")
    lines += [
        f"%v = tensor.extract {v.name}[{', '.join(places)}] : {v.type}",
        f"%r = arith.select {inside}, %v, %zero : {v.element}",
        f"linalg.yield %r : {v.element}",
    ]
    init = k.empty(shape, v.element)
    loops = [f"d{dim}" for dim in range(len(shape))]
    start = header([affine(loops, loops)], ["parallel"] * len(shape))
    body = "\n    ".join(lines)
    op = (
        f"{start} outs({init.name} : TYPE) {{\n  ^bb0(%out: {v.element}):\n    {body}\n  }} -> TYPE"
    )
    k.emit(shape, v.element, op, small=v.small)


SPELLINGS = (_inserted, _inserted, _inserted, _stretched, _computed)
