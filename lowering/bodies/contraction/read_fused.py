"""A kernel's tensor body as a contraction and what follows it, each on the kernel's arguments.

    insert_slice(epilogue(contraction)) --> Contraction (phases, zero-filled outputs) +
    FusedEpilogue

The elementwise ops behind the contractions are taken off, and the rest is read by
`contraction_readings`; all pieces of a result share one chain of ops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, FunctionType, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from convir.analysis.contraction import contraction_dims
from convir.analysis.dependence import backward_slice
from convir.analysis.linear import LinearIndex
from convir.analysis.refusal import Refusal
from convir.analysis.slices import slice_view
from convir.analysis.structured import structured
from convir.analysis.values.scalars import zero_of
from convir.analysis.values.zeros import is_zero
from convir.dialects.kernel import ops as kernel
from convir.lowering.bodies.contraction.functor import Functor, Read, Step
from convir.lowering.bodies.contraction.fused import FusedContraction, FusedEpilogue
from convir.lowering.bodies.contraction.operand_types import STORED
from convir.lowering.bodies.contraction.place_operands import place_operand
from convir.lowering.bodies.contraction.read_kernel import contraction_readings
from convir.lowering.bodies.contraction.scalar_program import Constant, ScalarOp, ScalarProgram, Sum
from convir.lowering.bodies.contraction.spec import WRITABLE
from convir.lowering.bodies.operand_access import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from convir.analysis.slices import SliceView
    from convir.lowering.bodies.contraction.fused import EpilogueOperand
    from convir.lowering.bodies.contraction.read_kernel import ContractionCall
    from convir.lowering.bodies.contraction.reading_cost import Lanes
    from convir.lowering.bodies.contraction.spec import Contraction, StorageType


def read_fused(
    callee: kernel.FuncOp,
    cost: Callable[[Contraction], object],
    *,
    shared_by: Lanes | None = None,
) -> FusedContraction | Refusal:
    """Read the body of `callee`, or say why it is not a contraction with an epilogue.

    Args:
        callee: the kernel.
        cost: what the least of is taken, where a body can be read in several ways.
        shared_by: what multiplies, if groups may read the same rows, as of
            `contraction_readings`.
    """
    readings = fused_readings(callee, shared_by=shared_by)
    if isinstance(readings, Refusal):
        return readings
    return min(readings, key=lambda reading: cast("Any", cost(reading[0])))[1]


def fused_readings(
    callee: kernel.FuncOp, *, shared_by: Lanes | None = None
) -> list[tuple[Contraction, FusedContraction | Refusal]] | Refusal:
    """All ways in which the body of `callee` can be read: as the contraction in it, and as what
    that is with its epilogue, or why it is nothing; or why there is no contraction.

    Args:
        callee: the kernel.
        shared_by: as of `read_fused`.
    """
    returned = callee.body.block.last_op
    assert returned is not None
    if len(returned.operands) != 1:
        return Refusal("it has several results")
    (result,) = returned.operands
    body = _Body.of(result, _computed_from_contractions(callee))
    if isinstance(body, Refusal):
        return _unread_contraction(callee) or body
    calls = contraction_readings(_stripped(callee, body), shared_by=shared_by)
    if isinstance(calls, Refusal):
        return calls
    begins = [call.init if call.spec.accumulate else None for call in calls]
    computed = {init: _computed(body, init) for init in dict.fromkeys(begins)}
    return [
        (call.spec, _fused(body, call, result, computed[init]))
        for call, init in zip(calls, begins, strict=True)
    ]


def _unread_contraction(callee: kernel.FuncOp) -> Refusal | None:
    """Why a reduction of `callee` is not a contraction, if one is none."""
    for op in callee.body.block.ops:
        view = structured(op)
        dims = contraction_dims(op)
        if view is not None and view.loops_of("reduction") and isinstance(dims, Refusal):
            return dims
    return None


@dataclass(frozen=True)
class _Piece:
    """One contraction, the ops between it and its insertion, and the insertion."""

    contraction: Operation
    steps: tuple[Step, ...]
    insertion: SliceView | None


@dataclass(frozen=True)
class _Body:
    """A kernel's result: pieces, and the ops that follow when they are put together."""

    pieces: tuple[_Piece, ...]
    """In the order of their insertions."""
    steps: tuple[Step, ...]

    @staticmethod
    def of(result: SSAValue, computed: Collection[SSAValue]) -> _Body | Refusal:
        """The body that computes `result`.

        Args:
            result: what the kernel returns.
            computed: the values that depend on a contraction.
        """
        outer = _follow(result, computed)
        if isinstance(outer, Refusal):
            return outer
        steps, core = outer
        if not isinstance(contraction_dims(core), Refusal):
            return _Body((_Piece(core, (), None),), steps)
        pieces: list[_Piece] = []
        below: Operation | None = core
        while below is not None:
            view = slice_view(below)
            if view is None or view.dest is None:
                return Refusal(f"it stores into the result of {below.name}")
            inner = _follow(view.source, computed)
            if isinstance(inner, Refusal):
                return inner
            if isinstance(contraction_dims(inner[1]), Refusal):
                return Refusal("it inserts a tensor twice")
            pieces.insert(0, _Piece(inner[1], inner[0], view))
            owner = view.dest.owner
            is_last = is_zero(view.dest) or getattr(owner, "name", None) == "tensor.empty"
            if not is_last and not isinstance(owner, Operation):
                return Refusal("it stores into an argument")
            below = None if is_last else cast("Operation", owner)
        return _Body(tuple(pieces), steps)


