"""A product with a matrix that im2col writes, as the same contraction of the image itself.

    rewrite: cols = collapse_shape(im2col(X)); Y = W · cols
             --> Y = collapse_shape(Σ expand_shape(W)[k, c, r, s] * X[c, p + r, q + s])

The loops over the matrix's rows and columns become those over channels, taps and positions that it
was collapsed from, and im2col's indices become the contraction's. Sums keep their order.
Preconditions: the matrix is a rearrangement of one tensor, collapsed; each dimension of that tensor
is indexed by at most one loop over the result and one reduced loop, from 0 on; at most one reduced
loop is not a tap. A matrix that is no larger than the tensor, as that of a strided 1x1 convolution,
is written: its elements lie closer together.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects import tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Operation
from xdsl.ir.affine import AffineMap

from convir.analysis.contraction import contraction_dims
from convir.analysis.linear import LinearIndex
from convir.analysis.rearrangement import rearrangement
from convir.analysis.refusal import Refusal
from convir.analysis.reshapes import collapse_shape, expand_shape, groups_of
from convir.analysis.values.zeros import constant_fill_of
from convir.passes.builders.structured_rebuild import rebuilt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from convir.analysis.contraction import ContractionDims, Operand
    from convir.analysis.rearrangement import Rearrangement
    from convir.analysis.slices import AnyTensor

MOST_TAPS = 1024
"""Kernels that read an image in place list the addresses of a position's taps; see
`lowering/kernels/host/implicit_gemm/README.md`."""


@dataclass(frozen=True)
class ImageProduct:
    """A contraction that reads a collapsed rearrangement, and the loops it has without it."""

    dims: ContractionDims
    position: int
    """Which of the two inputs is the matrix."""
    moved: Rearrangement
    """Where the matrix has its elements from."""
    loops: tuple[tuple[int, ...], ...]
    """For each loop of the contraction the ones that it becomes."""
    sizes: tuple[int, ...]
    """Trip counts of the new loops."""

    @property
    def image(self) -> SSAValue:
        """What im2col reads, without the zeros around it."""
        owner = self.moved.source.owner
        return owner.source if isinstance(owner, tensor.PadOp) else self.moved.source

    def rewritten(self) -> list[Operation]:
        """The ops that compute the contraction's result from the image, in order."""
        dims = self.dims
        operands: list[SSAValue] = []
        made: list[Operation] = []
        indices: list[Sequence[LinearIndex]] = []
        for position, operand in enumerate((*dims.inputs, dims.out)):
            if position == self.position:
                operands.append(self.moved.source)
                indices.append(self._image_index())
                continue
            ops = self._expanded(operand)
            made += ops
            operands.append(ops[-1].results[0] if ops else operand.value)
            indices.append([_bare(loop) for loop in self._loops_of(operand)])
        iterators = [
            iterator
            for iterator, loops in zip(dims.view.iterators, self.loops, strict=True)
            for _ in loops
        ]
        maps = [
            AffineMap(len(iterators), 0, tuple(form.expression() for form in index))
            for index in indices
        ]
        new = rebuilt(dims.view, operands, maps, iterators)
        result = dims.op.results[0].type
        back = collapse_shape(new.results[0], self._groups(dims.out), cast("AnyTensor", result))
        return [*made, new, back]

    def refusal(self) -> Refusal | None:
        """Why kernels would not read the image in place, or not gain by it."""
        shape = cast("AnyTensor", self.image.type).get_shape()
        written = self._loops_of(self.dims.inputs[self.position])
        if DYNAMIC_INDEX in shape:
            return Refusal("the image has a dynamic size")
        if prod(self.sizes[loop] for loop in written) <= prod(shape):
            return Refusal("im2col writes no element of the image more than once")
        out = {loop for loops in map(self.loops.__getitem__, self._parallel()) for loop in loops}
        taps: set[int] = set()
        for form in self._image_index():
            moving = [loop for loop in form.loops if loop in out]
            reduced = [loop for loop in form.loops if loop not in out]
            if form.constant or len(moving) > 1 or len(reduced) > 1:
                return Refusal("im2col reads elements outside of every window")
            if moving:
                taps.update(reduced)
        if prod(self.sizes[loop] for loop in taps) > MOST_TAPS:
            return Refusal(f"im2col has more than {MOST_TAPS} taps")
        every = range(len(self.sizes))
        depths = [i for i in every if i not in out and i not in taps and self.sizes[i] > 1]
        return Refusal("im2col reduces over several dimensions") if len(depths) > 1 else None

    def _parallel(self) -> list[int]:
        return [i for i, kind in enumerate(self.dims.view.iterators) if kind == "parallel"]

    def _image_index(self) -> list[LinearIndex]:
        """The index into each dimension of the image, over the new loops."""
        loops = self._loops_of(self.dims.inputs[self.position])
        return [form.composed([_bare(loop) for loop in loops]) for form in self.moved.index]

    def _loops_of(self, operand: Operand) -> list[int]:
        """The new loop of each dimension that an operand has when it is expanded."""
        return [loop for group in self._new_loops(operand) for loop in group]

    def _new_loops(self, operand: Operand) -> list[tuple[int, ...]]:
        return [self.loops[cast("int", form.bare)] for form in operand.index]

    def _groups(self, operand: Operand) -> list[list[int]]:
        groups: list[list[int]] = []
        for loops in self._new_loops(operand):
            begin = sum(map(len, groups))
            groups.append(list(range(begin, begin + len(loops))))
        return groups

    def _expanded(self, operand: Operand) -> list[Operation]:
        """The ops that give an operand its new shape; none if it stays as it is."""
        value = operand.value
        loops = self._loops_of(operand)
        if len(loops) == len(operand.index):
            return []
        element = cast("AnyTensor", value.type).element_type
        shape = TensorType(element, [self.sizes[loop] for loop in loops])
        fill = constant_fill_of(value)
        if fill is None and not isinstance(value.owner, tensor.EmptyOp):
            return [expand_shape(value, self._groups(operand), shape)]
        empty = tensor.EmptyOp((), shape)
        if fill is None:
            return [empty]
        constant = ConstantOp(fill)
        return [constant, empty, FillOp((constant.result,), (empty.tensor,), (shape,))]


