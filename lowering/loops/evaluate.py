"""The scalar at one index of a tensor value, emitted by following the value to its sources.

Producers are inlined where they are read: a transpose permutes the indices, a slice offsets
them, an insertion tests them, a reduction becomes a loop. Nothing is materialised. Whoever forms
a kernel decides what is worth recomputing; here every tensor op has one meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects import arith, linalg, memref, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import PassFailedException

from convir.dialects.structured import Structured, structured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.builder import Builder

    from convir.lowering.loops.indices import Index, IndexBuilder

Rule: TypeAlias = "Callable[[Evaluator, Operation, list[Index]], SSAValue]"


ScalarAttr: TypeAlias = FloatAttr[AnyFloat] | IntegerAttr[IntegerType | IndexType]


def scalar_attr(value: float, element_type: Attribute) -> ScalarAttr:
    """The attribute of a scalar of a float, integer or index type."""
    if isinstance(element_type, AnyFloat):
        return FloatAttr(float(value), element_type)
    return IntegerAttr(int(value), cast("IntegerType | IndexType", element_type))


def static_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor value.

    Raises:
        PassFailedException: the value is no tensor, or one of its sizes is dynamic.
    """
    value_type = value.type
    if not isinstance(value_type, TensorType):
        raise PassFailedException(f"loops are built for tensors, not for {value_type}")
    shape = value_type.get_shape()
    if DYNAMIC_INDEX in shape:
        raise PassFailedException(f"loops are built for static shapes, not for {value.type}")
    return shape