def _follow(
    value: SSAValue, among: Collection[SSAValue]
) -> tuple[tuple[Step, ...], Operation] | Refusal:
    """The elementwise ops that end in `value`, first one first, and the op that they begin at."""
    steps: list[Step] = []
    while True:
        op = value.owner
        if not isinstance(op, Operation) or value not in among:
            return Refusal("it holds no contraction")
        view = slice_view(op)
        is_insertion = view is not None and view.kind == "insert_slice"
        if is_insertion or not isinstance(contraction_dims(op), Refusal):
            return tuple(reversed(steps)), op
        computed: list[SSAValue] = [operand for operand in op.operands if operand in among]
        if len(computed) != 1:
            return Refusal("its epilogue combines two computed values")
        value = computed[0]
        steps.append(Step(op, value))


def _computed_from_contractions(callee: kernel.FuncOp) -> frozenset[SSAValue]:
    """The values of a kernel that depend on a contraction."""
    found: set[SSAValue] = set()
    for op in callee.body.block.ops:
        depends = any(operand in found for operand in op.operands)
        if depends or not isinstance(contraction_dims(op), Refusal):
            found.update(op.results)
    return frozenset(found)


def _stripped(callee: kernel.FuncOp, body: _Body) -> kernel.FuncOp:
    """`callee` without its epilogue: accumulators, inserted where the results were."""
    contractions = {piece.contraction for piece in body.pieces}
    block = Block(arg_types=callee.function_type.inputs.data)
    mapping: dict[SSAValue, SSAValue] = dict(zip(callee.body.block.args, block.args, strict=True))
    for op in backward_slice(callee.body.block, contractions):
        block.add_op(op.clone(mapping))
    result: SSAValue | None = None
    for piece in body.pieces:
        total = mapping[piece.contraction.results[0]]
        result = total if piece.insertion is None else _inserted(block, piece, total, result)
    assert result is not None
    block.add_op(kernel.ReturnOp(result))
    function_type = FunctionType.from_lists(list(callee.function_type.inputs), [result.type])
    return kernel.FuncOp("sums", function_type, Region(block))


def _inserted(block: Block, piece: _Piece, total: SSAValue, below: SSAValue | None) -> SSAValue:
    view = piece.insertion
    assert view is not None
    assert view.dest is not None
    element = _element_type(total)
    target = TensorType(element, shape_of(view.dest))
    if below is None and is_zero(view.dest):
        # No dense constant: one would hold every element.
        zero = arith.ConstantOp(zero_of(element))
        zeros = tensor.SplatOp(zero.result, [], target)
        block.add_ops([zero, zeros])
        below = zeros.result
    elif below is None:
        empty = tensor.EmptyOp([], target)
        block.add_op(empty)
        below = empty.tensor
    op = view.op
    insertion = type(op).create(
        operands=[total, below, *op.operands[2:]],
        result_types=[target],
        properties=op.properties,
        attributes=op.attributes,
    )
    block.add_op(insertion)
    return insertion.results[0]


