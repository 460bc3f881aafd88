"""What the rewrites of a contraction that reads a scatter have in common.

They compute part of the result instead of all of it. The elementwise ops that follow run on that
part alone; what was not computed, the holes, holds what the init held, after those ops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from xdsl.dialects import arith, tensor
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import RewritePattern

from convir.analysis.contraction import contraction_dims
from convir.analysis.refusal import NoMatch, Refusal
from convir.analysis.scatter.elementwise import Elementwise, elementwise
from convir.analysis.scatter.scattered_tensor import LostScatter, scatter_of
from convir.analysis.slices import is_encoded, slice_view
from convir.analysis.structured import structured
from convir.analysis.values.zeros import is_zero
from convir.passes.builders.kinds import WalkerOfKinds, of_kinds
from convir.passes.builders.tensor_builder import TensorBuilder, element_counts, flattened
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.pattern_rewriter import PatternRewriter

    from convir.analysis.contraction import ContractionDims
    from convir.analysis.scatter.placement import Digits
    from convir.analysis.scatter.scattered_tensor import Scatter
    from convir.analysis.values.scalars import Constant


def contraction_of(op: Operation, scatter: Scatter) -> ContractionDims | Refusal:
    """The contraction `op`, which reads `scatter`, if it can be rebuilt on other shapes."""
    dims = contraction_dims(op)
    if isinstance(dims, Refusal):
        return Refusal(f"{op.name}, which reads it, is not a contraction: {dims}")
    if len(op.results) != 1:
        return Refusal(f"{op.name}, which reads it, writes to a buffer")
    if any(is_encoded(value) for user in (op, *scatter.path) for value in user.operands):
        return Refusal("a tensor has an encoding, which may not fit another shape")
    return dims


class Rewrite(Protocol):
    """A contraction of a scatter, and what takes its place, fully decided."""

    @property
    def reason(self) -> str:
        """What is gained, for a remark."""
        ...

    @property
    def replaced(self) -> Sequence[Operation]:
        """The contraction, and what follows it up to the op whose result is replaced."""
        ...

    def build(self, builder: TensorBuilder) -> SSAValue:
        """What takes the place of the last op's result, and has its type.

        Every new op stands where the op it replaces stood.
        """
        ...


def followers_of(
    op: Operation, result: tuple[Digits, ...], fill: SSAValue | Constant | None
) -> tuple[Elementwise, ...]:
    """The elementwise ops that alone use the result of `op`, as far as the holes stay one constant.

    Args:
        op: a contraction.
        result: the part of its result that is computed.
        fill: what its init holds everywhere; None if it is not uniform.
    """
    if fill is None or isinstance(fill, SSAValue):
        return ()
    followers: list[Elementwise] = []
    value, dims, hole = op.results[0], result, fill
    while True:
        use = value.get_user_of_unique_use()
        if use is None or use.parent is not op.parent:
            return tuple(followers)
        follower = elementwise(use, value, dims, hole)
        if isinstance(follower, Refusal):
            return tuple(followers)
        followers.append(follower)
        value, dims, hole = use.results[0], follower.result, follower.hole


def part_of_init(
    builder: TensorBuilder,
    init: SSAValue,
    fill: SSAValue | Constant | None,
    part: tuple[Digits, ...],
) -> SSAValue:
    """The init of the elements that are computed.

    Args:
        builder: where to put it.
        init: the init of all elements.
        fill: what it holds everywhere; None if it is not uniform.
        part: which elements are computed.
    """
    sizes = element_counts(part)
    if fill is None:
        value = builder.gather(init, part)
    elif isinstance(init.owner, arith.ConstantOp):
        value = builder.filled(fill, sizes)
    else:
        value = builder.fill(fill, sizes)
    value.name_hint = init.name_hint
    return value


def holes_of(
    builder: TensorBuilder,
    init: SSAValue,
    fill: SSAValue | Constant | None,
    followers: Sequence[Elementwise],
    result: tuple[Digits, ...],
) -> SSAValue:
    """The tensor that computed parts are inserted into, with one dimension per placement."""
    sizes = [placement.extent for placement in flattened(result)]
    if followers:
        holes = builder.constant(followers[-1].hole, sizes)
    elif fill is not None:
        holes = builder.filled(fill, sizes)
    else:
        holes = builder.reshape(init, sizes)
    holes.name_hint = holes.name_hint or "holes"
    return holes


# Ops that only make values, removed with their last use: stock xDSL does not know it of all.
_DISPOSABLE: Final = frozenset(
    {
        "arith.constant",
        "linalg.fill",
        "tensor.cast",
        "tensor.collapse_shape",
        "tensor.dim",
        "tensor.empty",
        "tensor.expand_shape",
        "tensor.extract_slice",
        "tensor.insert_slice",
        "tensor.pad",
        "tensor.splat",
    }
)


def erase_unused(rewriter: PatternRewriter, roots: list[Operation]) -> None:
    """Erase the ops in `roots` that have no uses left, and what only they used."""
    pending = list(reversed(roots))
    erased: set[Operation] = set()
    while pending:
        op = pending.pop()
        if op in erased or any(result.first_use is not None for result in op.results):
            continue
        if op not in roots and op.name not in _DISPOSABLE:
            continue
        owners = [operand.owner for operand in op.operands]
        rewriter.erase(op)
        erased.add(op)
        pending.extend(owner for owner in owners if isinstance(owner, Operation))


def is_strided(op: Operation) -> bool:
    """True if `op` inserts or extracts with gaps."""
    view = slice_view(op)
    return view is not None and view.strided


@dataclass(frozen=True)
class RewriteReaders(RewritePattern):
    """Rewrites each contraction that reads a scatter, where there is a plan."""

    pass_name: str
    """Whose remarks these are."""
    plan: Callable[[Operation, int, Scatter], Rewrite | Refusal]
    """What becomes of a contraction, the number of its input that is scattered, and that input."""
    decided: set[Operation] = field(default_factory=set[Operation])
    """The ops of every scatter that a contraction reads."""

    def rewrite_module(self, module: ModuleOp) -> bool:
        """Rewrite all of `module`; say of every scatter that is left why.

        Returns:
            Whether anything changed.
        """
        insertions = of_kinds(module.walk(), tensor.InsertSliceOp)
        scatters = [op for op in insertions if is_strided(op)]
        walker = WalkerOfKinds(self, kinds=(LinalgStructuredOperation,))
        changed = walker.rewrite_module(module)
        for op in scatters:
            if op.parent is None or op in self.decided:
                continue
            into_zeros = is_zero(op.dest)
            why = "no contraction reads it" if into_zeros else "it is not inserted into zeros"
            remarks.refused(self.pass_name, op, why)
        return changed

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite `op` if it reduces over a scatter."""
        view = structured(op)
        if view is None or all(iterator == "parallel" for iterator in view.iterators):
            return
        for position, value in enumerate(view.inputs):
            scatter = scatter_of(value)
            if isinstance(scatter, Refusal):
                self._report_lost(scatter)
                continue
            self.decided.update(scatter.path)
            plan = self.plan(op, position, scatter)
            if not isinstance(plan, Refusal):
                plan = self._carry_out(plan, scatter, rewriter)
            if plan is None:
                return
            if not isinstance(plan, NoMatch):
                remarks.refused(self.pass_name, scatter.op, plan.reason)

    def _report_lost(self, scatter: Refusal) -> None:
        """Say of a scatter that could not be followed to its reader why."""
        if isinstance(scatter, LostScatter):
            self.decided.update(scatter.path)
            remarks.refused(self.pass_name, scatter.op, scatter.reason)

    def _carry_out(
        self, plan: Rewrite, scatter: Scatter, rewriter: PatternRewriter
    ) -> Refusal | None:
        """Rewrite as `plan` says, and say so; why not, if it cannot be built."""
        builder = TensorBuilder(rewriter, plan.replaced[0])
        value = builder.drafted(lambda: plan.build(builder))
        if isinstance(value, Refusal):
            return value
        remarks.fired(self.pass_name, scatter.op, plan.reason)
        (result,) = plan.replaced[-1].results
        value.name_hint = result.name_hint
        rewriter.replace_all_uses_with(result, value)
        erase_unused(rewriter, [*reversed(plan.replaced), *reversed(scatter.path)])
        return None
