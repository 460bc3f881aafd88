"""`fold-constants`: what is computed from constants alone is computed once, here.

    rewrite: %s = conv.constant #conv.blob<…>; %f = flip(%w); %g = generic(%f, %s)
             --> %g = conv.constant dense<…>

Filter flips, repacks of weights, the scales of a folded batch normalisation. The NumPy reference
computes them, so every rounding of the IR is kept. Only what something else reads is stored, as
the furthest value of its chain; reshapes and slices stay ops, which cost nothing at run time.

Preconditions: the op is pure, all that it reads is a constant with elements (no uninitialised
tensor alone), and its result is no larger than `max-bytes` and than GROWTH times the constants it
is computed from: a table that a short formula gives is not worth its memory. A value that is the
same everywhere stays a fill.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    FixedBitwidthType,
    TensorType,
)
from xdsl.ir.affine import AffineDimExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from convir.analysis.dependence import operands_of
from convir.analysis.effects import Effects
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.analysis.values.zeros import constant_fill_of
from convir.dialects.compat.parsing.literals import dense_from_bytes
from convir.dialects.conv.constant import ConstantOp
from convir.dialects.diagnostics import DiagnosticError
from convir.passes.manager import remarks
from convir.passes.manager.fixpoint import leaves_unchanged
from convir.passes.manager.quantities import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import IntegerType, ModuleOp
    from xdsl.ir import Attribute, Block, Operation, SSAValue


GROWTH = 2
"""How many times the bytes that it is computed from a stored result may take."""
SMALL_BYTES = 4096
"""Results of so many bytes are stored whatever they are computed from."""
MAX_BYTES = 1 << 28

_NO_SOURCES: Final[frozenset[Operation]] = frozenset()

MAX_SOURCES = 64
"""So many of the constants that a result is computed from are told apart, the largest ones."""

_CHEAP = frozenset(
    {
        *("arith.constant", "conv.constant", "linalg.fill", "tensor.empty", "tensor.splat"),
        *("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice"),
    }
)
"""Ops that cost nothing at run time, or less than reading their result from memory would. A slice
is how its reader addresses the constant: the phases of a backward convolution share one filter."""


def bytes_of(value: SSAValue) -> int | None:
    """The bytes of a static tensor; None for anything else."""
    value_type: object = value.type
    if not isinstance(value_type, TensorType):
        return None
    tensor_type = cast("TensorType[Attribute]", value_type)
    element: object = tensor_type.element_type
    if not tensor_type.has_static_shape() or not isinstance(element, FixedBitwidthType):
        return None
    return prod(tensor_type.get_shape()) * element.size


def _is_any(_: Operation) -> bool:
    return True


def _is_arithmetic(op: Operation) -> bool:
    """Whether `op` costs nothing, or computes elements of one place each."""
    if op.name in _CHEAP:
        return True
    view = structured(op)
    if view is None or set(view.iterators) != {"parallel"}:
        return False
    if not all(isinstance(each, AffineDimExpr) for one in view.maps for each in one.results):
        return False
    *inside, _ = view.body.ops
    return bool(inside) and all(one.name.startswith(("arith.", "math.")) for one in inside)


class _Constants:
    """What a block computes from constants alone."""

    def __init__(self, block: Block, may_know: Callable[[Operation], bool]) -> None:
        effects = Effects()
        self.ops = list(block.ops)
        self.position = {op: number for number, op in enumerate(self.ops)}
        self.known: set[Operation] = set()
        self._sources: dict[Operation, frozenset[Operation]] = {}
        for op in self.ops:
            if op.has_trait(IsTerminator) or not op.results or not effects.is_pure(op):
                continue
            if not may_know(op):
                continue
            if all(value.owner in self.known for value in operands_of(op)):
                self.known.add(op)
        self._needed: set[Operation] = set()
        for op in reversed(self.ops):
            if op in self.known and any(map(self._must_run, self._readers(op))):
                self._needed.add(op)

    @property
    def to_store(self) -> list[Operation]:
        """The ops whose results are worth an array, and are read by anything that must run."""
        return [op for op in self.ops if op in self._needed and op.name not in _CHEAP]

    def _readers(self, op: Operation) -> Iterator[Operation]:
        """The ops of the block that read a result of `op`, or that hold one which does."""
        for result in op.results:
            for use in result.uses:
                reader = use.operation
                while reader not in self.position:
                    reader = cast("Operation", reader.parent_op())
                yield reader

    def _must_run(self, reader: Operation) -> bool:
        return reader not in self.known or (reader.name in _CHEAP and reader in self._needed)

    def store(self, op: Operation) -> None:
        """Let `op` be a constant for what is computed from it."""
        self._sources[op] = frozenset((op,))

    def bytes_read(self, op: Operation) -> int:
        """The bytes of the constants that `op` is computed from, which every op before it has
        been asked for; at least those of the largest MAX_SOURCES, where there are more."""
        self._sources[op] = found = self._sources_of(op)
        return sum(bytes_of(source.results[0]) or 0 for source in found)

    def _sources_of(self, op: Operation) -> frozenset[Operation]:
        if isinstance(op, ConstantOp | arith.ConstantOp):
            uniform = constant_fill_of(op.results[0]) is not None
            return frozenset() if uniform else frozenset((op,))
        owners = (cast("Operation", value.owner) for value in operands_of(op))
        found = _NO_SOURCES.union(*(self._sources[owner] for owner in owners))
        if len(found) <= MAX_SOURCES:
            return found
        return frozenset(
            nlargest(
                MAX_SOURCES,
                found,
                key=lambda source: (bytes_of(source.results[0]) or 0, -self.position[source]),
            )
        )

    def computing(self, op: Operation, computed: Container[Operation]) -> list[Operation]:
        """The ops that `op` is computed by, and it, in order, without those in `computed`."""
        found = {op}
        pending = [op]
        while pending:
            for value in operands_of(pending.pop()):
                owner = cast("Operation", value.owner)
                if owner not in found and owner not in computed:
                    found.add(owner)
                    pending.append(owner)
        return sorted(found, key=self.position.__getitem__)


def refusal_of(op: Operation, read: int, max_bytes: int) -> Refusal | None:
    """Why the result of `op`, computed from `read` bytes, is not stored; None if it is."""
    size = bytes_of(op.results[0])
    if len(op.results) != 1 or size is None:
        return Refusal("its result is not one static tensor of numbers")
    if constant_fill_of(op.results[0]) is not None:
        return Refusal("its result is one value, which is cheaper to fill in")
    if size > max_bytes:
        return Refusal(f"its result takes {bytes_text(size)}, more than {bytes_text(max_bytes)}")
    if size > max(GROWTH * read, SMALL_BYTES):
        takes, source = bytes_text(size), bytes_text(read)
        return Refusal(f"its result takes {takes}, computed from {source} of constants")
    return None


def stored(array: Any, op: Operation) -> ConstantOp:
    """A constant op that holds the elements of `array`, the result of `op`."""
    tensor_type = cast("TensorType[IntegerType]", op.results[0].type)
    constant = ConstantOp(dense_from_bytes(array.tobytes(), tensor_type), tensor_type)
    constant.location = op.location
    constant.result.name_hint = op.results[0].name_hint
    return constant


def _fold(block: Block, max_bytes: int, only_arithmetic: bool) -> bool:
    """Fold what `block` computes from constants; returns whether anything changed."""
    constants = _Constants(block, _is_arithmetic if only_arithmetic else _is_any)
    wanted = set(constants.to_store)
    refusals: dict[Operation, Refusal] = {}
    for op in constants.ops:
        if op not in constants.known:
            continue
        read = constants.bytes_read(op)
        if op not in wanted:
            continue
        refusal = refusal_of(op, read, max_bytes)
        if refusal is None:
            constants.store(op)
        else:
            refusals[op] = refusal
    computed: dict[Operation, None] = {}
    counts: dict[Operation, int] = {}
    for op in constants.to_store:
        if op not in refusals:
            new = constants.computing(op, computed)
            counts[op] = sum(source.name not in _CHEAP for source in new)
            computed |= dict.fromkeys(new)
    arrays = _evaluated(list(computed), counts)
    changed = False
    for op in constants.to_store:
        array = refusals.get(op) or arrays.pop(op)
        if isinstance(array, Refusal):
            remarks.refused(FoldConstantsPass.name, op, array.reason)
            continue
        constant = stored(array, op)
        stores = bytes_text(array.nbytes)
        remarks.fired(
            FoldConstantsPass.name, op, f"{stores} instead of {counts[op]} ops at every run"
        )
        Rewriter.insert_op(constant, InsertPoint.before(op))
        op.results[0].replace_all_uses_with(constant.result)
        changed = True
    for op in reversed(constants.ops):
        if op in constants.known and all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)
            changed = True
    return changed


def _evaluated(ops: Sequence[Operation], wanted: Container[Operation]) -> dict[Operation, Any]:
    """The arrays that the ops in `wanted` give, or why there are none.

    `ops` read nothing but one another, in order.
    """
    if not ops:
        return {}
    from convir.reference import evaluate_ops  # noqa: PLC0415  (brings NumPy along)

    results = evaluate_ops(ops, [op.results[0] for op in ops if op in wanted])
    return {
        cast("Operation", value.owner): Refusal(found.diagnostics[0].message)
        if isinstance(found, DiagnosticError)
        else found
        for value, found in results.items()
    }


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Compute once what is computed from constants alone."""

    name = "fold-constants"

    max_bytes: int = MAX_BYTES
    """Larger results stay computed."""
    only_arithmetic: bool = False
    """Only results of elementwise arithmetic: what moves elements, such as the flip of a filter,
    stays an op for passes that see through it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block."""
        changed = False
        for function in list(op.walk()):
            if isinstance(function, func.FuncOp) and len(function.body.blocks) == 1:
                changed |= _fold(function.body.block, self.max_bytes, self.only_arithmetic)
        if not changed:
            leaves_unchanged(op)
