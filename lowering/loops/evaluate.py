"""The scalar at one index of a tensor value, emitted by following the value to its sources.

Producers are inlined where they are read: a transpose permutes the indices, a slice offsets
them, an insertion tests them, a reduction becomes a loop. Nothing is materialised. Whoever forms
a kernel decides what is worth recomputing (`lowering.recomputation`); here every tensor op has one
meaning. Producers that are read at the index of the result itself are computed in order, one after
another; only what changes the index or tests it nests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.structured import Structured, structured
from convir.analysis.values.scalars import scalar_constant
from convir.dialects.conv.ops import ConvOp
from convir.lowering.loops.indices import Flags, Lanes
from convir.lowering.loops.pointwise import is_pointwise, on_scalars

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.builder import Builder

    from convir.lowering.loops.indices import Condition, Index, IndexBuilder

Value: TypeAlias = SSAValue | Lanes | Flags
"""What the body of an op computes: a scalar, or in code for many lanes also an index or a
condition that differs between them."""

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
        PassFailedException: the value is not a tensor, or one of its sizes is dynamic.
    """
    value_type = value.type
    if not isinstance(value_type, TensorType):
        raise PassFailedException(f"loops are built for tensors, not for {value_type}")
    shape = value_type.get_shape()
    if DYNAMIC_INDEX in shape:
        raise PassFailedException(f"loops are built for static shapes, not for {value.type}")
    return shape


MAX_NESTED = 40
"""Changes of an index on the way from a result to what it reads: more than kernels are formed with.
"""


