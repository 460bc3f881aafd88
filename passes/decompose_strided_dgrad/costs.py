"""What a strided backward data convolution costs: as phases, shuffled, and over the scatter.

All are one launch of a contraction. Each phase costs the tables and the partly filled tiles of one
more small matrix product. A pixel shuffle is one product, and a pass over its result. The scatter
is a pass as well, and its contraction multiplies the holes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import Float32Type, Float64Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute

    from convir.passes.machine_costs import MachineCosts

MAX_PHASES: Final = 64
"""Stride 8 in two dimensions, 4 in three. Every phase is several ops of IR, and code or tables in
the kernel; libraries that took 196 phases at stride 14 spent their time between them."""


@dataclass(frozen=True)
class Product:
    """One matrix product: rows times depth by depth times columns, `groups` times."""

    rows: int
    columns: int
    depth: int
    groups: int = 1


def products_us(costs: MachineCosts, products: Sequence[Product], element_type: Attribute) -> float:
    """The arithmetic of products in one launch, and what their number costs."""
    wide = isinstance(element_type, Float32Type | Float64Type)
    rate = costs.wide_flops_per_us if wide else costs.matrix_flops_per_us
    flops = sum(_tiled_flops(costs, product) for product in products)
    return costs.launch_us + (len(products) - 1) * costs.phase_us + flops / rate


def pass_us(costs: MachineCosts, moved_bytes: int) -> float:
    """A kernel that only moves elements: a scatter, or a shuffle."""
    return costs.launch_us + moved_bytes / costs.copy_bytes_per_us


def _tiled_flops(costs: MachineCosts, product: Product) -> float:
    rows = ceil(product.rows / costs.row_tile) * costs.row_tile
    columns = ceil(product.columns / costs.column_tile) * costs.column_tile
    return 2 * rows * columns * product.depth * product.groups
