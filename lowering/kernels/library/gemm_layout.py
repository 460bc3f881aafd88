"""Contractions that are one strided batched GEMM on row-major buffers.

A loop of a contraction steps through each operand by a fixed number of elements. Loops of one
role that step through their operands in lockstep are one longer loop; what is left must be one
loop for m, n and k each, and at most one for the batch. A loop that cannot join the others of its
role becomes the batch loop, with a stride of 0 for the operand it does not index.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float64Type, f32

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.operand_access import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.analysis.contraction import ContractionDims, Operand
    from convir.lowering.bodies.operand_access import Access


@dataclass(frozen=True)
class Axis:
    """One loop, or several as one: its length, and its step in elements through each operand."""

    size: int
    lhs: int
    rhs: int
    out: int


@dataclass(frozen=True)
class GemmLayout:
    """A contraction as `rt.gemm`: C[m, n] += A[m, k] · B[k, n], all row-major."""

    m: int
    n: int
    k: int
    batch: int
    lda: int
    ldb: int
    ldc: int
    stride_a: int
    stride_b: int
    stride_c: int
    transpose_a: bool
    transpose_b: bool
    swapped: bool
    """True if A is the contraction's rhs and B its lhs."""

    def sizes(self) -> dict[str, int]:
        """The integer properties of `rt.gemm`."""
        names = ("m", "n", "k", "batch", "lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c")
        return {name: getattr(self, name) for name in names}


def gemm_layout(dims: ContractionDims, inputs: Sequence[Access]) -> GemmLayout | Refusal:
    """`dims` as one GEMM, or why it is none.

    Inputs of one type, both f64 or both widened to f32 by extension alone; every index one loop,
    from 0 on.

    Args:
        dims: the contraction.
        inputs: where the elements of its lhs and its rhs lie.
    """
    if DYNAMIC_INDEX in dims.out.shape:
        return Refusal("a size is dynamic")
    if any(access.padded for access in inputs):
        return Refusal("an input is padded")
    types = _check_types(dims)
    if types is not None:
        return types
    axes = _axes(dims, inputs)
    if isinstance(axes, Refusal):
        return axes
    batch, m, n, k = (_collapse([axes[loop] for loop in loops]) for loops in _roles(dims))
    spare = [*m[:-1], *n[:-1]]
    if len(k) > 1 or len(batch) + len(spare) > 1:
        return Refusal("its loops do not collapse to one m, n, k and batch loop")
    unit = Axis(1, 0, 0, 0)
    batch_axis, m_axis, n_axis, k_axis = (
        (axis or [unit])[-1] for axis in ([*batch, *spare], m, n, k)
    )
    return _row_major(batch_axis, m_axis, n_axis, k_axis)


def _check_types(dims: ContractionDims) -> Refusal | None:
    lhs, rhs = (_element_type(operand) for operand in dims.inputs)
    if lhs != rhs:
        return Refusal("its inputs have different element types")
    if dims.product_casts or dims.multiply_type != dims.accumulate_type:
        return Refusal("its products are converted before they are added")
    if any(cast.name != "arith.extf" for operand in dims.inputs for cast in operand.casts):
        return Refusal("its inputs are converted by more than an extension")
    accumulate = dims.accumulate_type
    if accumulate != f32 and not (isinstance(accumulate, Float64Type) and lhs == accumulate):
        return Refusal(f"it accumulates in {accumulate}")
    return None


def _element_type(operand: Operand) -> object:
    return getattr(operand.value.type, "element_type", operand.value.type)


def _roles(dims: ContractionDims) -> tuple[tuple[int, ...], ...]:
    loops = (dims.batch, dims.m, dims.n, dims.k)
    return tuple(tuple(loop for loop in role if not dims.is_unit(loop)) for role in loops)


