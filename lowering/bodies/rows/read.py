"""Reading a kernel's body as passes over rows.

Axes are found by unification: what one loop of an op indexes is one axis in all of its operands. A
reshape takes an axis apart, in every tensor that has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    TensorType,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr
from xdsl.traits import IsTerminator

from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.analysis.values.zeros import constant_fill_of
from convir.lowering.bodies.contraction.scalar_program import Result, ScalarOp
from convir.lowering.bodies.rows.axes import Axes
from convir.lowering.bodies.rows.program import (
    COMBINERS,
    Access,
    Load,
    Number,
    Reduction,
    RowProgram,
    Step,
    Store,
)
from convir.lowering.kernels.host.code.scalar_steps import unsupported_step
from convir.lowering.loops.pointwise import is_pointwise, on_scalars

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from convir.analysis.structured import Structured
    from convir.lowering.bodies.contraction.spec import ComputeType, StorageType
    from convir.lowering.bodies.rows.axes import Dim
    from convir.lowering.bodies.rows.program import Node

_STORAGE: Mapping[type[Attribute], StorageType] = {
    Float16Type: "f16",
    BFloat16Type: "bf16",
    Float32Type: "f32",
    Float64Type: "f64",
}
_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
_FREE = ("tensor.empty", "tensor.splat", "arith.constant", "linalg.fill")


class UnreadableError(Exception):
    """Why a body is no passes over rows."""


@dataclass(frozen=True)
class RowRules:
    """What a device's kernels take of rows."""

    unsupported: Callable[[Operation, ComputeType], str | None]
    """Why an element of that type is not computed by a scalar op; None if it is."""
    takes_apart: bool
    """Whether a dimension that the ops compute may be several, of which one is along rows."""


ON_HOST: Final = RowRules(unsupported_step, takes_apart=False)
"""Vectors of a CPU."""


def read_rows(
    ops: Sequence[Operation],
    results: Sequence[SSAValue],
    argument: Callable[[SSAValue], int],
    rules: RowRules = ON_HOST,
) -> RowProgram | Refusal:
    """The passes over rows that `ops` are, or why they are none.

    Args:
        ops: what is computed, in order.
        results: the tensors that are written to memory.
        argument: the number of a tensor that the ops read and do not compute.
        rules: of the device.
    """
    try:
        return _Reader(argument, rules).program(ops, results)
    except UnreadableError as reason:
        return Refusal(str(reason))


