"""What a strided backward data convolution costs: as phases, shuffled, and over the scatter.

All are one launch of a contraction. Each phase costs the tables and the partly filled tiles of one
more small matrix product. A pixel shuffle is one product, and a pass over its result. The scatter
is a pass as well, and its contraction multiplies the holes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import Float32Type, Float64Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute

MAX_PHASES: Final = 64
"""Stride 8 in two dimensions, 4 in three. Every phase is several ops of IR, and code or tables in
the kernel; libraries that took 196 phases at stride 14 spent their time between them."""


ASSUMED_SIZE: Final = 32
"""What a dynamic size counts for."""


@dataclass(frozen=True)
class Product:
    """One matrix product: rows times depth by depth times columns, `groups` times."""

    rows: int
    columns: int
    depth: int
    groups: int = 1


@dataclass(frozen=True)
class PhaseCosts:
    """Rates of a machine; times are in µs. Only the ratios of these numbers decide."""

    launch_us: float = 2.5
    """One kernel launch in a stream, as `ScatterCosts` has it."""
    phase_us: float = 0.2
    """One more phase in a launch that computes them all: its tables and its last, ragged wave."""
    flops_per_us: float = 4.0e8
    """Multiplications and additions of 16-bit and 8-bit elements in matrix units."""
    wide_flops_per_us: float = 4.5e7
    """Those of f32 and f64 elements, outside of matrix units."""
    bytes_per_us: float = 3.8e6
    """Bytes read and written together."""
    row_tile: int = 16
    """Rows are computed this many at a time."""
    column_tile: int = 8
    """Columns likewise."""

    def products_us(self, products: Sequence[Product], element_type: Attribute) -> float:
        """The arithmetic of products in one launch, and what their number costs."""
        wide = isinstance(element_type, Float32Type | Float64Type)
        rate = self.wide_flops_per_us if wide else self.flops_per_us
        flops = sum(self._tiled_flops(product) for product in products)
        return self.launch_us + (len(products) - 1) * self.phase_us + flops / rate

    def pass_us(self, moved_bytes: int) -> float:
        """A kernel that only moves elements: a scatter, or a shuffle."""
        return self.launch_us + moved_bytes / self.bytes_per_us

    def _tiled_flops(self, product: Product) -> int:
        rows = -(-product.rows // self.row_tile) * self.row_tile
        columns = -(-product.columns // self.column_tile) * self.column_tile
        return 2 * rows * columns * product.depth * product.groups


DEFAULT_COSTS = PhaseCosts()
"""An NVIDIA H200."""
