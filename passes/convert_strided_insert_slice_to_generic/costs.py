"""What a scatter costs as a fill and a strided copy, and what as one pass over its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import CompileTimeFixedBitwidthType

from convir.passes.convert_strided_insert_slice_to_generic.match import hole_of, scatter_dims
from convir.passes.convert_strided_insert_slice_to_generic.rewrite import is_power_of_two
from convir.passes.machine_costs import ASSUMED_SIZE

if TYPE_CHECKING:
    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute

    from convir.analysis.slices import Size, SliceView
    from convir.passes.machine_costs import MachineCosts

_INDEX_BYTES: Final = 8
"""What an element counts for whose type has no size of its own, as `index` has not."""


@dataclass(frozen=True)
class Traffic:
    """What has to move for one scatter. Bytes are those of the elements, without overfetch."""

    result_bytes: int
    source_bytes: int
    run_bytes: int
    """How many bytes lie next to each other both in the source and in the result."""
    pitch_bytes: int
    """The distance of one run from the next in the result."""
    shifted_dims: int
    """Dimensions that are tested with comparisons, shifts and masks alone."""
    divided_dims: int
    """Dimensions that need a division."""
    filled: bool
    """The holes hold one scalar, so that a fill comes first; else the destination's elements."""
    stored_by_producer: bool
    """The one op that computes the source can store its result through the scatter."""


def traffic_of(view: SliceView, *, stored_by_producer: bool) -> Traffic:
    """What the insertion or pad of `view` moves."""
    dims = scatter_dims(view)
    element = _element_bytes(view)
    source = result = run = pitch = element
    contiguous = True
    for dim in reversed(dims):
        size, extent = _assumed(dim.size), _assumed(dim.extent)
        source *= size
        result *= extent
        if not contiguous:
            continue
        run *= size if dim.stride == 1 else 1
        pitch *= extent if dim.covers else _assumed(dim.stride)
        contiguous = dim.covers
    strides = [dim.stride for dim in dims if not dim.covers]
    shifted = sum(isinstance(stride, int) and is_power_of_two(stride) for stride in strides)
    return Traffic(
        result_bytes=result,
        source_bytes=source,
        run_bytes=run,
        pitch_bytes=max(run, pitch),
        shifted_dims=shifted,
        divided_dims=len(strides) - shifted,
        filled=hole_of(view) is not None,
        stored_by_producer=stored_by_producer,
    )


def _assumed(size: Size) -> int:
    return size if isinstance(size, int) else ASSUMED_SIZE


def _element_bytes(view: SliceView) -> int:
    element_type = cast("TensorType[Attribute]", view.result.type).get_element_type()
    if isinstance(element_type, CompileTimeFixedBitwidthType):
        return element_type.compile_time_size
    return _INDEX_BYTES


def copy_us(costs: MachineCosts, traffic: Traffic) -> float:
    """A fill, if there is a scalar to fill with, and a strided copy of the source.

    Where the source's producer can store through the scatter, holes included, all that is
    left is the bytes of the holes, and no launch.
    """
    if traffic.stored_by_producer:
        holes = max(0, traffic.result_bytes - traffic.source_bytes)
        return holes / costs.copy_bytes_per_us if traffic.filled else 0.0
    bytes_moved = traffic.source_bytes + _written_bytes(costs, traffic)
    vectors = traffic.source_bytes / _vector(costs, traffic)
    copy = max(bytes_moved / costs.copy_bytes_per_us, vectors * costs.store_us)
    if not traffic.filled:
        return costs.launch_us + copy
    return 2 * costs.launch_us + traffic.result_bytes / costs.fill_bytes_per_us + copy


def one_pass_us(costs: MachineCosts, traffic: Traffic) -> float:
    """One kernel over the result that computes which element lands where."""
    bytes_moved = traffic.source_bytes + traffic.result_bytes
    if not traffic.filled:
        bytes_moved += traffic.result_bytes
    vectors = traffic.result_bytes / _vector(costs, traffic)
    per_vector = traffic.shifted_dims * costs.shift_us + traffic.divided_dims * costs.division_us
    arithmetic = vectors * per_vector
    return costs.launch_us + max(bytes_moved / costs.copy_bytes_per_us, arithmetic)


def _vector(costs: MachineCosts, traffic: Traffic) -> float:
    return min(costs.vector_bytes, traffic.run_bytes)


def _written_bytes(costs: MachineCosts, traffic: Traffic) -> float:
    """Bytes of memory traffic of the strided store."""
    if traffic.run_bytes >= costs.sector_bytes:
        return traffic.source_bytes
    runs = traffic.source_bytes / traffic.run_bytes
    return runs * min(costs.sector_bytes, traffic.pitch_bytes) * costs.partial_sector_factor
