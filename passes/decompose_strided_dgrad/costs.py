"""What a strided backward data convolution costs: as phases, shuffled, and over the scatter.

All are one launch of a contraction. Each phase costs the tables and the partly filled tiles of one
more small matrix product. A pixel shuffle is one product, and a pass over its result. The scatter
is a pass as well, and its contraction multiplies the holes. Where channels are not whole vectors,
elements are loaded one by one, once for each tile of columns: many phases of few columns load most.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import Float32Type, Float64Type

from convir.analysis.cost import element_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute

    from convir.passes.machine_costs import MachineCosts

LOAD_TILE: Final = 128
"""Rows and columns of a product that one load of an operand serves."""

FEW_CHANNELS: Final = 16
"""Depths of at most so many channels have kernels of their own, as depthwise convolutions have."""

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
    channels: int = 0
    """Elements of the depth that lie together in the operands; 0 if all of them."""


def products_us(costs: MachineCosts, products: Sequence[Product], element_type: Attribute) -> float:
    """The arithmetic of products in one launch, and what their number costs."""
    rate = costs.wide_flops_per_us if _is_wide(element_type) else costs.matrix_flops_per_us
    busy = sum(
        max(_tiled_flops(costs, each) / rate, _single_loads_us(costs, each, element_type))
        for each in products
    )
    return costs.launch_us + (len(products) - 1) * costs.phase_us + busy


def loads_singly(costs: MachineCosts, product: Product, element_type: Attribute) -> bool:
    """Whether a product loads its operands element by element: its channels are no whole vectors,
    and no kernel of few channels computes it. The arithmetic of f32 and f64 hides such loads."""
    slower = costs.single_loads_per_us < inf and product.groups == 1 and not _is_wide(element_type)
    ragged = product.channels * element_bytes(element_type) % costs.vector_bytes != 0
    return slower and ragged and product.channels > FEW_CHANNELS


def pass_us(costs: MachineCosts, moved_bytes: int) -> float:
    """A kernel that only moves elements: a scatter, or a shuffle."""
    return costs.launch_us + moved_bytes / costs.copy_bytes_per_us


def _is_wide(element_type: Attribute) -> bool:
    return isinstance(element_type, Float32Type | Float64Type)


def _single_loads_us(costs: MachineCosts, product: Product, element_type: Attribute) -> float:
    if not loads_singly(costs, product, element_type):
        return 0.0
    row_tiles, column_tiles = ceil(product.rows / LOAD_TILE), ceil(product.columns / LOAD_TILE)
    loads = product.depth * (product.rows * column_tiles + product.columns * row_tiles)
    return loads / costs.single_loads_per_us


def _tiled_flops(costs: MachineCosts, product: Product) -> float:
    rows = ceil(product.rows / costs.row_tile) * costs.row_tile
    columns = ceil(product.columns / costs.column_tile) * costs.column_tile
    return 2 * rows * columns * product.depth * product.groups