def _axes(dims: ContractionDims, inputs: Sequence[Access]) -> dict[int, Axis] | Refusal:
    """Per loop that runs more than once: its length, and its steps through the operands."""
    steps: dict[int, list[int]] = {
        loop: [0, 0, 0] for loop in range(len(dims.bounds)) if not dims.is_unit(loop)
    }
    buffers = [(access.index, shape_of(access.root)) for access in inputs]
    for position, (index, shape) in enumerate([*buffers, (dims.out.index, dims.out.shape)]):
        for dim, form in enumerate(index):
            moving = form.restricted(lambda loop: not dims.is_unit(loop))
            if moving.constant != 0 or len(moving.terms) > 1:
                return Refusal("an operand is indexed by more than one loop from 0 on")
            for loop, coefficient in moving.terms:
                steps[loop][position] += coefficient * prod(shape[dim + 1 :])
    if any(step < 0 for operands in steps.values() for step in operands):
        return Refusal("an operand is read backwards")
    axes: dict[int, Axis] = {}
    for loop, (lhs, rhs, out) in steps.items():
        size = dims.bounds[loop]
        if size is None:
            return Refusal("a size is dynamic")
        axes[loop] = Axis(size, lhs, rhs, out)
    return axes


def _collapse(axes: Sequence[Axis]) -> list[Axis]:
    """Join loops that step through every operand in lockstep; outermost first."""
    result: list[Axis] = []
    for axis in sorted(axes, key=lambda a: (a.out, a.lhs, a.rhs)):
        if result and _follows(result[-1], axis):
            inner = result[-1]
            result[-1] = replace(inner, size=inner.size * axis.size)
        else:
            result.append(axis)
    result.reverse()
    return result


def _follows(inner: Axis, outer: Axis) -> bool:
    """Whether `outer` starts over exactly where `inner` ends, in every operand."""
    return (
        outer.lhs == inner.lhs * inner.size
        and outer.rhs == inner.rhs * inner.size
        and outer.out == inner.out * inner.size
    )


def _row_major(batch: Axis, m: Axis, n: Axis, k: Axis) -> GemmLayout | Refusal:
    """Choose which input is A, so that the rows of the result are contiguous."""
    swapped = n.out != 1 and n.size > 1
    if swapped:
        flip = {"lhs": "rhs", "rhs": "lhs"}
        batch, m, n, k = (
            replace(axis, lhs=getattr(axis, flip["lhs"]), rhs=getattr(axis, flip["rhs"]))
            for axis in (batch, n, m, k)
        )
    if n.size > 1 and n.out != 1:
        return Refusal("its result is contiguous along neither m nor n")
    a = _matrix(m.size, m.lhs, k.size, k.lhs)
    b = _matrix(k.size, k.rhs, n.size, n.rhs)
    if a is None or b is None:
        return Refusal("an input is contiguous along neither of its loops")
    return GemmLayout(
        m=m.size,
        n=n.size,
        k=k.size,
        batch=batch.size,
        lda=a[0],
        ldb=b[0],
        ldc=m.out if m.size > 1 else n.size,
        stride_a=batch.lhs,
        stride_b=batch.rhs,
        stride_c=batch.out,
        transpose_a=a[1],
        transpose_b=b[1],
        swapped=swapped,
    )


def _matrix(
    rows: int, row_step: int, out_channels: int, column_step: int
) -> tuple[int, bool] | None:
    """Leading dimension and whether transposed, of a matrix with the given steps.

    None where no dimension is contiguous, or every row or column is one and the same.
    """
    if (rows > 1 and row_step == 0) or (out_channels > 1 and column_step == 0):
        return None
    if out_channels == 1 and rows == 1:
        return 1, False
    if out_channels == 1:
        return (row_step, False) if row_step > 1 else (rows, True)
    if rows == 1:
        return (out_channels, False) if column_step == 1 else (column_step, True)
    if column_step == 1 and row_step >= out_channels:
        return row_step, False
    if row_step == 1 and column_step >= rows:
        return column_step, True
    return None
