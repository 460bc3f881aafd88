"""One structured op with its operands: a loop nest, and how its body is run on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr
from xdsl.traits import IsTerminator

from convir.reference.dtypes import Array, convert
from convir.reference.errors import EvaluationError
from convir.reference.interpreter import Frame
from convir.reference.loops import LoopRange, loop_bounds, loop_view

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xdsl.ir import Block, BlockArgument, Operation, SSAValue
    from xdsl.ir.affine import AffineMap

REDUCTION = "reduction"


@dataclass(frozen=True)
class Nest:
    """The loops of `op`: inputs and inits with a map each, and a body with an argument for each."""

    op: Operation
    inputs: tuple[Array, ...]
    inits: tuple[Array, ...]
    maps: tuple[AffineMap, ...]
    """Those of the inputs, then those of the inits."""
    iterators: tuple[str, ...]
    body: Block
    frame: Frame
    """Where the op stands: what its body captures."""
    bounds: tuple[int, ...]

    @staticmethod
    def of(
        op: Operation,
        operands: Sequence[Array],
        num_inputs: int,
        maps: Sequence[AffineMap],
        iterators: Sequence[str],
        body: Block,
        frame: Frame,
    ) -> Nest:
        """The nest of `op`, its loop bounds read off the shapes of the operands.

        Raises:
            EvaluationError: the operands disagree on a bound, or none gives it.
        """
        arrays = tuple(np.asarray(array) for array in operands)
        bounds = loop_bounds(op, maps, [array.shape for array in arrays], len(iterators))
        return Nest(
            op=op,
            inputs=arrays[:num_inputs],
            inits=arrays[num_inputs:],
            maps=tuple(maps),
            iterators=tuple(iterators),
            body=body,
            frame=frame,
            bounds=bounds,
        )

    @property
    def loops(self) -> LoopRange:
        """The whole iteration space."""
        return LoopRange.full(self.bounds)

    @property
    def reduction_loops(self) -> tuple[int, ...]:
        """The loops that are not parallel, in order."""
        return tuple(i for i, kind in enumerate(self.iterators) if kind == REDUCTION)

    @property
    def input_arguments(self) -> tuple[BlockArgument, ...]:
        """The body's arguments that stand for elements of the inputs."""
        return tuple(self.body.args[: len(self.inputs)])

    @property
    def init_arguments(self) -> tuple[BlockArgument, ...]:
        """The body's arguments that stand for elements of the inits."""
        return tuple(self.body.args[len(self.inputs) :])

    @property
    def yielded(self) -> tuple[SSAValue, ...]:
        """What the body yields, one value per init."""
        terminator = self.body.last_op
        if terminator is None or not terminator.has_trait(IsTerminator):
            raise EvaluationError(self.op, "has a body that yields nothing")
        return tuple(terminator.operands)

    def input_views(self) -> tuple[Array, ...]:
        """The inputs as arrays over the loops."""
        maps = self.maps[: len(self.inputs)]
        return tuple(
            loop_view(self.op, array, indexing_map, self.bounds)
            for array, indexing_map in zip(self.inputs, maps, strict=True)
        )

    def init_maps(self) -> tuple[AffineMap, ...]:
        """The indexing maps of the inits and results."""
        return self.maps[len(self.inputs) :]

    def writable(self, results: Sequence[Array]) -> tuple[Array, ...]:
        """`results`, shaped as the inits, as arrays over the loops that can be written."""
        return tuple(
            loop_view(self.op, array, indexing_map, self.bounds, writeable=True)
            for array, indexing_map in zip(results, self.init_maps(), strict=True)
        )

    def sequential_loops(self) -> tuple[int, ...]:
        """The loops that must be run one by one: any two other iterations write different elements.

        Those are the loops that no result is indexed by, and all but one loop of a sum.
        """
        parallel: set[int] = set(range(len(self.bounds)))
        for indexing_map in self.init_maps():
            alone: set[int] = set()
            for expr in indexing_map.results:
                used = sorted(expr.used_dims())
                if isinstance(expr, AffineDimExpr | AffineConstantExpr) or len(used) == 1:
                    alone.update(used)
                else:
                    alone.update(used[:1])
                    parallel.difference_update(used[1:])
            parallel &= alone
        return tuple(
            loop
            for loop, bound in enumerate(self.bounds)
            if bound > 1 and (loop not in parallel or self.iterators[loop] == REDUCTION)
        )

    @property
    def is_reduction(self) -> bool:
        """Whether the parallel loops, and they alone, tell the elements of the results apart."""
        reduced = set(self.reduction_loops)
        indexing = {d for m in self.init_maps() for expr in m.results for d in expr.used_dims()}
        return set(self.sequential_loops()) <= reduced and not indexing & reduced

    def run_body(
        self,
        loops: LoopRange,
        arguments: Sequence[Array],
        wanted: Sequence[SSAValue],
        skipped: Collection[Operation] = (),
    ) -> tuple[Array, ...]:
        """Run the body over `loops` on one array per argument; the values of `wanted`.

        The ops in `skipped` are left out, as nothing in `wanted` needs them.
        """
        values: dict[SSAValue, Array] = dict(zip(self.body.args, arguments, strict=True))
        frame = Frame(self.frame.interpreter, values, loops, self.frame)
        for op in self.body.ops:
            if op not in skipped and not op.has_trait(IsTerminator):
                frame.interpreter.run_op(op, frame)
        return tuple(frame.get(self.op, value) for value in wanted)

    def result_arrays(self) -> tuple[Array, ...]:
        """A fresh array for each result, holding its init."""
        return tuple(np.array(init, order="C") for init in self.inits)

    def store(self, targets: Sequence[Array], loops: LoopRange, values: Sequence[Array]) -> None:
        """Write `values` over `loops` into writable views of the results."""
        if len(targets) > 1:
            values = [np.array(value) for value in values]  # one may be a view of another's target
        for target, value in zip(targets, values, strict=True):
            loops.of(target)[...] = convert(np.asarray(value), target.dtype)