@dataclass
class Evaluator:
    """Emits the elements of the tensor values of one kernel body."""

    builder: Builder
    at: IndexBuilder
    buffers: dict[SSAValue, SSAValue]
    """Tensor values that lie in memory, each with its memref."""
    rules: Mapping[str, Rule]
    """How an element of the result of an op is computed, by the op's name."""
    _constants: dict[ScalarAttr, SSAValue] = field(default_factory=dict["ScalarAttr", SSAValue])
    _nested: int = 0

    def element(self, value: SSAValue, indices: list[Index]) -> SSAValue:
        """The element of the tensor `value` at `indices`; a scalar value stands for itself.

        Raises:
            PassFailedException: the value comes from an op that has no rule, or nests too deeply.
        """
        if not isinstance(value.type, TensorType):
            return self.scalar(value)
        if self._nested > MAX_NESTED:
            raise PassFailedException(
                f"a kernel has more than {MAX_NESTED} nested index computations"
            )
        self._nested += 1
        pending = [value]
        while pending:
            key = ("element", pending[-1], *indices)
            if self.at.numbers.find(key) is None:
                missing = [
                    read
                    for read in self._read_in_place(pending[-1])
                    if self.at.numbers.find(("element", read, *indices)) is None
                ]
                if missing:
                    pending += reversed(missing)
                    continue
                self.at.numbers.add(key, self._element(pending[-1], indices))
            pending.pop()
        self._nested -= 1
        found = self.at.numbers.find(("element", value, *indices))
        assert found is not None
        return found

    def _read_in_place(self, value: SSAValue) -> list[SSAValue]:
        """The tensors of which an element of `value` reads the one at the same index."""
        owner = value.owner
        if value in self.buffers or not isinstance(owner, Operation):
            return []
        view = structured(owner)
        if view is not None:
            return _inputs_in_place(view, cast("OpResult", value).index)
        if owner.name == "tensor.cast" or (owner.name not in self.rules and is_pointwise(owner)):
            return [x for x in owner.operands if isinstance(x.type, TensorType)]
        return []

    def _element(self, value: SSAValue, indices: list[Index]) -> SSAValue:
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
        if rule is None and is_pointwise(owner):
            operands = [self.element(operand, indices) for operand in owner.operands]
            return self.pointwise(owner, operands)
        if rule is None:
            raise PassFailedException(_no_loops(owner))
        return rule(self, owner, indices)

    def scalar(self, value: SSAValue) -> SSAValue:
        """A scalar of the kernel's body as a scalar of the loops: its ops are cloned here."""
        if isinstance(value, BlockArgument):
            return self.buffers.get(value, value)
        block = cast("OpResult", value).op.parent_block()
        assert block is not None
        return self.data(self.region_scalar(value, block, {}, self.scalar))

    def data(self, value: Value) -> SSAValue:
        """A value of a body as an operand of the ops that compute with it.

        Raises:
            TypeError: it differs between lanes, of which scalar code has none.
        """
        if not isinstance(value, SSAValue):
            raise TypeError("a value of many lanes is not a scalar")
        return value

    def index_value(self, index: Index) -> Value:
        """What a body that asks for a loop's index gets."""
        return self.at.value(index)

    def as_index(self, value: Value) -> Index:
        """A value that a body computes, as an index into a tensor."""
        return self.data(value)

    def pointwise(self, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        """An op of arith or math on tensors, on one element of each of its operands."""
        return self.emit(on_scalars(op, operands))

    def region_scalar(
        self,
        value: SSAValue,
        block: Block,
        known: dict[SSAValue, Value],
        argument: Callable[[BlockArgument], Value],
    ) -> Value:
        """A scalar that the ops of `block` compute, as a scalar of the loops.

        Args:
            value: what is asked for.
            block: the body of an op, or of the kernel.
            known: scalars of the block that are computed already; grows.
            argument: computes the scalar of an argument of the block, which is asked for once.
        """
        for op in needed_ops(value, block, known):
            operands = self._operands(op, block, known, argument)
            known.update(zip(op.results, self._computed(op, operands), strict=True))
        return self._operand(value, block, known, argument)

    def _operands(
        self,
        op: Operation,
        block: Block,
        known: dict[SSAValue, Value],
        argument: Callable[[BlockArgument], Value],
    ) -> list[Value]:
        """What an op of a body reads: tensors as they are, and scalars."""
        return [
            operand
            if isinstance(operand.type, TensorType)
            else self._operand(operand, block, known, argument)
            for operand in op.operands
        ]

    def _operand(
        self,
        value: SSAValue,
        block: Block,
        known: dict[SSAValue, Value],
        argument: Callable[[BlockArgument], Value],
    ) -> Value:
        found = known.get(value)
        if found is None:
            own = isinstance(value, BlockArgument) and value.owner is block
            found = argument(cast("BlockArgument", value)) if own else self.scalar(value)
            known[value] = found
        return found

    def _computed(self, op: Operation, operands: Sequence[Value]) -> Sequence[Value]:
        """The results of a scalar op on the scalars `operands`."""
        if isinstance(op, tensor.ExtractOp):
            return [self.element(op.tensor, [self.as_index(index) for index in operands[1:]])]
        if isinstance(op, tensor.DimOp):
            return [self.at.value(_size(op))]
        if op.regions or len(op.results) != 1:
            raise PassFailedException(f"{op.name} has no loops")
        if isinstance(op, arith.ConstantOp):
            return [self.constant(cast("ScalarAttr", op.value))]
        return [self._scalar_op(op, operands)]

    def _scalar_op(self, op: Operation, operands: Sequence[Value]) -> Value:
        """The result of an op of a body on its operands."""
        scalars = map(self.data, operands)
        return self.emit(op.clone(dict(zip(op.operands, scalars, strict=True))))

    def emit(self, op: Operation) -> SSAValue:
        """Insert `op`, unless the same is computed already; returns its first result."""
        return self.at.numbers.emit(self.builder, op)

    def constant(self, attr: ScalarAttr) -> SSAValue:
        """A scalar constant."""
        known = self._constants.get(attr)
        if known is None:
            op = arith.ConstantOp(attr)
            self.at.at_entry(op)
            known = self._constants[attr] = op.result
        return known

    def zero(self, element_type: Attribute) -> SSAValue:
        """The zero of an element type."""
        return self.constant(scalar_attr(0, element_type))

    def choose(
        self,
        condition: Condition,
        if_true: Callable[[], SSAValue],
        if_false: Callable[[], SSAValue],
    ) -> SSAValue:
        """One of two scalars, computing only the one that is asked for.

        Raises:
            TypeError: the condition differs between lanes, of which scalar code has none.
        """
        if isinstance(condition, bool):
            return if_true() if condition else if_false()
        if isinstance(condition, Flags):
            raise TypeError("a condition of many lanes is not a scalar")
        blocks = [Block(), Block()]
        outer = self.builder.insertion_point
        values: list[SSAValue] = []
        for block, branch in zip(blocks, (if_true, if_false), strict=True):
            self.builder.insertion_point = InsertPoint.at_end(block)
            with self.at.numbers.scope():
                values.append(branch())
            self.builder.insert(scf.YieldOp(values[-1]))
        self.builder.insertion_point = outer
        regions = [Region(block) for block in blocks]
        return self.emit(scf.IfOp(condition, [values[0].type], regions[0], regions[1]))

    def loop(
        self,
        bound: int,
        inits: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """A loop over [0, bound) that carries `inits`.

        `body` takes the index and the carried values, and gives their next values.
        """
        block = Block(arg_types=[IndexType(), *(init.type for init in inits)])
        outer = self.builder.insertion_point
        self.builder.insertion_point = InsertPoint.at_end(block)
        with self.at.numbers.scope():
            following = body(block.args[0], block.args[1:])
        self.builder.insert(scf.YieldOp(*following))
        self.builder.insertion_point = outer
        zero, step = self.at.constant(0), self.at.constant(1)
        op = scf.ForOp(zero, self.at.constant(bound), step, inits, block)
        self.builder.insert(op)
        return op.results

    def _structured(self, view: Structured, result: int, indices: list[Index]) -> SSAValue:
        loops = _loops_from_result(view, result, indices)
        reductions = [i for i, loop in enumerate(loops) if loop is None]
        if reductions:
            return self._reduction(view, result, loops, reductions)
        known = cast("list[Index]", loops)
        return self._body(view, [result], known, {})[0]

    def _reduction(
        self, view: Structured, result: int, loops: list[Index | None], reductions: list[int]
    ) -> SSAValue:
        """All results of a reduction, which one loop computes together; gives the one asked for."""
        key = ("reduction", view.op, *loops)
        if self.at.numbers.find((*key, result)) is None:
            inits: list[SSAValue] = []
            for init, init_map in zip(view.inits, view.init_maps, strict=True):
                if any(expr.used_dims() & set(reductions) for expr in init_map.results):
                    raise PassFailedException("results that reduce over different loops")
                known = [0 if loop is None else loop for loop in loops]
                inits.append(self.element(init, self.at.apply(init_map, known)))
            for i, value in enumerate(self._reduce(view, loops, reductions, inits)):
                self.at.numbers.add((*key, i), value)
        found = self.at.numbers.find((*key, result))
        assert found is not None
        return found

    def _reduce(
        self,
        view: Structured,
        loops: list[Index | None],
        reductions: list[int],
        carried: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        outs = view.body.args[len(view.inputs) :]
        if not reductions:
            known = dict[SSAValue, Value](zip(outs, carried, strict=True))
            return self._body(view, range(len(outs)), cast("list[Index]", loops), known)
        loop, *rest = reductions
        bound = view.bounds[loop]
        if bound is None:
            raise PassFailedException("a reduction of unknown length has no loops")

        def step(index: SSAValue, accumulators: Sequence[SSAValue]) -> Sequence[SSAValue]:
            inner = [*loops[:loop], index, *loops[loop + 1 :]]
            return self._reduce(view, inner, rest, accumulators)

        return self.loop(bound, carried, step)

    def _body(
        self,
        view: Structured,
        results: Sequence[int],
        loops: list[Index],
        known: dict[SSAValue, Value],
    ) -> list[SSAValue]:
        """Those of the scalars that the body of `view` yields, at the loop indices `loops`."""

        def argument(arg: BlockArgument) -> SSAValue:
            operand = view.operands[arg.index]
            return self.element(operand, self.at.apply(view.maps[arg.index], loops))

        for op in view.body.ops:
            if isinstance(op, linalg.ops.IndexOp):
                known[op.result] = self.index_value(loops[op.dim.value.data])
        terminator = view.body.last_op
        assert terminator is not None
        return [
            self.data(self.region_scalar(terminator.operands[result], view.body, known, argument))
            for result in results
        ]


def _size(op: tensor.DimOp) -> int:
    """The size that a `tensor.dim` of a static tensor asks for.

    Raises:
        PassFailedException: the number of the dimension is not a constant of its rank.
    """
    shape, dim = static_shape(op.source), scalar_constant(op.index)
    if not isinstance(dim, IntegerAttr) or not 0 <= dim.value.data < len(shape):
        raise PassFailedException("a tensor.dim of an unknown dimension has no loops")
    return shape[dim.value.data]


def needed_ops(value: SSAValue, block: Block, known: Mapping[SSAValue, Value]) -> list[Operation]:
    """The ops of `block` that compute `value`, in their order, but for what is known."""
    pending = [value]
    found: set[Operation] = set()
    while pending:
        wanted = pending.pop()
        op = wanted.owner
        if wanted in known or not isinstance(op, Operation) or op in found:
            continue
        if op.parent is block and not isinstance(wanted.type, TensorType):
            found.add(op)
            pending += op.operands
    return [op for op in block.ops if op in found] if found else []


def _inputs_in_place(view: Structured, result: int) -> list[SSAValue]:
    """The operands that `view` reads at the index of the element of a result that it computes."""
    if view.loops_of("reduction"):
        return []
    at = view.init_maps[result]
    here: dict[SSAValue, SSAValue] = {
        argument: operand
        for argument, operand, indexing_map in zip(
            view.body.args, view.operands, view.maps, strict=True
        )
        if indexing_map == at and isinstance(operand.type, TensorType)
    }
    terminator = view.body.last_op
    assert terminator is not None
    wanted = terminator.operands[result]
    read = [x for op in needed_ops(wanted, view.body, {}) for x in op.operands]
    return [here[x] for x in dict.fromkeys([*read, wanted]) if x in here]


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
                raise PassFailedException("a parallel loop that indexes no result dimension")
            loops[i] = 0
    return loops


def _no_loops(op: Operation) -> str:
    """Why there is no kernel with `op`; a convolution becomes one that has loops."""
    refused = f"{op.name} has no loops"
    if isinstance(op, ConvOp):
        return f"{refused}: run convert-conv-to-linalg first, or the pipeline default"
    return refused
