"""`decompose-strided-dgrad`: a strided backward data convolution is several dense ones.

    rewrite: %s = insert_slice %x into zeros [o] [n] [s]       %p  = pad %x with zeros
             %c = contraction(%s, %w) windows of K taps   -->  for each phase a of s:
             %r = elementwise(%c)                                %ca = contraction(slice of %p,
                                                                         slice of %w: its taps)
                                                                 %ra = elementwise(%ca)
                                                                 %y  = insert_slice %ra into %y
                                                                         [a] [.] [s]

Between the elements of the scattered source are zeros. Outputs that are congruent modulo the
stride, one phase, meet elements with the same taps, evenly spaced in the filter; over the source
they are a dense contraction with that subset of the taps (`convir.analysis.scatter.phases`).
Several scattered dimensions multiply. A phase without taps is not computed: it holds what the init
held, after the elementwise ops that follow. No product meets a hole; padding is multiplied as
before.

Preconditions: the operand traces to an `insert_slice` into zeros, through slices and reshapes; the
reader is a contraction; a scattered dimension of static sizes is read through a window of several
taps, whose two loops index no other dimension of the operand, and whose tap indexes one dimension
of the filter alone. Holes count as zero: 0 · Inf is dropped.

Where the taps are whole strides, a pixel shuffle of one product
(`convir.passes.decompose_strided_dgrad.pixel_shuffle`) does the same, and stands for many phases of
few columns. A dimension that holds one element may have any stride: its outputs are one block.

It fires where `costs` says that this is cheaper than the scatter and a contraction that
multiplies its holes; with the option `force` always.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf, prod
from typing import TYPE_CHECKING

from xdsl.dialects.tensor import InsertSliceOp
from xdsl.passes import ModulePass

from convir.analysis.cost import size_in_bytes
from convir.analysis.refusal import NoMatch, Refusal
from convir.passes.builders.scattered_contraction import RewriteReaders, contraction_of
from convir.passes.builders.tensor_builder import element_type_of
from convir.passes.decompose_strided_dgrad.costs import (
    MAX_PHASES,
    Product,
    loads_singly,
    pass_us,
    products_us,
)
from convir.passes.decompose_strided_dgrad.match import read_scattered
from convir.passes.decompose_strided_dgrad.pixel_shuffle import PixelShuffle, plan_shuffle
from convir.passes.decompose_strided_dgrad.rewrite import Decomposition, plan_phases
from convir.passes.machine_costs import ASSUMED_SIZE
from convir.passes.manager.fixpoint import leaves_unchanged
from convir.passes.manager.option_checks import costs_of

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from convir.analysis.scatter.phases import Phase
    from convir.analysis.scatter.scattered_tensor import Scatter
    from convir.passes.decompose_strided_dgrad.match import ScatteredOperand
    from convir.passes.machine_costs import MachineCosts


def plan_decomposition(
    op: Operation, position: int, scatter: Scatter, *, costs: MachineCosts, force: bool
) -> Decomposition | PixelShuffle | Refusal:
    """Decide how the contraction `op` skips the holes of its input number `position`.

    Args:
        op: what reads the scatter.
        position: 0 or 1, the scattered input.
        scatter: that input.
        costs: the rates that decide.
        force: whether it is rewritten even if the scatter is cheaper.
    """
    if scatter.strided:
        return _plan(op, position, scatter, costs=costs, force=force)
    single = any(placement.size == 1 and not placement.covers for placement in scatter.placements)
    if not single or not isinstance(scatter.op, InsertSliceOp):
        return NoMatch()
    plan = _plan(op, position, scatter, costs=costs, force=False)
    return plan if isinstance(plan, PixelShuffle) else NoMatch()


def _plan(
    op: Operation, position: int, scatter: Scatter, *, costs: MachineCosts, force: bool
) -> Decomposition | PixelShuffle | Refusal:
    dims = contraction_of(op, scatter)
    if isinstance(dims, Refusal):
        return dims
    operand = read_scattered(dims, position, scatter)
    if isinstance(operand, Refusal):
        return Refusal(f"in {op.name}, which reads it, {operand}")
    count = sum(all(phase.taps for phase in phases) for phases in operand.combinations)
    shuffled = plan_shuffle(operand)
    shuffle_us = inf if isinstance(shuffled, Refusal) else _shuffle_us(shuffled, costs)
    singly = loads_singly(costs, _product(operand), element_type_of(operand.operand.value))
    if not singly and count <= MAX_PHASES and isinstance(shuffled, PixelShuffle):
        # A phase of several taps is a convolution that has kernels of its own (few channels,
        # depthwise), whose rates the costs do not know.
        shuffle_us = inf if shuffled.overlapping else shuffle_us
    phases_us = _phases_us(operand, costs) if force or count <= MAX_PHASES else inf
    holes_us = inf if force else _holes_us(operand, costs)
    if not isinstance(shuffled, Refusal) and shuffle_us < min(phases_us, holes_us):
        return shuffled
    if phases_us < holes_us:
        return plan_phases(operand)
    if phases_us == shuffle_us == inf:
        return Refusal(f"it has {count} phases, more than {MAX_PHASES}, and {shuffled}")
    least = min(phases_us, shuffle_us)
    return Refusal(
        f"its {count} phases take {least:.1f} us, the scatter and its holes {holes_us:.1f} us"
    )


def _phases_us(operand: ScatteredOperand, costs: MachineCosts) -> float:
    computed = (phases for phases in operand.combinations if all(phase.taps for phase in phases))
    products = [_product(operand, phases) for phases in computed]
    return products_us(costs, products, element_type_of(operand.operand.value))


def _shuffle_us(plan: PixelShuffle, costs: MachineCosts) -> float:
    """One product, and a pass that reads and writes its result."""
    operand, whole = plan.operand, _product(plan.operand)
    results = [split.window.outputs for split in operand.split]
    blocks = prod(block.count for block in plan.blocks)
    taps = prod(split.window.taps for split in operand.split)
    left = prod(block.taps for block in plan.blocks)
    wide = Product(
        whole.rows // prod(results) * blocks,
        whole.columns * plan.places,
        whole.depth // taps * left,
        whole.groups,
        whole.channels,
    )
    moved = 2 * size_in_bytes(operand.dims.out.value.type, ASSUMED_SIZE)
    element_type = element_type_of(operand.operand.value)
    return products_us(costs, [wide], element_type) + pass_us(costs, moved)


def _holes_us(operand: ScatteredOperand, costs: MachineCosts) -> float:
    """A pass that writes the scattered source, and the product with its holes."""
    written = size_in_bytes(operand.operand.value.type, ASSUMED_SIZE)
    element_type = element_type_of(operand.operand.value)
    return pass_us(costs, written) + products_us(costs, [_product(operand)], element_type)


def _product(operand: ScatteredOperand, phases: tuple[Phase, ...] = ()) -> Product:
    """The contraction of one phase as a matrix product, or the whole one with its holes."""
    dims = operand.dims
    bounds = [ASSUMED_SIZE if bound is None else bound for bound in dims.bounds]
    for split, phase in zip(operand.split, phases, strict=False):
        bounds[split.output] = phase.count
        if split.tap is not None:
            bounds[split.tap.loop] = phase.taps
    rows, columns = (prod(bounds[loop] for loop in loops) for loops in (dims.m, dims.n))
    if operand.position == 1:
        rows, columns = columns, rows
    depth, groups = (prod(bounds[loop] for loop in loops) for loops in (dims.k, dims.batch))
    together = {index.bare for index in operand.operand.index}
    channels = prod(bounds[loop] for loop in dims.k if loop in together)
    return Product(rows, columns, depth, groups, channels)


@dataclass(frozen=True)
class DecomposeStridedDgradPass(ModulePass):
    """Computes strided backward data convolutions phase by phase, without their holes."""

    name = "decompose-strided-dgrad"

    force: bool = False
    """Whatever it costs."""
    costs: str = ""
    """Those of the machine, as `MachineCosts` prints."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module.

        Raises:
            PassFailedException: `costs` are none.
        """
        plan = partial(plan_decomposition, costs=costs_of(self.costs), force=self.force)
        if not RewriteReaders(self.name, plan).rewrite_module(op):
            leaves_unchanged(op)