@dataclass
class _Reader:
    argument: Callable[[SSAValue], int]
    rules: RowRules
    _nodes: list[Node] = field(default_factory=list["Node"])
    _numbers: dict[Node, int] = field(default_factory=dict["Node", int])
    _known: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The node that each tensor is."""
    _dims: dict[SSAValue, tuple[Dim, ...]] = field(
        default_factory=dict[SSAValue, "tuple[Dim, ...]"]
    )
    """The axes of each of a tensor's dimensions."""
    _axes: Axes = field(default_factory=Axes)
    _loads: list[SSAValue] = field(default_factory=list[SSAValue])
    _ops: list[tuple[Dim, Dim]] = field(default_factory=list["tuple[Dim, Dim]"])
    """The parallel and the reduced axes of each op."""

    def program(self, ops: Sequence[Operation], results: Sequence[SSAValue]) -> RowProgram:
        self._inside = {result for op in ops for result in op.results}
        for op in ops:
            if op.name in _FREE or op.name in _RESHAPES or op.has_trait(IsTerminator):
                continue
            view = structured(op)
            if view is not None:
                self._structured(view)
            elif is_pointwise(op):
                self._pointwise(op)
            else:
                raise UnreadableError(f"it holds {op.name}")
        stored = [self._resolved(value) for value in results]
        axes, reduced = self._order(results)
        stores = tuple(
            Store(node, self._access(value, number, axes))
            for number, (node, value) in enumerate(zip(stored, results, strict=True))
        )
        loads = iter(self._loads)
        nodes = tuple(
            Load(self._access(next(loads), node.source.index, axes), node.kind)
            if isinstance(node, Load)
            else node
            for node in self._nodes
        )
        self._check_stores(results, axes, reduced)
        if not self.rules.takes_apart and self._axes.are_apart:
            raise UnreadableError("it reshapes what it computes")
        program = RowProgram(
            self._element(nodes),
            tuple(self._axes.size(axis) for axis in axes),
            tuple(axis in reduced for axis in axes),
            nodes,
            stores,
        )
        return _merged(program)

    # Values.

    def _resolved(self, value: SSAValue) -> int:
        """The node that a tensor is."""
        if value in self._known:
            return self._known[value]
        value_type = value.type
        if not isinstance(value_type, TensorType):
            raise UnreadableError("it reads a scalar that is no constant")
        kind = cast("TensorType[Attribute]", value_type)
        shape = kind.get_shape()
        if min(shape, default=1) < 1:
            raise UnreadableError("a size is dynamic, or 0")
        constant = constant_fill_of(value)
        if isinstance(constant, FloatAttr):
            self._dims[value] = self._axes.of_shape(shape)
            return self._know(value, Number(constant))
        owner = value.owner
        if isinstance(owner, Operation) and owner.name in _RESHAPES and self._is_inside(value):
            source = owner.operands[0]
            self._known[value] = self._resolved(source)
            dims = self._axes.reshaped(self._dims[source], shape)
            if dims is None:
                raise UnreadableError("it reshapes what it computes")
            self._dims[value] = dims
            return self._known[value]
        if value in self._inside:
            raise UnreadableError(f"it reads a result of {cast('Operation', owner).name}")
        element = _float_of(kind)
        self._dims[value] = self._axes.of_shape(shape)
        self._loads.append(value)
        source = Access(self.argument(value), _STORAGE[type(element)], ())
        self._nodes.append(Load(source, element))
        self._known[value] = len(self._nodes) - 1
        return self._known[value]

    def _is_inside(self, value: SSAValue) -> bool:
        """Whether a reshape is of something that the ops compute."""
        while isinstance(value.owner, Operation) and value.owner.name in _RESHAPES:
            value = value.owner.operands[0]
        return value in self._inside

    def _know(self, value: SSAValue, node: Node) -> int:
        self._known[value] = self._number(node)
        return self._known[value]

    def _number(self, node: Node) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self._nodes)
            self._nodes.append(node)
        return self._numbers[node]

    # Ops.

    def _pointwise(self, op: Operation) -> None:
        (result,) = op.results
        shape = cast("TensorType[Attribute]", result.type).get_shape()
        operands = [self._resolved(x) for x in op.operands]
        self._dims[result] = self._axes.of_shape(shape)
        for x in op.operands:
            for mine, other in zip(self._dims[result], self._dims[x], strict=True):
                self._unify(mine, other)
        scalars = [arith.ConstantOp(FloatAttr(0.0, _float_of(x.type))) for x in op.operands]
        scalar = on_scalars(op, [each.result for each in scalars])
        self._step(scalar, operands, result)
        self._ops.append((tuple(axis for dim in self._dims[result] for axis in dim), ()))

    def _structured(self, view: Structured) -> None:
        loops = self._axes.of_shape([self._bound(bound) for bound in view.bounds])
        arguments: list[int | None] = []
        for number, (operand, indexing_map) in enumerate(
            zip(view.operands, view.maps, strict=True)
        ):
            is_read = bool(view.body.args[number].uses)
            if number >= len(view.inputs):
                continue
            arguments.append(self._resolved(operand) if is_read else None)
            if is_read:
                self._place(self._dims[operand], indexing_map.results, loops)
        kinds = zip(loops, view.iterators, strict=True)
        named = [(axis, kind) for dim, kind in kinds for axis in dim]
        reduced = tuple(axis for axis, kind in named if kind == "reduction")
        if any(kind not in ("parallel", "reduction") for kind in view.iterators):
            raise UnreadableError("it goes over windows")
        self._ops.append((tuple(a for a, kind in named if kind == "parallel"), reduced))
        for result, init, init_map in zip(view.op.results, view.inits, view.init_maps, strict=True):
            shape = cast("TensorType[Attribute]", result.type).get_shape()
            self._dims[result] = self._axes.of_shape(shape)
            self._place(self._dims[result], init_map.results, loops)
            out = view.body.args[len(view.inputs) + list(view.op.results).index(result)]
            if out.uses:
                arguments.append(self._resolved(init))
                self._place(self._dims[init], init_map.results, loops)
            else:
                arguments.append(None)
        if not reduced:  # Of a reduction of one element, what it adds to is an operand.
            self._body(view, arguments)
            return
        if len(view.op.results) != 1:
            raise UnreadableError("a reduction has several results")
        self._reduction(view, arguments)

    def _bound(self, bound: int | None) -> int:
        if not bound:
            raise UnreadableError("a size is dynamic, or 0")
        return bound

    def _place(
        self,
        dims: Sequence[Dim],
        exprs: Sequence[object],
        loops: Sequence[Dim],
    ) -> None:
        for dim, expr in zip(dims, exprs, strict=True):
            if isinstance(expr, AffineDimExpr):
                self._unify(dim, loops[expr.position])
            elif not isinstance(expr, AffineConstantExpr) or dim:
                raise UnreadableError("it reads elements at an index that is not a loop's")

    def _body(self, view: Structured, arguments: Sequence[int | None]) -> None:
        known = dict(zip(view.body.args, arguments, strict=True))
        terminator = view.body.last_op
        assert terminator is not None
        for value, result in zip(terminator.operands, view.op.results, strict=True):
            self._known[result] = self._scalar(value, view, known)

    def _reduction(self, view: Structured, arguments: Sequence[int | None]) -> None:
        known = dict(zip(view.body.args, arguments, strict=True))
        terminator = view.body.last_op
        assert terminator is not None
        out, init = view.body.args[-1], arguments[-1]
        combiner = terminator.operands[0].owner
        if not isinstance(combiner, Operation) or combiner.name not in COMBINERS or init is None:
            raise UnreadableError("its reduction is no sum, product, maximum or minimum")
        others = [x for x in combiner.operands if x is not out]
        if len(others) != 1 or len(list(out.uses)) != 1:
            raise UnreadableError("its reduction uses the total twice")
        known.pop(out)
        operand = self._scalar(others[0], view, known)
        kind = _float_of(out.type)
        if isinstance(kind, Float16Type | BFloat16Type) and combiner.name in (
            "arith.addf",
            "arith.mulf",
        ):
            raise UnreadableError(f"it sums in {kind}")
        node = Reduction(combiner.name, operand, init, kind)
        self._known[view.op.results[0]] = self._number(node)

    def _scalar(
        self, value: SSAValue, view: Structured, known: dict[BlockArgument, int | None]
    ) -> int:
        """The node of a scalar of a body."""
        of = cast("dict[SSAValue, int | None]", known)
        for op in view.body.ops:
            if isinstance(op, linalg.ops.IndexOp):
                raise UnreadableError("it computes with the index of an element")
            if op.has_trait(IsTerminator) or not all(_is_known(x, of) for x in op.operands):
                continue
            if isinstance(op, arith.ConstantOp):
                of[op.result] = self._constant(op.result)
            elif op.results[0] not in of:
                operands = [self._constant(x) if x not in of else of[x] for x in op.operands]
                if None in operands or op.regions or len(op.results) != 1:
                    raise UnreadableError(f"it holds {op.name}")
                of[op.results[0]] = self._step(op, cast("list[int]", operands))
        found = of[value] if value in of else self._constant(value)
        if found is None:
            raise UnreadableError("it reads what nothing was written to")
        return found

    def _constant(self, value: SSAValue) -> int:
        op = value.owner
        if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, FloatAttr):
            raise UnreadableError("it reads a scalar that is no constant")
        return self._number(Number(op.value))

    def _step(self, op: Operation, operands: Sequence[int], result: SSAValue | None = None) -> int:
        is_wide = any(isinstance(x.type, Float64Type) for x in (*op.operands, *op.results))
        reason = self.rules.unsupported(op, "f64" if is_wide else "f32")
        if reason is not None:
            raise UnreadableError(f"it {reason}")
        number = self._number(Step(ScalarOp.of(op, [Result(operand) for operand in operands])))
        if result is not None:
            self._known[result] = number
        return number

    def _element(self, nodes: Sequence[Node]) -> ComputeType:
        kinds = {type(node.kind) for node in nodes if isinstance(node, Load | Reduction)}
        if Float64Type not in kinds:
            return "f32"
        if kinds != {Float64Type}:
            raise UnreadableError("it computes in f64 and in other types")
        return "f64"

    # Axes.

    def _unify(self, a: Dim, b: Dim) -> None:
        if not self._axes.unify(a, b):
            raise UnreadableError("it reads a dimension in part")

    def _order(self, results: Sequence[SSAValue]) -> tuple[list[int], set[int]]:
        """The axes, the innermost last, and those that rows extend along."""
        found: set[int] = set()
        rows: set[frozenset[int]] = set()
        counted: set[int] = set()
        for parallel, reduced in self._ops:
            kept, gone = (self._axes.leaves(axes) for axes in (parallel, reduced))
            if len({*kept, *gone}) < len(kept) + len(gone):
                raise UnreadableError("it reads one dimension by two loops")
            found |= {*kept, *gone}
            if gone:
                rows.add(frozenset(gone))
                counted |= set(kept)
        if len(rows) != 1:
            why = "reduces over different dimensions" if rows else "reduces nothing"
            raise UnreadableError(f"it {why}")
        (reduced_axes,) = rows
        if reduced_axes & counted:
            raise UnreadableError("it reduces over a dimension, and over rows along it")
        widest = max((*self._loads, *results), key=lambda value: len(self._order_of(value)))
        order = self._order_of(widest)
        if set(order) != found or len(order) != len(found):
            raise UnreadableError("none of its tensors has all dimensions")
        return order, set(reduced_axes)

    def _order_of(self, value: SSAValue) -> list[int]:
        return [axis for dim in self._dims[value] for axis in self._axes.leaves(dim)]

    def _access(self, value: SSAValue, index: int, axes: Sequence[int]) -> Access:
        steps: dict[int, int] = {}
        step = 1
        order = self._order_of(value)
        for axis in reversed(order):
            steps[axis] = step
            step *= self._axes.size(axis)
        if len(steps) < len(order):
            raise UnreadableError("it reads one dimension by two loops")
        kind = _STORAGE[type(_float_of(value.type))]
        return Access(index, kind, tuple(steps.get(axis, 0) for axis in axes))

    def _check_stores(
        self, results: Sequence[SSAValue], axes: Sequence[int], reduced: set[int]
    ) -> None:
        for value in results:
            missing = set(axes) - set(self._order_of(value))
            if missing not in (set(), reduced):
                raise UnreadableError("a result has neither all dimensions nor one element a row")


