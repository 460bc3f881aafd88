"""Sums of products: of two tensors over shared loops, and Einstein's summation of any number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir.affine import AffineExpr

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import converted, wide_of, widened
from convir.frontends.tensor_functions.gather import looked_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import Emitter, ScalarBuilder

    Operand = tuple[SSAValue, Sequence[AffineExpr]]


def multiply_add(
    emit: Emitter, operands: Sequence[Operand], out: Sequence[int], num_reduced: int = 1
) -> SSAValue:
    """The sum of products of two tensors; of f16 and bf16 it is f32, which nothing rounded yet.

    Args:
        emit: where ops go.
        operands: tensors of one element type, and the loop of each of their dimensions.
        out: the sizes of the result, whose dimensions are the first loops.
        num_reduced: how many loops behind those are summed over.
    """
    element = element_of(operands[0][0])
    is_float = isinstance(element, AnyFloat)
    wide = wide_of(element) if is_float else element
    multiply, add = (arith.MulfOp, arith.AddfOp) if is_float else (arith.MuliOp, arith.AddiOp)

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        left, right = (widened(scalars, arg, wide) for arg in args[:2])
        return scalars.insert(add(args[2], scalars.insert(multiply(left, right))))

    init = emit.filled(0, out, wide)
    identity = [AffineExpr.dimension(loop) for loop in range(len(out))]
    return emit.generic(operands, (init, identity), len(out), num_reduced, body)


class _Labelled:
    """A tensor whose dimensions have labels, each once."""

    def __init__(self, value: SSAValue, labels: Sequence[str]) -> None:
        self.value, self.labels = value, list(labels)

    def loops(self, emit: Emitter, sizes: Mapping[str, int], order: Sequence[str]) -> Operand:
        """The tensor without dimensions of size 1 that others repeat, and the loops of the rest."""
        have = shape_of(self.value)
        kept = [(n, label) for n, label in zip(have, self.labels, strict=True) if n == sizes[label]]
        value = emit.reshape(self.value, [size for size, _ in kept])
        return value, [AffineExpr.dimension(order.index(label)) for _, label in kept]


def einsum(
    emit: Emitter,
    operands: Sequence[SSAValue],
    labels: Sequence[Sequence[str]],
    output: Sequence[str],
) -> SSAValue:
    """The sum of products of tensors over all labels that the output does not have.

    Tensors are multiplied one after the other. Those of f16 and bf16 are f32 until all is summed.

    Args:
        emit: where ops go.
        operands: tensors of one element type.
        labels: of the dimensions of each; dimensions of one label are of one size, or of 1.
        output: the labels of the result, each once.

    Raises:
        ValueError: a label has several sizes, or that of the output is none of an operand.
    """
    element = element_of(operands[0])
    sizes: dict[str, int] = {}
    for value, named in zip(operands, labels, strict=True):
        for size, label in zip(shape_of(value), named, strict=True):
            if sizes.setdefault(label, size) in (1, size):
                sizes[label] = size
            elif size != 1:
                raise ValueError(f"the label '{label}' has the sizes {sizes[label]} and {size}")
    if unknown := [label for label in output if label not in sizes]:
        raise ValueError(f"no operand has the label '{unknown[0]}' of the result")
    waiting = [_diagonal(emit, value, named) for value, named in zip(operands, labels, strict=True)]
    total = waiting.pop(0)
    while waiting:
        later = {label for other in waiting[1:] for label in other.labels} | set(output)
        total = _product(emit, total, waiting.pop(0), sizes, later)
    result = _rearranged(emit, total, sizes, output)
    if not isinstance(element, AnyFloat) or element_of(result) == element:
        return result
    return emit.elementwise([result], lambda b, args: converted(b, args[0], element), element)


def _diagonal(emit: Emitter, value: SSAValue, labels: Sequence[str]) -> _Labelled:
    """A tensor with each label once: elements whose indices of equal labels are equal."""
    once = list(dict.fromkeys(labels))
    if len(once) == len(labels):
        return _Labelled(value, labels)
    sizes = dict(zip(labels, shape_of(value), strict=True))
    loops = [once.index(label) for label in labels]
    return _Labelled(looked_up(emit, value, [sizes[label] for label in once], loops), once)


def _product(
    emit: Emitter, left: _Labelled, right: _Labelled, sizes: Mapping[str, int], later: set[str]
) -> _Labelled:
    """The product of two tensors, summed over what is not needed later."""
    every = list(dict.fromkeys([*left.labels, *right.labels]))
    kept = [label for label in every if label in later]
    summed = [label for label in every if label not in later]
    if element_of(left.value) != element_of(right.value):
        wide = element_of(left.value)
        value = emit.elementwise(
            [right.value], lambda body, args: widened(body, args[0], wide), wide
        )
        right = _Labelled(value, right.labels)
    order = [*kept, *summed]
    operands = [one.loops(emit, sizes, order) for one in (left, right)]
    out = [sizes[label] for label in kept]
    return _Labelled(multiply_add(emit, operands, out, len(summed)), kept)


def _rearranged(
    emit: Emitter, total: _Labelled, sizes: Mapping[str, int], output: Sequence[str]
) -> SSAValue:
    """A tensor with the dimensions of `output`, summed over all others."""
    value, labels = total.value, total.labels
    summed = [dim for dim, label in enumerate(labels) if label not in output]
    if summed:
        element = element_of(value)
        is_float = isinstance(element, AnyFloat)
        wide, add = (wide_of(element), arith.AddfOp) if is_float else (element, arith.AddiOp)
        value = emit.reduce(
            value,
            summed,
            0,
            lambda body, args: body.insert(add(args[1], widened(body, args[0], wide))),
            wide,
        )
        labels = [label for label in labels if label in output]
    value = emit.transpose(value, [labels.index(label) for label in output])
    return emit.broadcast(value, [sizes[label] for label in output])
