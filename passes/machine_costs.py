"""What a machine takes for what passes weigh against each other; a pipeline gives its own.

Passes know no device: whoever runs them for one says its rates (`lowering/tensor_passes.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
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
        names = [each.name for each in fields(MachineCosts)]
        if sorted(values) != sorted(names) or not all(value > 0 for value in values.values()):
            raise ValueError(f"costs are positive numbers: {', '.join(names)}")
        return MachineCosts(*(float(values[name]) for name in names))


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
)
"""What is assumed where no device is known: a GPU with matrix units and fast memory."""