@dataclass
class Evaluator:
    """Emits the elements of the tensor values of one kernel body."""

    builder: Builder
    at: IndexBuilder
    buffers: dict[SSAValue, SSAValue]
    """Tensor values that lie in memory, each with its memref."""
    rules: Mapping[str, Rule]
    """How an element of the result of an op is computed, by the op's name."""

    def element(self, value: SSAValue, indices: list[Index]) -> SSAValue:
        """The element of the tensor `value` at `indices`; a scalar value stands for itself.

        Raises:
            PassFailedException: the value comes from an op that has no rule.
        """
        if not isinstance(value.type, TensorType):
            return self.scalar(value)
        buffer = self.buffers.get(value)
        if buffer is not None:
            load = memref.LoadOp.get(buffer, [self.at.value(index) for index in indices])
            return self.emit(load)
        owner = value.owner
        if not isinstance(owner, Operation):
            raise PassFailedException("a kernel reads a block argument that has no buffer")
        view = structured(owner)
        if view is not None:
            return self._structured(view, cast("OpResult", value).index, indices)
        rule = self.rules.get(owner.name)
        if rule is None:
            raise PassFailedException(f"{owner.name} has no loops")
        return rule(self, owner, indices)

    def scalar(self, value: SSAValue) -> SSAValue:
        """A scalar of the kernel's body as a scalar of the loops: its ops are cloned here."""
        if isinstance(value, BlockArgument):
            return self.buffers.get(value, value)
        return self._clone_scalar_tree(value, {})

    def emit(self, op: Operation) -> SSAValue:
        """Insert `op` and return its first result."""
        self.builder.insert(op)
        return op.results[0]

    def constant(self, attr: ScalarAttr) -> SSAValue:
        """A scalar constant."""
        op = arith.ConstantOp(attr)
        self.at.at_entry(op)
        return op.result

    def zero(self, element_type: Attribute) -> SSAValue:
        """The zero of an element type."""
        return self.constant(scalar_attr(0, element_type))

    def choose(
        self,
        condition: SSAValue | bool,
        if_true: Callable[[], SSAValue],
        if_false: Callable[[], SSAValue],
    ) -> SSAValue:
        """One of two scalars, computing only the one that is asked for."""
        if isinstance(condition, bool):
            return if_true() if condition else if_false()
        blocks = [Block(), Block()]
        outer = self.builder.insertion_point
        values: list[SSAValue] = []
        for block, branch in zip(blocks, (if_true, if_false), strict=True):
            self.builder.insertion_point = InsertPoint.at_end(block)
            values.append(branch())
            self.builder.insert(scf.YieldOp(values[-1]))
        self.builder.insertion_point = outer
        regions = [Region(block) for block in blocks]
        return self.emit(scf.IfOp(condition, [values[0].type], regions[0], regions[1]))

    def loop(
        self, bound: int, inits: Sequence[SSAValue], body: Callable[[SSAValue], list[SSAValue]]
    ) -> list[SSAValue]:
        """A loop over [0, bound) that carries `inits`, whose `body` gives their next values.

        `body` finds the carried values as the arguments of the current block after the first.
        """
        block = Block(arg_types=[IndexType(), *(init.type for init in inits)])
        outer = self.builder.insertion_point
        self.builder.insertion_point = InsertPoint.at_end(block)
        self.builder.insert(scf.YieldOp(*body(block.args[0])))
        self.builder.insertion_point = outer
        zero, step = self.at.constant(0), self.at.constant(1)
        op = scf.ForOp(zero, self.at.constant(bound), step, inits, block)
        self.builder.insert(op)
        return list(op.results)

    def _structured(self, view: Structured, result: int, indices: list[Index]) -> SSAValue:
        loops = _loops_from_result(view, result, indices)
        reductions = [i for i, loop in enumerate(loops) if loop is None]
        init = view.inits[result]
        if not reductions:
            known = cast("list[Index]", loops)
            out = view.body.args[len(view.inputs) + result]
            carried: dict[SSAValue, SSAValue] = {}
            if out.first_use is not None:
                carried[out] = self.element(init, indices)
            return self._body(view, result, known, carried)
        if len(view.inits) != 1:
            raise PassFailedException("a reduction with several results has no loops")
        return self._reduce(view, loops, reductions, self.element(init, indices))

    def _reduce(
        self,
        view: Structured,
        loops: list[Index | None],
        reductions: list[int],
        carried: SSAValue,
    ) -> SSAValue:
        if not reductions:
            out = view.body.args[-1]
            return self._body(view, 0, cast("list[Index]", loops), {out: carried})
        loop, *rest = reductions
        bound = view.bounds[loop]
        if bound is None:
            raise PassFailedException("a reduction of unknown length has no loops")

        def step(index: SSAValue) -> list[SSAValue]:
            inner = [*loops[:loop], index, *loops[loop + 1 :]]
            accumulator = self.builder.insertion_point.block.args[1]
            return [self._reduce(view, inner, rest, accumulator)]

        return self.loop(bound, [carried], step)[0]

    def _body(
        self,
        view: Structured,
        result: int,
        loops: list[Index],
        carried: dict[SSAValue, SSAValue],
    ) -> SSAValue:
        """The `result`-th yielded scalar of the body of `view` at the loop indices `loops`."""
        known = dict(carried)

        def argument(arg: BlockArgument) -> SSAValue:
            operand = view.operands[arg.index]
            return self.element(operand, self.at.apply(view.maps[arg.index], loops))

        terminator = view.body.last_op
        assert terminator is not None
        return self._scalar_in_body(terminator.operands[result], view.body, loops, known, argument)

    def _scalar_in_body(
        self,
        value: SSAValue,
        body: Block,
        loops: list[Index],
        known: dict[SSAValue, SSAValue],
        argument: Callable[[BlockArgument], SSAValue],
    ) -> SSAValue:
        found = known.get(value)
        if found is not None:
            return found
        if isinstance(value, BlockArgument):
            scalar = argument(value) if value.owner is body else self.scalar(value)
            known[value] = scalar
            return scalar
        op = cast("OpResult", value).op
        if op.parent is not body:
            known[value] = self.scalar(value)
            return known[value]
        if isinstance(op, linalg.ops.IndexOp):
            known[value] = self.at.value(loops[op.dim.value.data])
            return known[value]
        operands = [
            operand
            if isinstance(operand.type, TensorType)
            else self._scalar_in_body(operand, body, loops, known, argument)
            for operand in op.operands
        ]
        if isinstance(op, tensor.ExtractOp):
            known[value] = self.element(op.tensor, list(operands[1:]))
            return known[value]
        return self._clone(op, operands, known, value)

    def _clone_scalar_tree(self, value: SSAValue, known: dict[SSAValue, SSAValue]) -> SSAValue:
        found = known.get(value)
        if found is not None:
            return found
        if isinstance(value, BlockArgument):
            return self.scalar(value)
        op = cast("OpResult", value).op
        if isinstance(op, tensor.ExtractOp):
            indices = [self._clone_scalar_tree(index, known) for index in op.indices]
            known[value] = self.element(op.tensor, list(indices))
            return known[value]
        operands = [self._clone_scalar_tree(operand, known) for operand in op.operands]
        return self._clone(op, operands, known, value)

    def _clone(
        self,
        op: Operation,
        operands: Sequence[SSAValue],
        known: dict[SSAValue, SSAValue],
        value: SSAValue,
    ) -> SSAValue:
        if op.regions or op.has_trait(IsTerminator):
            raise PassFailedException(f"{op.name} has no loops")
        if isinstance(op, arith.ConstantOp):
            known[value] = self.constant(cast("ScalarAttr", op.value))
            return known[value]
        clone = op.clone(dict(zip(op.operands, operands, strict=True)))
        self.builder.insert(clone)
        known.update(zip(op.results, clone.results, strict=True))
        return known[value]


def _loops_from_result(
    view: Structured, result: int, indices: Sequence[Index]
) -> list[Index | None]:
    """The loop indices that write `indices` of a result; None for the loops that reduce."""
    loops: list[Index | None] = [None] * len(view.iterators)
    for expr, index in zip(view.init_maps[result].results, indices, strict=True):
        if not isinstance(expr, AffineDimExpr) or loops[expr.position] is not None:
            raise PassFailedException(
                f"the result map {view.init_maps[result]} is not a permutation of loops"
            )
        loops[expr.position] = index
    for i, kind in enumerate(view.iterators):
        if kind == "parallel" and loops[i] is None:
            if view.bounds[i] != 1:
                raise PassFailedException("a parallel loop that no result dimension counts")
            loops[i] = 0
    return loops
