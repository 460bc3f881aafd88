"""Convolutions of bytes for tests: modules of random problems, and the sums that they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from conv_cases import torch_answer
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, i8, i32

from convir.dialects.conv.ops import FpropOp

if TYPE_CHECKING:
    from conv_cases import Array

    from convir.dialects.conv.problem import ConvProblem


def module_of(problem: ConvProblem) -> ModuleOp:
    """A function `main` of unsigned bytes, signed ones, and the i32 that sums are added to."""
    shapes = zip((i8, i8, i32), problem.shapes, strict=True)
    types = [TensorType(element, shape) for element, shape in shapes]
    function = func.FuncOp("main", (types, types[2:]))
    block = function.body.block
    x, w, init = block.args
    conv = FpropOp(x, w, init, problem.geometry, i32)
    block.add_ops([conv, func.ReturnOp(conv.result)])
    return ModuleOp([function])


def operands(problem: ConvProblem, seed: int) -> tuple[Array, Array, Array]:
    """Bytes with the extremes among them, held as int8, and an init in int32."""
    rng = np.random.default_rng(seed)
    x, w, init = problem.shapes
    bytes_of: Any = [rng.integers(-128, 128, shape, np.int8) for shape in (x, w)]
    for array in bytes_of:
        array[rng.random(array.shape) < 0.2] = rng.choice([-128, -1, 127])
    return *bytes_of, rng.integers(-(10**6), 10**6, init, np.int32)


def sums(problem: ConvProblem, x: Array, w: Array, init: Array) -> Array:
    """What the convolution of `operands` is, in i32."""
    found = torch_answer(problem, x.view(np.uint8), w)
    return found.astype(np.int32) + init
