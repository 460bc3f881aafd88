"""Steps that move elements: slices, pads, reshapes, transposes, concatenations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from random_programs.types import FLOATS

if TYPE_CHECKING:
    from random_programs.function import RandomFunction, Value


def transpose(k: RandomFunction, v: Value) -> None:
    order = k.choices.permutation(len(v.shape))
    shape = tuple(v.shape[i] for i in order)
    init = k.empty(shape, v.element)
    line = f"linalg.transpose ins({v.name} : {v.type}) outs({init.name} : TYPE)"
    k.emit(shape, v.element, f"{line} permutation = {list(order)}", small=v.small)


def broadcast(k: RandomFunction, v: Value) -> None:
    if len(v.shape) > 2 or np.prod(v.shape) * max(k.sizes) > k.max_elements:
        return
    size, place = k.choices.pick(k.sizes), k.choices.integer(0, len(v.shape))
    shape = (*v.shape[:place], size, *v.shape[place:])
    init = k.empty(shape, v.element)
    line = f"linalg.broadcast ins({v.name} : {v.type}) outs({init.name} : TYPE)"
    k.emit(shape, v.element, f"{line} dimensions = [{place}]", small=v.small)


def extract_slice(k: RandomFunction, v: Value) -> None:
    offsets: list[int] = []
    sizes: list[int] = []
    strides: list[int] = []
    for size in v.shape:
        offsets.append(k.choices.integer(0, size - 1))
        strides.append(k.choices.integer(1, 3))
        sizes.append(k.choices.integer(1, 1 + (size - 1 - offsets[-1]) // strides[-1]))
    line = f"tensor.extract_slice {v.name}{offsets} {sizes} {strides} : {v.type} to TYPE"
    k.emit(tuple(sizes), v.element, line, small=v.small)


def insert_slice(k: RandomFunction, v: Value) -> None:
    offsets: list[int] = []
    strides: list[int] = []
    shape: list[int] = []
    for size in v.shape:
        offsets.append(k.choices.integer(0, 2))
        strides.append(k.choices.integer(1, 3))
        shape.append(offsets[-1] + (size - 1) * strides[-1] + 1 + k.choices.integer(0, 2))
    if np.prod(shape) > k.max_elements:
        return
    fitting = [u for u in k.values if (u.shape, u.element) == (tuple(shape), v.element)]
    dest = k.choices.pick([k.splat(tuple(shape), v.element, k.choices.integer(0, 1)), *fitting])
    line = f"tensor.insert_slice {v.name} into {dest.name}{offsets} {list(v.shape)} {strides}"
    k.emit(tuple(shape), v.element, f"{line} : {v.type} into TYPE", small=v.small and dest.small)


def pad(k: RandomFunction, v: Value) -> None:
    low = [k.choices.integer(0, 2) for _ in v.shape]
    high = [k.choices.integer(0, 2) for _ in v.shape]
    shape = tuple(a + size + b for a, size, b in zip(low, v.shape, high, strict=True))
    if not shape or np.prod(shape) > k.max_elements:
        return
    literal = "1.0" if v.element in FLOATS else ("true" if v.element == "i1" else "1")
    constant = f"arith.constant {literal}" + ("" if v.element == "i1" else f" : {v.element}")
    indices = ", ".join(f"%i{d}: index" for d in range(len(shape)))
    block = f"^bb0({indices}):\n    %c = {constant}\n    tensor.yield %c : {v.element}"
    line = f"tensor.pad {v.name} low{low} high{high} {{\n  {block}\n  }} : {v.type} to TYPE"
    k.emit(shape, v.element, line, small=v.small)


def collapse(k: RandomFunction, v: Value) -> None:
    if v.shape and all(size == 1 for size in v.shape) and k.choices.integer(0, 1):
        k.emit(
            (), v.element, f"tensor.collapse_shape {v.name} [] : {v.type} into TYPE", small=v.small
        )
        return
    if len(v.shape) < 2:
        return
    place = k.choices.integer(0, len(v.shape) - 2)
    shape = (*v.shape[:place], v.shape[place] * v.shape[place + 1], *v.shape[place + 2 :])
    dims = list(range(len(v.shape)))
    groups = [
        *[[d] for d in dims[:place]],
        dims[place : place + 2],
        *[[d] for d in dims[place + 2 :]],
    ]
    line = f"tensor.collapse_shape {v.name} {groups} : {v.type} into TYPE"
    k.emit(shape, v.element, line, small=v.small)


def expand(k: RandomFunction, v: Value) -> None:
    if not v.shape or len(v.shape) > 2:
        return
    place = k.choices.integer(0, len(v.shape) - 1)
    size = v.shape[place]
    factor = k.choices.pick([f for f in range(1, size + 1) if size % f == 0])
    shape = (*v.shape[:place], factor, size // factor, *v.shape[place + 1 :])
    groups = [[d] for d in range(place)] + [[place, place + 1]]
    groups += [[d + 1] for d in range(place + 1, len(v.shape))]
    line = f"tensor.expand_shape {v.name} {groups} output_shape {list(shape)} : {v.type} into TYPE"
    k.emit(shape, v.element, line, small=v.small)


def concat(k: RandomFunction, v: Value) -> None:
    if not v.shape or 2 * np.prod(v.shape) > k.max_elements:
        return
    dim = k.choices.integer(0, len(v.shape) - 1)
    shape = (*v.shape[:dim], 2 * v.shape[dim], *v.shape[dim + 1 :])
    other = k.choices.pick(k.like(v))
    line = f"tensor.concat dim({dim}) {v.name}, {other.name} : ({v.type}, {other.type}) -> TYPE"
    k.emit(shape, v.element, line, small=v.small and other.small)