def _bare(loop: int) -> LinearIndex:
    return LinearIndex(((loop, 1),))


def image_product(op: Operation) -> ImageProduct | Refusal:
    """`op` as a product with a matrix of im2col, or why it is read as it is."""
    dims = contraction_dims(op)
    if isinstance(dims, Refusal):
        return dims
    if any(form.bare is None for x in (*dims.inputs, dims.out) for form in x.index):
        return Refusal("it reads windows itself")
    for position, operand in enumerate(dims.inputs):
        collapsed = operand.value.owner
        if not isinstance(collapsed, tensor.CollapseShapeOp):
            continue
        owner = collapsed.src.owner
        moved = rearrangement(owner) if isinstance(owner, Operation) else None
        shape = cast("AnyTensor", collapsed.src.type).get_shape()
        if moved is None or DYNAMIC_INDEX in shape or None in dims.bounds:
            continue
        found = _split(dims, position, moved, [[shape[d] for d in g] for g in groups_of(collapsed)])
        return found.refusal() or found
    return Refusal("it reads no im2col")


def _split(
    dims: ContractionDims, position: int, moved: Rearrangement, sizes: Sequence[Sequence[int]]
) -> ImageProduct:
    """The loops of a contraction, those over the matrix's dimensions split as it was collapsed."""
    parts: dict[int, Sequence[int]] = {
        cast("int", form.bare): part
        for form, part in zip(dims.inputs[position].index, sizes, strict=True)
    }
    loops: list[tuple[int, ...]] = []
    new: list[int] = []
    for loop, bound in enumerate(dims.bounds):
        part = parts.get(loop, [cast("int", bound)])
        loops.append(tuple(range(len(new), len(new) + len(part))))
        new += part
    return ImageProduct(dims, position, moved, tuple(loops), tuple(new))
