"""linalg structured operations on tensors: `generic`, `copy`, `transpose`, `fill` and their kind.

    rewrite:
      generic, copy or transpose that yields what it reads, where it reads it  -->  the operand
      transpose of (transpose %a)                       -->  transpose %a
      transpose of a splat, a fill, an empty, static    -->  the same in the new shape
      generic with an input that its body ignores, or with one twice   -->  without it
      any of them over a splat or a fill that it overwrites unread     -->  over an empty tensor

An init counts as overwritten only if its indexing map reaches every element and every loop outside
of the map runs at least once. An input goes only if other operands still give every loop its bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, TensorType, i32, i64
from xdsl.ir import BlockArgument, OpResult
from xdsl.ir.affine import AffineDimExpr
from xdsl.pattern_rewriter import RewritePattern

from convir.analysis.structured import structured
from convir.passes.canonicalize.patterns.uniform import SPLATS, reshaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xdsl.dialects.builtin import IntegerType
    from xdsl.ir import Attribute, Operation, SSAValue
    from xdsl.ir.affine import AffineMap
    from xdsl.pattern_rewriter import PatternRewriter

    from convir.analysis.structured import Structured


class FoldCopy(RewritePattern):
    """An operation that only hands elements on is the operand that they come from."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `linalg.generic`, `linalg.copy` and `linalg.transpose`."""
        body = op.regions[0].first_block
        if body is None or body.last_op is None or body.first_op is not body.last_op:
            return
        view = structured(op)
        if view is None or len(op.results) != len(view.inits):
            return
        sources = [_source(view, k, value) for k, value in enumerate(body.last_op.operands)]
        known = [source for source in sources if source is not None]
        if known and len(known) == len(sources):
            rewriter.replace(op, (), known)


class ComposeTransposes(RewritePattern):
    """Two transposes are one."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `linalg.transpose`."""
        source = op.operands[0]
        if not op.results or not isinstance(source, OpResult) or source.op.name != op.name:
            return
        inner, outer = _permutation(source.op), _permutation(op)
        composed = DenseArrayBase.from_list(i64, [inner[dim] for dim in outer])
        rewriter.replace(
            op,
            type(op).create(
                operands=(source.op.operands[0], op.operands[1]),
                result_types=op.result_types,
                properties={**op.properties, "permutation": composed},
                attributes=op.attributes,
                location=op.location,
                regions=[op.detach_region(0)],
            ),
        )


class TransposeUniformSource(RewritePattern):
    """Equal elements, or unspecified ones, are made in the shape that is wanted."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `linalg.transpose` with a static result."""
        source = op.operands[0]
        if not op.results or not isinstance(source, OpResult):
            return
        result_type = cast("TensorType[Attribute]", op.results[0].type)
        made = reshaped(source.op, result_type) if result_type.has_static_shape() else None
        if made is not None:
            rewriter.replace(op, made)


class DropInputs(RewritePattern):
    """An input that the body ignores, or that stands twice, is dropped."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `linalg.generic`."""
        if not _has_spare_input(op):
            return
        view = structured(op)
        if view is None or len(op.results) != len(view.inits):
            return
        first_of: dict[tuple[SSAValue, AffineMap], int] = {}
        dropped: dict[int, int | None] = {}
        for position, key in enumerate(zip(view.inputs, view.input_maps, strict=True)):
            first = first_of.setdefault(key, position)
            if first != position:
                dropped[position] = first
            elif view.body.args[position].first_use is None and _bounded_without(
                view, {position, *dropped}
            ):
                del first_of[key]
                dropped[position] = None
        if dropped:
            _drop(view, dropped, rewriter)


class ForgetOverwrittenInit(RewritePattern):
    """What an operation overwrites without reading need not be computed."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match any structured operation with results."""
        first_init = len(op.operands) - len(op.results)
        candidates = [
            position
            for position in range(first_init, len(op.operands))
            if _splat_below(op.operands[position]) is not None
        ]
        view = structured(op) if candidates else None
        if view is None or len(view.inits) != len(op.results):
            return
        for position in candidates:
            if view.body.args[position].first_use is None and _writes_all(view, position):
                _forget(op, position, rewriter)


def _has_spare_input(op: Operation) -> bool:
    """True if some input of a generic on tensors is unread or stands twice; cheap to ask."""
    inputs = op.operands[: len(op.operands) - len(op.results)]
    body = op.regions[0].first_block
    if body is None or len(set(inputs)) < len(inputs):
        return body is not None
    return any(arg.first_use is None for arg in body.args[: len(inputs)])


