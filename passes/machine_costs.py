"""The costs of a machine that passes compare alternatives by.

A pass depends on no device: the pipeline gives the pass the costs of the device that it compiles
for (`lowering/tensor_passes.py`).
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class MachineCosts:
    """Rates of a machine; prints as `launch_us=2.5,phase_us=0.2,…`, which `parse` reads.

    Only the ratios of these numbers decide.
    """

    launch_us: float
    """One more kernel launch, with its ramp up and ramp down."""
    phase_us: float
    """One more phase in a launch that computes all phases: tables, and a last partial wave."""
    matrix_flops_per_us: float
    """Rate of multiplications and additions in a matrix product of 16-bit or 8-bit elements."""
    wide_flops_per_us: float
    """The same rate for f32 and f64 elements."""
    fill_bytes_per_us: float
    """Rate of a memset."""
    copy_bytes_per_us: float
    """Rate of a kernel that reads and writes whole sectors; counts bytes read and written."""
    row_tile: float
    """Rows of a matrix product's tile: a product computes multiples of these."""
    column_tile: float
    """Columns of the same tile."""
    sector_bytes: float
    """The unit of memory traffic; a store to a part of a sector reads and writes the sector."""
    partial_sector_factor: float
    """Traffic of a sector that is partly written, in sectors."""
    vector_bytes: float
    """Bytes of one thread's load or store, if that many are contiguous and aligned."""
    store_us: float
    """Issue time of a strided store of one vector, over the whole machine; whatever its bytes."""
    shift_us: float
    """The index arithmetic of one vector in a dimension whose stride is a power of two."""
    division_us: float
    """The index arithmetic of one vector in a dimension with any other stride: a division."""
    cache_bytes: float
    """Bytes of an op's result that caches still hold when the next op reads the result."""
    single_loads_per_us: float = inf
    """Rate at which a matrix product loads elements of an operand one by one, where its channels
    are not whole vectors; inf if that is no slower than vectors."""
    reads_images: float = 0.0
    """1 if products read the image itself; 0 if the im2col matrix is written to memory first."""
    in_place_rows: float = inf
    """A product with at most this many rows reads a cached matrix in place. A product with more
    rows packs the matrix into panels. inf if no product packs."""
    lanes: float = 1.0
    """Elements of a vector; rows that are read in place are whole vectors."""
    lanes_per_idle: float = 1.0
    """Products take the shared operand as their rows if at most one lane in this many is idle."""

    @property
    def packs(self) -> bool:
        """Whether products pack operands into panels."""
        return self.in_place_rows < inf

    def __str__(self) -> str:
        return ",".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))

    @staticmethod
    def parse(text: str) -> MachineCosts:
        """The costs that print as `text`.

        Raises:
            ValueError: `text` does not print any costs.
        """
        pairs = [part.partition("=") for part in text.split(",")]
        return MachineCosts.of({name: float(value) for name, _, value in pairs})

    @staticmethod
    def of(values: Mapping[str, float]) -> MachineCosts:
        """The costs with these values.

        Raises:
            ValueError: a value is missing, has an unknown name, or is not positive.
        """
        known = {each.name: each for each in fields(MachineCosts)}
        needed = {name for name, each in known.items() if each.default is MISSING}
        positive = all(value > 0 or known[name].default == value for name, value in values.items())
        if not needed <= values.keys() <= known.keys() or not positive:
            raise ValueError(f"costs are positive numbers: {', '.join(known)}")
        return MachineCosts(**{name: float(value) for name, value in values.items()})


ASSUMED: Final = MachineCosts(
    launch_us=2.5,
    phase_us=0.2,
    matrix_flops_per_us=4.0e8,
    wide_flops_per_us=4.5e7,
    fill_bytes_per_us=4.3e6,
    copy_bytes_per_us=3.8e6,
    row_tile=16,
    column_tile=8,
    sector_bytes=32,
    partial_sector_factor=3.0,
    vector_bytes=16,
    store_us=3.1e-6,
    shift_us=0.36e-6,
    division_us=0.77e-6,
    cache_bytes=512 << 10,
    reads_images=1,
    in_place_rows=64,
    lanes=16,
    lanes_per_idle=12,
)
"""The costs that passes assume if no device is known.

Rates are those of a GPU with matrix units and fast memory. Products read images in place; their
caches and vectors are those of one CPU core."""

ASSUMED_SIZE: Final = 32
"""The size that costs assume for a dynamic dimension."""
