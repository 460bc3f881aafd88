"""Steps that are one named op: convolutions and products of `linalg`, and poolings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convir.dialects.linalg.table import CONTRACTIONS, CONVOLUTIONS, CORRELATIONS, POOLINGS
from random_programs.contractions import ACCUMULATORS, MAX_PRODUCTS

if TYPE_CHECKING:
    from convir.dialects.linalg.table import NamedSpec
    from random_programs.function import RandomFunction, Value

SPECS = (*CONTRACTIONS.values(), *CONVOLUTIONS.values(), *CORRELATIONS.values(), *POOLINGS.values())


def named(k: RandomFunction, v: Value) -> None:
    """A named op whose first input is `v`, or a new argument where none of its rank is there."""
    c = k.choices
    if v.element not in ACCUMULATORS or v.element == "index":
        return
    fitting = [s for s in SPECS if len(s.operands[0]) == len(v.shape)]
    if not fitting or c.one_in(3):
        spec = c.pick(SPECS)
        v = k.input([c.integer(2, 4) for _ in spec.operands[0]], v.element)
    else:
        spec = c.pick(fitting)
    if not v.small or 0 in v.shape:
        return
    is_float = v.element in ("f16", "bf16", "f32", "f64")
    if spec.name.endswith("unsigned") and is_float:
        return
    windows = _windows(k, spec, v)
    if windows is None:
        return
    bounds, strides, dilations = windows
    for expression in spec.loops:
        if expression not in bounds:
            bounds[expression] = c.integer(1, 3)
    if np.prod(list(bounds.values())) > MAX_PRODUCTS:
        return
    shapes = [[bounds[name] for name in operand] for operand in spec.operands[1:]]
    pooled = spec.name in POOLINGS
    element = v.element if pooled else c.pick(ACCUMULATORS[v.element])
    w = k.of_type(shapes[0], v.element)
    init = k.uniform(shapes[1], element, c.pick((0, 0, 1)))
    attributes = ""
    if strides and spec.name not in CORRELATIONS:
        kind = c.pick(("tensor", "vector"))
        attributes = (
            f" {{dilations = dense<{dilations}> : {kind}<{len(dilations)}xi64>, "
            f"strides = dense<{strides}> : {kind}<{len(strides)}xi64>}}"
        )
    op = f"linalg.{spec.name}{attributes} ins({v.name}, {w.name} : {v.type}, {w.type})"
    op = f"{op} outs({init.name} : TYPE) -> TYPE"
    k.emit(shapes[1], element, op, small=False)


def _windows(
    k: RandomFunction, spec: NamedSpec, v: Value
) -> tuple[dict[str, int], list[int], list[int]] | None:
    """The bounds of loops that `v` decides, and the strides and dilations of its windows."""
    c = k.choices
    bounds: dict[str, int] = {}
    strides: list[int] = []
    dilations: list[int] = []
    for expression, size in zip(spec.operands[0], v.shape, strict=True):
        position, _, offset = expression.partition("+")
        if not offset:
            if bounds.setdefault(position, size) != size:
                return None
            continue
        correlation = spec.name in CORRELATIONS
        taps = c.integer(1, min(size, 3))
        dilation = 2 if not correlation and 2 * (taps - 1) < size and c.one_in(3) else 1
        stride = 1 if correlation else c.integer(1, 3)
        bounds[offset] = taps
        bounds[position] = (size - dilation * (taps - 1) - 1) // stride + 1
        strides.append(stride)
        dilations.append(dilation)
    return bounds, strides, dilations
