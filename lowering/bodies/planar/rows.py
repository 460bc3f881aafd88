"""Ops on planar tensors, [images, channels…, frames]: what they do to rows of frames.

All dimensions between the first and the last one are channels: a reshape of these alone leaves
every row where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type, TensorType

from convir.analysis.contraction import contraction_dims
from convir.analysis.refusal import Refusal
from convir.analysis.slices import slice_view
from convir.analysis.values.zeros import is_zero

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation, SSAValue

    from convir.analysis.contraction import ContractionDims, Operand
    from convir.analysis.slices import SliceView

_LEAST_RANK = 3


@dataclass(frozen=True)
class PlanarShape:
    """The sizes of a planar tensor."""

    images: int
    """Of a batch."""
    channels: int
    frames: int


def planar_shape(value: SSAValue) -> PlanarShape | None:
    """The sizes of `value` if it is a planar tensor of f32."""
    kind = value.type
    if not isinstance(kind, TensorType):
        return None
    planar = cast("TensorType[Attribute]", kind)
    if not isinstance(planar.element_type, Float32Type):
        return None
    shape = planar.get_shape()
    if len(shape) < _LEAST_RANK or DYNAMIC_INDEX in shape or 0 in shape:
        return None
    return PlanarShape(shape[0], prod(shape[1:-1]), shape[-1])


def splits_channels(op: Operation) -> bool:
    """Whether `op` is a reshape that leaves every row of frames where it is."""
    if op.name not in ("tensor.expand_shape", "tensor.collapse_shape"):
        return False
    source, result = (planar_shape(value) for value in (op.operands[0], op.results[0]))
    return source is not None and source == result


def static_slice(op: Operation) -> SliceView | None:
    """An extraction or insertion of neighbouring rows and frames, of all images."""
    view = slice_view(op)
    if view is None or view.kind not in ("extract_slice", "insert_slice") or view.dropped:
        return None
    if view.rank != _LEAST_RANK or None in map(planar_shape, (view.large, view.small)):
        return None
    return None if None in view.offsets or view.strided or not view.covers(0) else view


@dataclass(frozen=True)
class FrameConvolution:
    """A contraction as a convolution along frames, its channels in groups."""

    image: SSAValue
    weights: SSAValue
    """[channels…, depth, taps], dense."""
    channels: int
    depth: int
    """Channels of a group that are read."""
    taps: int
    groups: int
    reach: int
    """Frames between two taps."""
    first: int
    """The frame of the image that the first tap reads for frame 0."""

    @property
    def reads_one_frame(self) -> bool:
        """Whether each frame is computed from the same one."""
        return self.taps == 1 and self.first == 0


def frame_convolution(op: Operation) -> FrameConvolution | Refusal:
    """`op` as a convolution along frames, or why it is none."""
    dims = contraction_dims(op)
    if isinstance(dims, Refusal):
        return dims
    result = planar_shape(op.results[0])
    if result is None or dims.product_casts or any(operand.casts for operand in dims.inputs):
        return Refusal("its result is not a planar tensor of f32")
    if not is_zero(dims.out.value):
        return Refusal("it accumulates into its init")
    batch, *channels, frames = (cast("int", index.bare) for index in dims.out.index)
    images = [operand for operand in dims.inputs if frames in operand.loops]
    if len(images) != 1:
        return Refusal("both of its inputs have frames")
    (image,) = images
    weights = dims.rhs if image is dims.lhs else dims.lhs
    if batch in weights.loops and not dims.is_unit(batch):
        return Refusal("its weights differ from image to image")
    return _read(dims, image, weights, (batch, channels, frames))


def _read(
    dims: ContractionDims, image: Operand, weights: Operand, loops: tuple[int, list[int], int]
) -> FrameConvolution | Refusal:
    batch, channels, frames = loops
    if planar_shape(image.value) is None:
        return Refusal("its image is not a planar tensor of f32")
    *outer, along = image.index
    if outer[0].bare != batch or along.coefficient(frames) != 1:
        return Refusal("its frames are not contiguous in one image")
    tap = [loop for loop in along.loops if loop != frames]
    if len(tap) > 1 or (tap and tap[0] not in dims.k):
        return Refusal("its frames are indexed by more than frame and tap")
    groups = [loop for loop in channels if loop in dims.batch and not dims.is_unit(loop)]
    depth = [loop for loop in dims.k if loop not in tap and not dims.is_unit(loop)]
    for operand, indices in ((image, outer), (weights, weights.index)):
        if any(
            all(map(dims.is_unit, index.loops)) and size != 1
            for index, size in zip(indices, operand.shape, strict=False)
        ):
            return Refusal("it reads one of several rows or weights")
    inner = [index.bare for index in outer[1:] if any(not dims.is_unit(x) for x in index.loops)]
    if inner != [*groups, *depth] or len(groups) > 1 or len(depth) > 1:
        return Refusal("its channels are not consecutive by group")
    longer = [loop for loop in channels if not dims.is_unit(loop)]
    if groups and longer[0] != groups[0]:
        return Refusal("its channels are not consecutive by group")
    walked = [
        index.bare for index in weights.index if any(not dims.is_unit(x) for x in index.loops)
    ]
    if walked != [*longer, *depth, *(loop for loop in tap if not dims.is_unit(loop))]:
        return Refusal("its weights are not ordered by output channel, input channel and tap")
    reach = along.coefficient(tap[0]) if tap else 0

    def size(loops: list[int]) -> int:
        return prod(cast("int", dims.bounds[loop]) for loop in loops)

    return FrameConvolution(
        image.value,
        weights.value,
        size(channels),
        size(depth),
        size(tap),
        size(groups),
        reach,
        along.constant,
    )
