"""The operators: a module for each family, and a function for each operator.

A function takes a `Call`, appends ops through its emitter, and returns the node's results. It
raises `ValueError` or `Call.error` where it does not do what the node asks for; an attribute that
it never looked at is an error too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.frontends.onnx.ops import (
    activation,
    arithmetic,
    convolution,
    logic,
    matrix,
    normalization,
    ordering,
    pooling,
    recurrent,
    reduction,
    resize,
)
from convir.frontends.onnx.ops.quantized import integer_layers, quantization
from convir.frontends.onnx.ops.shapes import indexing, shape, space

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.onnx.call import Call

OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    **activation.OPERATORS,
    **arithmetic.OPERATORS,
    **convolution.OPERATORS,
    **indexing.OPERATORS,
    **logic.OPERATORS,
    **matrix.OPERATORS,
    **normalization.OPERATORS,
    **ordering.OPERATORS,
    **pooling.OPERATORS,
    **quantization.OPERATORS,
    **recurrent.OPERATORS,
    **reduction.OPERATORS,
    **resize.OPERATORS,
    **shape.OPERATORS,
    **space.OPERATORS,
    **integer_layers.OPERATORS,
}
"""The functions of the standard operators by name."""