def _is_known(value: SSAValue, known: dict[SSAValue, int | None]) -> bool:
    return value in known or isinstance(value.owner, Operation)


def _float_of(kind: Attribute) -> AnyFloat:
    element = (
        cast("TensorType[Attribute]", kind).element_type if hasattr(kind, "element_type") else kind
    )
    if type(element) not in _STORAGE:
        raise UnreadableError(f"it holds elements of type {element}")
    return cast("AnyFloat", element)


def _merged(program: RowProgram) -> RowProgram:
    """The program with axes that lie behind each other in all tensors as one."""
    accesses = [node.source for node in program.nodes if isinstance(node, Load)]
    accesses += [store.target for store in program.stores]
    groups: list[list[int]] = []
    for axis in range(len(program.sizes)):
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and program.reduced[last] == program.reduced[axis]
            and all(a.strides[last] == a.strides[axis] * program.sizes[axis] for a in accesses)
        ):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if any(access.strides[-1] not in (0, 1) for access in accesses):
        raise UnreadableError("neighbours in one tensor are none in another")

    def kept(access: Access) -> Access:
        return Access(
            access.index, access.type, tuple(access.strides[group[-1]] for group in groups)
        )

    return RowProgram(
        program.element,
        tuple(prod(program.sizes[axis] for axis in group) for group in groups),
        tuple(program.reduced[group[-1]] for group in groups),
        tuple(
            Load(kept(node.source), node.kind) if isinstance(node, Load) else node
            for node in program.nodes
        ),
        tuple(Store(store.node, kept(store.target)) for store in program.stores),
    )
