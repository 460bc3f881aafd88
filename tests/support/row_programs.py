"""Passes over rows as IR, and what they give in f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


def text_of(shape: Sequence[int], axes: Sequence[int], kind: str, name: str) -> str:
    """A function of one tensor: a reduction of its `axes`, or what is computed of several."""
    loops = [f"d{i}" for i in range(len(shape))]
    kept = [i for i in range(len(shape)) if i not in axes]
    full = f"tensor<{'x'.join(map(str, shape))}x{kind}>"
    small = f"tensor<{''.join(f'{shape[i]}x' for i in kept)}f32>"
    whole = f"affine_map<({', '.join(loops)}) -> ({', '.join(loops)})>"
    row = f"affine_map<({', '.join(loops)}) -> ({', '.join(loops[i] for i in kept)})>"
    kinds = ", ".join('"reduction"' if i in axes else '"parallel"' for i in range(len(shape)))
    every = ", ".join(['"parallel"'] * len(shape))
    wide = full.replace(kind, "f32")
    count = float(np.prod([shape[i] for i in axes]))
    widen = "" if kind == "f32" else f"%wi = arith.extf %el : {kind} to f32\n"
    a = "%el" if kind == "f32" else "%wi"

    def reduce(result: str, source: str, source_type: str, op: str, start: str) -> str:
        element = source_type.rsplit("x", maxsplit=1)[1].removesuffix(">")
        wider, x = (widen, a) if element != "f32" else ("", "%el")
        return f"""
  {result}_start = arith.constant {start} : f32
  {result}_empty = tensor.empty() : {small}
  {result}_init = linalg.fill ins({result}_start : f32) outs({result}_empty : {small}) -> {small}
  {result} = linalg.generic {{indexing_maps = [{whole}, {row}], iterator_types = [{kinds}]}}
    ins({source} : {source_type}) outs({result}_init : {small}) {{
  ^bb0(%el: {element}, %to: f32):
    {wider}%ne = {op} %to, {x} : f32
    linalg.yield %ne : f32
  }} -> {small}"""

    def each(result: str, x: str, x_type: str, r: str, body: str, to: str) -> str:
        element = x_type.rsplit("x", maxsplit=1)[1].removesuffix(">")
        out = to.rsplit("x", maxsplit=1)[1].removesuffix(">")
        wider, value = (widen, a) if element != "f32" else ("", "%el")
        narrow = "" if out == "f32" else f"%ze = arith.truncf %ye : f32 to {out}\n"
        return f"""
  {result}_empty = tensor.empty() : {to}
  {result} = linalg.generic
    {{indexing_maps = [{whole}, {row}, {whole}], iterator_types = [{every}]}}
    ins({x}, {r} : {x_type}, {small}) outs({result}_empty : {to}) {{
  ^bb0(%el: {element}, %ro: f32, %ou: {out}):
    {wider}{body.replace("%x", value)}
    {narrow}linalg.yield {"%ye" if out == "f32" else "%ze"} : {out}
  }} -> {to}"""

    ops = {"sum": ("arith.addf", "0.0"), "product": ("arith.mulf", "1.0")}
    ops |= {"max": ("arith.maximumf", "0xFF800000"), "min": ("arith.minimumf", "0x7F800000")}
    if name in ops:
        body = reduce("%r", "%v", full, *ops[name])
        return f"func.func @main(%v: {full}) -> {small} {{{body}\n  return %r : {small}\n}}"
    exponential = "%de = arith.subf %x, %ro : f32\n%ye = math.exp %de : f32"
    if name == "exponentials":  # Those of a softmax, without their sum.
        parts = (
            reduce("%m", "%v", full, "arith.maximumf", "0xFF800000"),
            each("%y", "%v", full, "%m", exponential, full),
        )
    elif name == "softmax":
        parts = (
            reduce("%m", "%v", full, "arith.maximumf", "0xFF800000"),
            each("%e", "%v", full, "%m", exponential, wide),
            reduce("%s", "%e", wide, "arith.addf", "0.0"),
            each("%y", "%e", wide, "%s", "%ye = arith.divf %x, %ro : f32", full),
        )
    else:  # The deviations from the mean, over the root of their mean square.
        mean = f"""
  %count = arith.constant dense<{count:e}> : {small}
  %eps = arith.constant dense<1.0e-5> : {small}"""
        parts = (
            mean,
            reduce("%t", "%v", full, "arith.addf", "0.0"),
            f"\n  %m = arith.divf %t, %count : {small}",
            each("%c", "%v", full, "%m", "%ye = arith.subf %x, %ro : f32", wide),
            f"\n  %q = arith.mulf %c, %c : {wide}",
            reduce("%s", "%q", wide, "arith.addf", "0.0"),
            (
                f"\n  %u = arith.divf %s, %count : {small}\n  %p = arith.addf %u, %eps : {small}"
                f"\n  %d = math.sqrt %p : {small}"
            ),
            each("%y", "%c", wide, "%d", "%ye = arith.divf %x, %ro : f32", full),
        )
    return f"func.func @main(%v: {full}) -> {full} {{{''.join(parts)}\n  return %y : {full}\n}}"


def expected(x: Any, axes: tuple[int, ...], name: str) -> Any:
    """The same in f64."""
    x = x.astype(np.float64)
    match name:
        case "sum":
            return x.sum(axes)
        case "product":
            return x.prod(axes)
        case "max":
            return x.max(axes)
        case "min":
            return x.min(axes)
        case "softmax" | "exponentials":
            e = np.exp(x - x.max(axes, keepdims=True))
            return e if name == "exponentials" else e / e.sum(axes, keepdims=True)
        case _:
            centered = x - x.mean(axes, keepdims=True)
            return centered / np.sqrt((centered**2).mean(axes, keepdims=True) + 1e-5)
