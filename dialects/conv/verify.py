"""The verifier of the conv ops: layouts, geometry, shapes and element types fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX, i32
from xdsl.utils.exceptions import VerifyException

from convir.dialects.conv.geometry import ROLES
from convir.dialects.conv.windows import output_shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute

    from convir.dialects.conv.geometry import Geometry, Role

_EXTENSIONS: Mapping[str, tuple[str, ...]] = {
    "f16": ("f16", "f32", "f64"),
    "bf16": ("bf16", "f32", "f64"),
    "f32": ("f32", "f64"),
    "f64": ("f64",),
}
"""The element types that hold every value of an element type."""


def verify(
    geometry: Geometry, types: Mapping[Role, TensorType[Attribute]], accumulator: Attribute
) -> None:
    """Check that a geometry, the types of input, filter and output, and an accumulator fit.

    Raises:
        VerifyException: saying which sizes, layouts or types do not.
    """
    _verify_layouts(geometry, types)
    _verify_sizes(geometry)
    verify_shapes(geometry, {role: types[role].get_shape() for role in ROLES})
    _verify_element_types(types, accumulator)


def verify_shapes(geometry: Geometry, shapes: Mapping[Role, tuple[int, ...]]) -> None:
    """Check that the shapes of input, filter and output, each in its layout, fit each other.

    Sizes may be `DYNAMIC_INDEX`: those fit any other.

    Raises:
        VerifyException: saying which sizes do not.
    """
    found = _Shapes(geometry, [shapes[role] for role in ROLES])
    _verify_channels(found)
    _verify_output(found)


class _Shapes:
    """The three shapes with their layouts, geometry and windows."""

    def __init__(self, geometry: Geometry, shapes: Sequence[tuple[int, ...]]) -> None:
        self.geometry = geometry
        self.layouts = geometry.layouts
        self.input, self.filter, self.output = shapes
        self.windows = geometry.windows(self.filter)


def _verify_layouts(geometry: Geometry, types: Mapping[Role, TensorType[Attribute]]) -> None:
    try:
        layouts = geometry.layouts
    except ValueError as error:
        raise VerifyException(str(error)) from None
    if len({layout.spatial_rank for layout in layouts}) != 1:
        names = ", ".join(map(str, layouts))
        raise VerifyException(f"the layouts {names} differ in their number of spatial dimensions")
    for role, layout in zip(ROLES, layouts, strict=True):
        rank = types[role].get_num_dims()
        if rank != layout.rank:
            raise VerifyException(f"the {role} has rank {rank} but its layout is {layout}")


def _verify_sizes(geometry: Geometry) -> None:
    rank = geometry.layouts[0].spatial_rank
    fields = (
        ("strides", geometry.strides, 1),
        ("dilations", geometry.dilations, 1),
        ("pad_low", geometry.pad_low, 0),
        ("pad_high", geometry.pad_high, 0),
    )
    for name, values, smallest in fields:
        if len(values) != rank:
            raise VerifyException(
                f"{name} must have one value for each of {rank} spatial dimensions, "
                f"found {len(values)}"
            )
        for value in values:
            if value < smallest:
                raise VerifyException(f"{name} must be at least {smallest}, found {value}")
    if geometry.groups < 1:
        raise VerifyException(f"groups must be at least 1, found {geometry.groups}")


def _verify_channels(shapes: _Shapes) -> None:
    groups = shapes.geometry.groups
    input_layout, filter_layout, output_layout = shapes.layouts

    batch, batch_out = (
        shapes.input[input_layout.outer_axis],
        shapes.output[output_layout.outer_axis],
    )
    if _differ(batch, batch_out):
        raise VerifyException(f"the input has N = {batch} but the output has N = {batch_out}")

    channels = shapes.input[input_layout.channel_axis]
    per_group = shapes.filter[filter_layout.channel_axis]
    if DYNAMIC_INDEX not in (channels, per_group) and channels != per_group * groups:
        raise VerifyException(
            f"the input has C = {channels} but the filter has C = {per_group} "
            f"for each of {groups} groups"
        )

    filters, produced = (
        shapes.filter[filter_layout.outer_axis],
        shapes.output[output_layout.channel_axis],
    )
    if _differ(filters, produced):
        raise VerifyException(f"the filter has K = {filters} but the output has C = {produced}")
    for count in (filters, produced):
        if count != DYNAMIC_INDEX and count % groups != 0:
            raise VerifyException(f"K = {count} is not a multiple of the {groups} groups")


def _verify_output(shapes: _Shapes) -> None:
    for window in shapes.windows:
        if window.taps < 1 and window.taps != DYNAMIC_INDEX:
            raise VerifyException(f"the filter must have at least 1 tap, found {window.taps}")
    try:
        inferred_shape = output_shape(shapes.input, shapes.filter, shapes.windows, shapes.layouts)
    except ValueError as error:
        raise VerifyException(str(error)) from None
    input_layout, _, output_layout = shapes.layouts
    for letter, window in zip(output_layout.spatial, shapes.windows, strict=True):
        axis = output_layout.letters.index(letter)
        inferred, found = inferred_shape[axis], shapes.output[axis]
        if _differ(inferred, found):
            size = shapes.input[input_layout.letters.index(letter)]
            raise VerifyException(
                f"the output has {letter} = {found} but {inferred} follows from "
                f"the input's {letter} = {size} with {window}"
            )


def _verify_element_types(
    types: Mapping[Role, TensorType[Attribute]], accumulator: Attribute
) -> None:
    if accumulator == i32:
        found = tuple(str(types[role].get_element_type()) for role in ROLES)
        if found != ("i8", "i8", "i32"):
            raise VerifyException(
                "sums in i32 are of an input and a filter of i8 and have an output of i32, "
                f"found {', '.join(found)}"
            )
        return
    for role in ROLES:
        element = str(types[role].get_element_type())
        if element not in _EXTENSIONS:
            known = ", ".join(_EXTENSIONS)
            raise VerifyException(f"the {role} has elements of type {element}, not {known}")
        if str(accumulator) not in _EXTENSIONS[element]:
            raise VerifyException(
                f"the accumulator {accumulator} does not hold the {role}'s {element}"
            )


def _differ(size: int, other: int) -> bool:
    return DYNAMIC_INDEX not in (size, other) and size != other
