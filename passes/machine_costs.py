"""What a machine takes for what passes weigh against each other; a pipeline gives its own.

Passes know no device: whoever runs them for one says its rates (`lowering/tensor_passes.py`).
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
    """One kernel launch after another, and its ramp up and down."""
    phase_us: float
    """One more phase in a launch that computes them all: its tables and its last, ragged wave."""
    matrix_flops_per_us: float
    """Multiplications and additions of 16-bit and 8-bit elements in a product."""
    wide_flops_per_us: float
    """Those of f32 and f64 elements."""
    fill_bytes_per_us: float
    """A memset."""
    copy_bytes_per_us: float
    """A kernel that reads and writes whole sectors, bytes read and written together."""
    row_tile: float
    """Rows of a product are computed this many at a time."""
    column_tile: float
    """Columns likewise."""
    sector_bytes: float
    """The unit of memory traffic; a store of less reads and writes it all."""
    partial_sector_factor: float
    """Traffic of a sector that is written in part, in sectors."""
    vector_bytes: float
    """What one thread moves at a time where the run allows it."""
    store_us: float
    """A strided store of one vector, in issue slots of the whole machine, whatever the bytes."""
    shift_us: float
    """The index arithmetic of one vector in a dimension whose stride is a power of two."""
    division_us: float
    """The same with a division."""
    cache_bytes: float
    """What caches still hold, when an op reads it, of what the op before wrote."""
    reads_images: float = 0.0
    """1 where products read an image in place of its matrix of im2col; 0 where that is written."""
    in_place_rows: float = inf
    """Products of at most so many rows read a matrix that a cache holds where it lies, and others
    pack it into panels; inf where none packs."""
    lanes: float = 1.0
    """Elements of a vector: what is read in place has whole ones."""
    lanes_per_idle: float = 1.0
    """One lane of so many may be empty for products to read what they share as their rows."""

    @property
    def packs(self) -> bool:
        """Whether products copy operands into panels."""
        return self.in_place_rows < inf

    def __str__(self) -> str:
        return ",".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))

    @staticmethod
    def parse(text: str) -> MachineCosts:
        """The costs that print as `text`.

        Raises:
            ValueError: none do.
        """
        pairs = [part.partition("=") for part in text.split(",")]
        return MachineCosts.of({name: float(value) for name, _, value in pairs})

    @staticmethod
    def of(values: Mapping[str, float]) -> MachineCosts:
        """The costs with these values.

        Raises:
            ValueError: one is missing, is none, or is not positive.
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
"""What is assumed where no device is known: a GPU's rates, with matrix units and fast memory, and
products by kernels that read images, on one core with its caches."""

ASSUMED_SIZE: Final = 32
"""What a dynamic size counts for."""
