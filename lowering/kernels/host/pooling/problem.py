"""What the family sees of a kernel: windows over one or two dimensions, reduced one by one."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FloatAttr, TensorType, f32
from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from convir.analysis.linear import linear_map
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.analysis.values.scalars import scalar_constant
from convir.analysis.values.zeros import constant_fill_of
from convir.lowering.bodies.contraction.scalar_program import (
    Constant,
    Operand,
    Result,
    ScalarOp,
    Sum,
)
from convir.lowering.bodies.rows.program import COMBINERS
from convir.lowering.kernels.host.code.scalar_steps import unsupported_step
from convir.lowering.loops.evaluate import static_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Attribute, SSAValue
    from xdsl.ir.affine import AffineMap

    from convir.analysis.linear import LinearIndex
    from convir.analysis.structured import Structured
    from convir.lowering.bodies.contraction.scalar_program import Term

MAX_TAPS = 64
"""Of a window along one dimension: the code of a vector reads each."""
MAX_STRIDE = 4
"""Between windows whose elements are neighbours: vectors are taken out of as many."""
_FREE = ("tensor.empty", "tensor.splat", "arith.constant", "linalg.fill")


@dataclass(frozen=True)
class Windows:
    """The windows along one dimension."""

    size: int
    """Of the input."""
    outputs: int
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    low: int = 0
    """How many elements before the first one the first window begins."""

    @property
    def high(self) -> int:
        """How many elements behind the last one the last window ends."""
        end = (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation + 1
        return max(0, end - self.low - self.size)


@dataclass(frozen=True)
class Table:
    """A further operand of what follows a window."""

    argument: int
    plane: int
    """Elements from one plane to the next; 0 where all have the same."""


@dataclass(frozen=True)
class Pool:
    """Planes of rows of elements of `inner` neighbours, all f32."""

    argument: int
    planes: int
    rows: Windows
    columns: Windows
    inner: int
    combiner: str
    steps: tuple[ScalarOp, ...] = ()
    """What follows on each result."""
    tables: tuple[Table, ...] = ()


def read_pool(
    ops: Sequence[Operation], results: Sequence[SSAValue], argument: Callable[[SSAValue], int]
) -> Pool | Refusal:
    """The windows that `ops` reduce, or why they reduce none.

    Args:
        ops: what is computed, in order.
        results: the tensors that are written to memory.
        argument: the number of a tensor that the ops read and do not compute.
    """
    computing = [op for op in ops if op.name not in _FREE and not op.has_trait(IsTerminator)]
    pad = computing.pop(0) if computing and isinstance(computing[0], tensor.PadOp) else None
    if not computing:
        return Refusal("it holds no windows")
    view = structured(computing[0])
    if view is None:
        return Refusal(f"it holds {computing[0].name}")
    found = _windows(view, cast("tensor.PadOp | None", pad))
    if isinstance(found, Refusal):
        return found
    source, combiner, dims, sizes, windowed = found
    if pad is not None and pad.results[0] is not source:
        return Refusal("it pads something else")
    first = windowed[0]
    rows, columns = (
        (dims[d] for d in windowed) if len(windowed) > 1 else (Windows(1, 1), dims[first])
    )
    inner = prod(sizes[windowed[-1] + 1 :])
    if inner == 1 and columns.stride > MAX_STRIDE:
        return Refusal(f"its windows are more than {MAX_STRIDE} elements apart")
    value = pad.operands[0] if pad is not None else source
    if any(value in op.results for op in ops):
        return Refusal("it computes what its windows are of")
    pool = Pool(argument(value), prod(sizes[:first]), rows, columns, inner, combiner)
    return _followed(pool, windowed, computing, results, argument)


def _windows(
    view: Structured, pad: tensor.PadOp | None
) -> tuple[SSAValue, str, dict[int, Windows], tuple[int, ...], list[int]] | Refusal:
    """What is read, how it is combined, the windows of each dimension, the result's sizes, and the
    dimensions that windows extend along."""
    body, rank = view.body, len(view.loops_of("parallel"))
    read = [i for i in range(len(view.inputs)) if body.args[i].uses]
    combined = body.last_op and body.last_op.operands[0].owner
    if len(read) != 1 or len(view.op.results) != 1 or not isinstance(combined, Operation):
        return Refusal("it reads several tensors, or none")
    if combined.name not in COMBINERS or set(combined.operands) != {
        body.args[read[0]],
        body.args[-1],
    }:
        return Refusal("its reduction is no sum, product, maximum or minimum")
    neutral = constant_fill_of(view.inits[0])
    if neutral is None or neutral.value.data != COMBINERS[combined.name]:
        return Refusal("its reduction begins with something")
    source = view.inputs[read[0]]
    kinds = {cast("TensorType[Attribute]", x.type).element_type for x in (source, view.inits[0])}
    if kinds != {f32}:
        return Refusal("it is not of f32")
    forms = linear_map(view.maps[read[0]])
    written = linear_map(view.init_maps[0]) or ()
    if [form.bare for form in written] != list(range(rank)):
        return Refusal("its result is transposed")
    if forms is None or len(forms) != rank or None in view.bounds:
        return Refusal("it reads elements at an index that is no window's")
    sizes = tuple(cast("int", bound) for bound in view.bounds[:rank])
    padded = static_shape(source)
    low = [0] * rank
    if pad is not None:
        fill = _fill_of(pad)
        if pad.low or pad.high or fill != neutral.value.data:
            return Refusal("it pads with something")
        low = list(pad.static_low.get_values())
        padded = static_shape(pad.source)
    dims: dict[int, Windows] = {}
    for dim, form in enumerate(forms):
        window = _along(form, dim, view, padded[dim], low[dim])
        if window is None:
            return Refusal("it reads elements at an index that is no window's")
        dims[dim] = window
    windowed = [dim for dim, each in dims.items() if each != Windows(each.size, each.size)]
    if not windowed or windowed != list(range(windowed[0], windowed[0] + len(windowed))):
        return Refusal("its windows are of dimensions that do not follow each other")
    if len(windowed) > 2 or max(dims[dim].taps for dim in windowed) > MAX_TAPS:
        return Refusal("its windows are of more than two dimensions, or too long")
    return source, combined.name, dims, sizes, windowed


def _along(form: LinearIndex, dim: int, view: Structured, size: int, low: int) -> Windows | None:
    """The windows that an index walks along a dimension."""
    rank = len(view.loops_of("parallel"))
    taps = [loop for loop in form.loops if loop >= rank]
    outputs, stride = view.bounds[dim], form.coefficient(dim)
    if form.constant or set(form.loops) - {dim, *taps} or len(taps) > 1 or outputs is None:
        return None
    if stride < 1 and outputs > 1:
        return None
    if not taps:
        return Windows(size, outputs, 1, max(1, stride), 1, low)
    count, dilation = view.bounds[taps[0]], form.coefficient(taps[0])
    if count is None or dilation < 1:
        return None
    return Windows(size, outputs, count, max(1, stride), dilation, low)


def _fill_of(pad: tensor.PadOp) -> float | None:
    block = pad.region.block
    terminator = block.last_op
    assert terminator is not None
    number = scalar_constant(terminator.operands[0])
    return number.value.data if isinstance(number, FloatAttr) else None


def _followed(
    pool: Pool,
    windowed: Sequence[int],
    computing: Sequence[Operation],
    results: Sequence[SSAValue],
    argument: Callable[[SSAValue], int],
) -> Pool | Refusal:
    """A pool with the elementwise ops behind it."""
    value: SSAValue = computing[0].results[0]
    steps: list[ScalarOp] = []
    tables: list[Table] = []
    term: Term = Sum()
    for op in computing[1:]:
        view = structured(op)
        if view is None or set(view.iterators) != {"parallel"} or len(op.results) != 1:
            return Refusal(f"{op.name} follows it")
        known: dict[SSAValue, Term] = {}
        for place, operand in enumerate(view.inputs):
            constant = constant_fill_of(operand)
            if operand is value and _is_whole(view.maps[place], len(view.iterators)):
                known[view.body.args[place]] = term
            elif constant is not None:
                known[view.body.args[place]] = Constant(constant)
            elif pool.inner == 1 and _is_table(view, place, windowed):
                whole = len(view.maps[place].results) == len(view.iterators)
                plane = pool.rows.outputs * pool.columns.outputs if whole else 0
                known[view.body.args[place]] = Operand(len(tables))
                tables.append(Table(argument(operand), plane))
            else:
                return Refusal("it is followed by what reads another tensor")
        if not _is_whole(view.init_maps[0], len(view.iterators)):
            return Refusal("its result is transposed")
        for each in view.body.ops:
            for x in each.operands:
                if x not in known and isinstance(x.owner, arith.ConstantOp):
                    known[x] = Constant(x.owner.value)
            if each.has_trait(IsTerminator):
                term = known.get(each.operands[0], term)
            elif isinstance(each, arith.ConstantOp):
                known[each.result] = Constant(each.value)
            elif unsupported_step(each, "f32") or any(x not in known for x in each.operands):
                return Refusal(f"{each.name} follows it")
            else:
                steps.append(ScalarOp.of(each, [known[x] for x in each.operands]))
                known[each.results[0]] = Result(len(steps) - 1)
        value = op.results[0]
    if list(results) != [value] or (steps and term != Result(len(steps) - 1)):
        return Refusal("it has other results")
    kind = cast("TensorType[Attribute]", value.type).element_type
    if kind != f32:
        return Refusal("it is not of f32")
    return Pool(
        pool.argument,
        pool.planes,
        pool.rows,
        pool.columns,
        pool.inner,
        pool.combiner,
        tuple(steps),
        tuple(tables),
    )


def _is_whole(indexing_map: AffineMap, rank: int) -> bool:
    """Whether a map is that of all dimensions, in order."""
    return _dims_of(indexing_map) == list(range(rank))


def _dims_of(indexing_map: AffineMap) -> list[int | None]:
    return [form.bare for form in linear_map(indexing_map) or ()]


def _is_table(view: Structured, place: int, windowed: Sequence[int]) -> bool:
    """Whether an operand has one element for each of the result, or of a plane of it."""
    kind = cast("TensorType[Attribute]", view.inputs[place].type).element_type
    every = list(range(len(view.iterators)))
    return kind == f32 and _dims_of(view.maps[place]) in (every, list(windowed))
