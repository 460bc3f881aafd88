"""Elementwise ops on planar tensors as scalar steps; operands are values of the same frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from convir.analysis.linear import linear_map
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.analysis.values.zeros import constant_fill_of
from convir.lowering.bodies.contraction.scalar_program import Constant, Result, ScalarOp
from convir.lowering.bodies.planar.rows import planar_shape
from convir.lowering.kernels.host.code.scalar_steps import unsupported_step
from convir.lowering.loops.pointwise import is_pointwise, on_scalars

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Attribute

    from convir.analysis.structured import Structured
    from convir.lowering.bodies.contraction.scalar_program import Term


@dataclass(frozen=True)
class Elementwise:
    """An op that computes each element of a planar tensor from those at the same place."""

    op: Operation
    aligned: tuple[SSAValue, ...]
    """Planar operands that are read."""
    columns: tuple[SSAValue, ...]
    """Operands with a number for each channel."""
    _arguments: Mapping[SSAValue, SSAValue | Constant]
    """What the arguments of the body are."""
    _body: Block
    _value: SSAValue
    """What the body gives."""

    @property
    def is_sum(self) -> bool:
        """Whether it adds up two planar tensors, and nothing else."""
        computing = _computing(self._body)
        return (
            len(computing) == 1
            and isinstance(computing[0], arith.AddfOp)
            and self._value is computing[0].result
            and set(computing[0].operands) == set(self._body.args[:2])
            and len(set(self.aligned)) == len(self._body.args[:2])
            and not self.columns
        )

    def steps(
        self, terms: Mapping[SSAValue, Term], first: int
    ) -> tuple[tuple[ScalarOp, ...], Term]:
        """The scalar ops of an element, and its value.

        Args:
            terms: the elements of the operands.
            first: how many steps come before.
        """
        known: dict[SSAValue, Term] = {
            argument: source if isinstance(source, Constant) else terms[source]
            for argument, source in self._arguments.items()
        }

        def term(value: SSAValue) -> Term:
            if value in known:
                return known[value]
            return Constant(cast("arith.ConstantOp", value.owner).value)

        steps: list[ScalarOp] = []
        for op in _computing(self._body):
            steps.append(ScalarOp.of(op, [term(operand) for operand in op.operands]))
            known[op.results[0]] = Result(first + len(steps) - 1)
        return tuple(steps), term(self._value)


def elementwise(op: Operation) -> Elementwise | Refusal:
    """`op` as scalar steps, or why it is none."""
    if len(op.results) != 1 or planar_shape(op.results[0]) is None:
        return Refusal(f"{op.name} gives no planar tensor of f32")
    if is_pointwise(op):
        return _pointwise(op)
    view = structured(op)
    if view is None or set(view.iterators) != {"parallel"} or len(view.inits) != 1:
        return Refusal(f"{op.name} is not elementwise")
    return _generic(op, view)


def _pointwise(op: Operation) -> Elementwise | Refusal:
    shape = planar_shape(op.results[0])
    if any(planar_shape(operand) != shape for operand in op.operands):
        return Refusal(f"{op.name} reads no planar tensor of f32")
    body = Block(arg_types=[f32] * len(op.operands))
    scalar = on_scalars(op, body.args)
    body.add_op(scalar)
    reason = unsupported_step(scalar, "f32")
    if reason is not None:
        return Refusal(f"it {reason}")
    arguments = dict[SSAValue, SSAValue | Constant](zip(body.args, op.operands, strict=True))
    return Elementwise(op, tuple(op.operands), (), arguments, body, scalar.results[0])


def _generic(op: Operation, view: Structured) -> Elementwise | Refusal:
    forms = linear_map(view.init_maps[0])
    loops = [form.bare for form in forms] if forms is not None else [None]
    if None in loops or len(set(loops)) != len(view.iterators):
        return Refusal("it does not compute every element once")
    if view.body.args[-1].first_use is not None:
        return Refusal("it reads its init")
    arguments: dict[SSAValue, SSAValue | Constant] = {}
    aligned: list[SSAValue] = []
    columns: list[SSAValue] = []
    for value, indexing_map, argument in zip(
        view.inputs, view.input_maps, view.body.args, strict=False
    ):
        filled = constant_fill_of(value)
        read = [index.bare for index in linear_map(indexing_map) or ()]
        if filled is not None:
            arguments[argument] = Constant(filled)
            continue
        if read == loops and planar_shape(value) is not None:
            aligned.append(value)
        elif read == loops[1:-1] and _holds_f32(value):
            columns.append(value)
        else:
            return Refusal(f"it reads {value.type} elsewhere than at the frame that it computes")
        arguments[argument] = value
    refusal = _body_refusal(view.body)
    if refusal is not None:
        return refusal
    yielded = cast("Operation", view.body.last_op).operands[0]
    return Elementwise(op, tuple(aligned), tuple(columns), arguments, view.body, yielded)


def _body_refusal(body: Block) -> Refusal | None:
    for op in body.ops:
        if any(not _is_known(operand, body) for operand in op.operands):
            return Refusal("it reads a scalar that is computed")
    for op in _computing(body):
        reason = unsupported_step(op, "f32")
        if reason is not None:
            return Refusal(f"it {reason}")
    return None


def _computing(body: Block) -> list[Operation]:
    """The ops of a body but for constants and its end."""
    return [
        op
        for op in body.ops
        if not isinstance(op, arith.ConstantOp) and not op.has_trait(IsTerminator)
    ]


def _holds_f32(value: SSAValue) -> bool:
    kind = cast("TensorType[Attribute]", value.type)
    return isinstance(value.type, TensorType) and kind.element_type == f32


def _is_known(value: SSAValue, body: Block) -> bool:
    owner = value.owner
    return owner is body or isinstance(owner, arith.ConstantOp) or owner.parent is body
