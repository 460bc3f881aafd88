"""What a scatter costs as a fill and a strided copy, and what as one pass over its result.

The default numbers were measured on an NVIDIA H200 (sm_90a, HBM3e) with hand-written kernels of
both forms: 64-byte to 4096-byte runs and single elements, strides 2, 3 and 8, 0.5 to 830 MB. There
one pass takes 58 µs where memset and strided copy take 66 on 32x52x52x1024 f16, stride 2 in two
dimensions, and 186 µs where they take 37 on 4096x27x27x27 i8, stride 3 in three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import CompileTimeFixedBitwidthType

from convir.passes.scatter_body import is_power_of_two
from convir.passes.scatter_view import hole_of, scatter_dims

if TYPE_CHECKING:
    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute

    from convir.dialects.slices import Size, SliceView

_ASSUMED_SIZE: Final = 32
"""What a dynamic size counts for."""

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
    return size if isinstance(size, int) else _ASSUMED_SIZE


def _element_bytes(view: SliceView) -> int:
    element_type = cast("TensorType[Attribute]", view.result.type).get_element_type()
    if isinstance(element_type, CompileTimeFixedBitwidthType):
        return element_type.compile_time_size
    return _INDEX_BYTES


@dataclass(frozen=True)
class ScatterCosts:
    """Rates of a machine; times are in µs."""

    launch_us: float = 2.5
    """One kernel launch in a stream, and its ramp up and down."""
    fill_bytes_per_us: float = 4.3e6
    """A memset."""
    copy_bytes_per_us: float = 3.8e6
    """A kernel that reads and writes whole sectors, bytes read and written together."""
    sector_bytes: int = 32
    """The unit of memory traffic; a store of less reads and writes it all."""
    partial_sector_factor: float = 3.0
    """Traffic of a sector that is written in part, in sectors."""
    vector_bytes: int = 16
    """What one thread moves at a time where the run allows it."""
    store_us: float = 3.1e-6
    """A strided store of one vector, in issue slots, whatever the bytes."""
    shift_us: float = 0.36e-6
    """The index arithmetic of one vector in a dimension whose stride is a power of two."""
    division_us: float = 0.77e-6
    """The same with a division: three of them cost 2.3 ps an element, two 1.5."""

    def copy_us(self, traffic: Traffic) -> float:
        """A fill, if there is a scalar to fill with, and a strided copy of the source.

        Where the source's producer can store through the scatter, holes included, all that is
        left is the bytes of the holes, and no launch.
        """
        if traffic.stored_by_producer:
            holes = max(0, traffic.result_bytes - traffic.source_bytes)
            return holes / self.copy_bytes_per_us if traffic.filled else 0.0
        bytes_moved = traffic.source_bytes + self._written_bytes(traffic)
        vectors = traffic.source_bytes / self._vector(traffic)
        copy = max(bytes_moved / self.copy_bytes_per_us, vectors * self.store_us)
        if not traffic.filled:
            return self.launch_us + copy
        return 2 * self.launch_us + traffic.result_bytes / self.fill_bytes_per_us + copy

    def one_pass_us(self, traffic: Traffic) -> float:
        """One kernel over the result that computes which element lands where."""
        bytes_moved = traffic.source_bytes + traffic.result_bytes
        if not traffic.filled:
            bytes_moved += traffic.result_bytes
        vectors = traffic.result_bytes / self._vector(traffic)
        per_vector = traffic.shifted_dims * self.shift_us + traffic.divided_dims * self.division_us
        arithmetic = vectors * per_vector
        return self.launch_us + max(bytes_moved / self.copy_bytes_per_us, arithmetic)

    def _vector(self, traffic: Traffic) -> int:
        return min(self.vector_bytes, traffic.run_bytes)

    def _written_bytes(self, traffic: Traffic) -> float:
        """Bytes of memory traffic of the strided store."""
        if traffic.run_bytes >= self.sector_bytes:
            return traffic.source_bytes
        runs = traffic.source_bytes / traffic.run_bytes
        return runs * min(self.sector_bytes, traffic.pitch_bytes) * self.partial_sector_factor


DEFAULT_COSTS = ScatterCosts()
"""An NVIDIA H200."""