def _source(view: Structured, result: int, yielded: SSAValue) -> SSAValue | None:
    """The operand that result number `result` equals, if its body yields `yielded`."""
    if not isinstance(yielded, BlockArgument) or yielded.block is not view.body:
        return None
    operand = view.operands[yielded.index]
    init = len(view.inputs) + result
    if operand.type != view.inits[result].type or not isinstance(operand.type, TensorType):
        return None
    if yielded.index == init:
        return operand
    if view.maps[yielded.index] != view.maps[init] or not _writes_all(view, init):
        return None
    return operand


def _writes_all(view: Structured, operand: int) -> bool:
    """True if every element of an init is written, whatever the sizes are."""
    loops = _bare_loops(view.maps[operand])
    if loops is None or len(set(loops)) != len(loops):
        return False
    return all(
        bound is not None and bound > 0
        for loop, bound in enumerate(view.bounds)
        if loop not in loops
    )


def _bare_loops(indexing_map: AffineMap) -> list[int] | None:
    """The loop that each result of the map is, None if one is anything else."""
    loops: list[int] = []
    for expr in indexing_map.results:
        if not isinstance(expr, AffineDimExpr):
            return None
        loops.append(expr.position)
    return loops


def _bounded_without(view: Structured, positions: set[int]) -> bool:
    """True if the other operands alone still index every loop by itself."""
    loops = {
        expr.position
        for position, indexing_map in enumerate(view.maps)
        if position not in positions
        for expr in indexing_map.results
        if isinstance(expr, AffineDimExpr)
    }
    return len(loops) == len(view.iterators)


def _drop(view: Structured, dropped: Mapping[int, int | None], rewriter: PatternRewriter) -> None:
    """Rebuild a generic without the inputs in `dropped`, each with the one that stands for it."""
    op, body = view.op, view.body
    for position, standing in dropped.items():
        if standing is not None:
            rewriter.replace_all_uses_with(body.args[position], body.args[standing])
    for position in sorted(dropped, reverse=True):
        rewriter.erase_block_argument(body.args[position])
    kept = [position for position in range(len(view.operands)) if position not in dropped]
    segments = (len(view.inputs) - len(dropped), len(view.inits))
    properties = {
        **op.properties,
        "indexing_maps": ArrayAttr(_maps(view.maps[position] for position in kept)),
        "operandSegmentSizes": DenseArrayBase.from_list(i32, segments),
    }
    rewriter.replace(
        op,
        type(op).create(
            operands=[view.operands[position] for position in kept],
            result_types=op.result_types,
            properties=properties,
            attributes=op.attributes,
            location=op.location,
            regions=[op.detach_region(0)],
        ),
    )


def _maps(maps: Iterable[AffineMap]) -> list[AffineMapAttr]:
    return [AffineMapAttr(indexing_map) for indexing_map in maps]


def _splat_below(init: SSAValue) -> Operation | None:
    return init.op if isinstance(init, OpResult) and init.op.name in SPLATS else None


def _forget(op: Operation, position: int, rewriter: PatternRewriter) -> None:
    """Replace a splat or a fill by what it overwrote, or by an empty tensor."""
    splat = _splat_below(op.operands[position])
    assert splat is not None
    if splat.name == "linalg.fill":
        op.operands[position] = splat.operands[1]
    else:
        sizes = splat.dynamicSizes if isinstance(splat, tensor.SplatOp) else ()
        empty = tensor.EmptyOp(tuple(sizes), splat.results[0].type)
        rewriter.insert(empty)
        op.operands[position] = empty.tensor
    rewriter.notify_op_modified(op)


def _permutation(op: Operation) -> tuple[int, ...]:
    return cast("DenseArrayBase[IntegerType]", op.properties["permutation"]).get_values()


_OVERWRITING = ("fill", "add", "sub", "mul", "div", "max", "min", "exp", "log", "sqrt", "select")

PATTERNS: Mapping[str, tuple[RewritePattern, ...]] = {
    "linalg.generic": (FoldCopy(), DropInputs(), ForgetOverwrittenInit()),
    "linalg.copy": (FoldCopy(), ForgetOverwrittenInit()),
    "linalg.transpose": (FoldCopy(), TransposeUniformSource(), ComposeTransposes()),
    **{f"linalg.{name}": (ForgetOverwrittenInit(),) for name in _OVERWRITING},
}
"""Operation name to the patterns that rewrite it."""