@dataclass(frozen=True)
class _Computed:
    """What is computed of a sum, whichever tensors its rows and its weights come from."""

    summed: Functor
    zero_fill: Functor
    """Of a position that nothing is summed for."""
    inner: Functor
    """The part of it before pieces are put together."""


def _computed(body: _Body, init: int | None) -> _Computed | Refusal:
    """The epilogue of `body`, whose sums begin with the argument `init`, if with any."""
    first = body.pieces[0]
    shape = shape_of(_whole(first))
    identity = tuple(LinearIndex(((dim, 1),)) for dim in range(len(shape)))
    start = Functor(ScalarProgram(Sum()), identity)
    if init is not None:
        start = _adding(start, init, shape, first.contraction.results[0])
    inner = [_inner(start, piece) for piece in body.pieces]
    for functor in inner:
        if isinstance(functor, Refusal):
            return functor
    if any(functor != inner[0] for functor in inner):
        return Refusal("its phases have different epilogues")
    computed = cast("Functor", inner[0])
    summed = replace(computed, forms=start.forms).after(body.steps)
    if isinstance(summed, Refusal):
        return summed
    zero = Constant(zero_of(_element_type(_whole(first))))
    empty = replace(summed, program=ScalarProgram(zero), forms=start.forms)
    zero_fill = empty.after(body.steps)
    if isinstance(zero_fill, Refusal):
        return zero_fill
    return _Computed(summed, zero_fill, computed)


def _whole(piece: _Piece) -> SSAValue:
    """The tensor that the sums of a piece belong to."""
    if piece.insertion is None:
        return piece.contraction.results[0]
    assert piece.insertion.dest is not None
    return piece.insertion.dest


def _fused(
    body: _Body, call: ContractionCall, result: SSAValue, computed: _Computed | Refusal
) -> FusedContraction | Refusal:
    if isinstance(computed, Refusal):
        return computed
    spec, shape = call.spec, shape_of(_whole(body.pieces[0]))
    summed, zero_fill = computed.summed, computed.zero_fill
    stored = STORED.get(_element_type(result))
    if stored is None or stored not in WRITABLE[spec.element]:
        return Refusal(f"it stores {_element_type(result)}")
    operands: list[EpilogueOperand] = []
    for read in summed.reads:
        type_of_read = STORED.get(read.type)
        if type_of_read is None or (spec.element != "i32" and type_of_read == "i8"):
            return Refusal(f"its epilogue reads {read.type}")
        operand = place_operand(read, type_of_read, spec, shape)
        if isinstance(operand, Refusal):
            return operand
        operands.append(operand)
    epilogue = FusedEpilogue(
        spec.element,
        stored,
        summed.program,
        zero_fill.program,
        tuple(operands),
        computed.inner.program.only_converts,
    )
    return FusedContraction(_storing(spec, stored), epilogue, call.a, call.other)


def _inner(start: Functor, piece: _Piece) -> Functor | Refusal:
    """What is computed of a sum before it is inserted, over the dimensions of the whole result."""
    view = piece.insertion
    if view is None:
        return start.after(piece.steps)
    forms = tuple(
        LinearIndex(((dim, 1),)) if (offset, stride) == (0, 1) else None
        for dim, (offset, stride) in enumerate(zip(view.offsets, view.strides, strict=True))
    )
    return replace(start, forms=forms).after(piece.steps)


def _adding(start: Functor, init: int, shape: tuple[int, ...], total: SSAValue) -> Functor:
    index = tuple(LinearIndex(((dim, 1),)) for dim in range(len(shape)))
    functor, element = start.reading(Read(init, _element_type(total), index, shape))
    adds = arith.AddfOp if isinstance(_element_type(total), AnyFloat) else arith.AddiOp
    add = ScalarOp(adds, (start.program.value, element), _element_type(total), (), ())
    return replace(functor, program=start.program.followed_by(add))


def _storing(spec: Contraction, stored: StorageType) -> Contraction:
    if spec.result == "C":
        return replace(spec, c=replace(spec.c, type=stored), accumulate=False)
    return replace(spec, b=replace(spec.b, type=stored), accumulate=False)


def _element_type(value: SSAValue) -> Attribute:
    return cast("TensorType[Attribute]", value.type).element_type
