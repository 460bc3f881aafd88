"""The elementwise ops behind a contraction, read as scalar ops on one element."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from convir.analysis.linear import LinearIndex
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.analysis.values.zeros import constant_fill_of
from convir.lowering.bodies.contraction.scalar_program import (
    Constant,
    Operand,
    ScalarOp,
    ScalarProgram,
)
from convir.lowering.bodies.operand_access import access_of, shape_of
from convir.lowering.loops.pointwise import is_pointwise, is_scalar_op, on_scalars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects import tensor
    from xdsl.ir import Attribute

    from convir.analysis.structured import Structured
    from convir.lowering.bodies.contraction.scalar_program import Term

Forms = tuple[LinearIndex | None, ...]
"""Per dimension of a value its index over the dimensions of the contraction's result; None if it
is not linear in them."""


@dataclass(frozen=True)
class Step:
    """One op of the chain behind a contraction, and the operand that comes from it."""

    op: Operation
    main: SSAValue


@dataclass(frozen=True)
class Read:
    """An element that a functor reads: of which argument, at which index."""

    argument: int
    type: Attribute
    index: tuple[LinearIndex, ...]
    """Per dimension of the argument, over the dimensions of the contraction's result."""
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Functor:
    """What is computed of one element, so far."""

    program: ScalarProgram
    forms: Forms
    """Where the element lies in the value that it has reached."""
    reads: tuple[Read, ...] = ()
    """The operands of the program."""

    def after(self, steps: Sequence[Step]) -> Functor | Refusal:
        """This functor, with `steps` behind it."""
        functor: Functor | Refusal = self
        for step in steps:
            functor = _Writer(functor).write(step)
            if isinstance(functor, Refusal):
                return functor
        return functor

    def reading(self, read: Read) -> tuple[Functor, Operand]:
        """This functor, which reads another element, and the element as an operand."""
        reads = self.reads if read in self.reads else (*self.reads, read)
        return replace(self, reads=reads), Operand(reads.index(read))


@dataclass
class _Writer:
    functor: Functor
    terms: dict[SSAValue, Term] = field(default_factory=dict[SSAValue, "Term"])

    def write(self, step: Step) -> Functor | Refusal:
        op = step.op
        if op.name == "tensor.collapse_shape":
            return self._collapse(cast("tensor.CollapseShapeOp", op))
        if op.name == "tensor.cast":
            return self.functor
        if op.name == "tensor.expand_shape":
            rank = len(shape_of(op.results[0]))
            return replace(self.functor, forms=(None,) * rank)
        if is_pointwise(op):
            return self._pointwise(step)
        view = structured(op)
        if view is None or len(op.results) != 1 or set(view.iterators) != {"parallel"}:
            return Refusal(f"its epilogue holds {op.name}")
        return self._generic(view, step)

    def _collapse(self, op: tensor.CollapseShapeOp) -> Functor:
        shape = shape_of(op.operands[0])
        forms: list[LinearIndex | None] = []
        for group in op.reassociation.data:
            joined: LinearIndex | None = LinearIndex(())
            for dim in (index.value.data for index in group.data):
                form = self.functor.forms[dim]
                known = joined is not None and form is not None
                joined = joined.affine(shape[dim], 0).plus(form) if known else None  # pyright: ignore[reportOptionalMemberAccess, reportArgumentType]
            forms.append(joined)
        return replace(self.functor, forms=tuple(forms))

    def _pointwise(self, step: Step) -> Functor | Refusal:
        op = step.op
        tensors = list(op.operands)
        if not all(isinstance(value.type, TensorType) for value in tensors):
            return Refusal("its epilogue reads a scalar")
        types = [cast("TensorType[Attribute]", t.type).element_type for t in tensors]
        scalars = Block(arg_types=types).args
        identity = tuple(LinearIndex(((i, 1),)) for i in range(len(shape_of(step.main))))
        for value, scalar in zip(tensors, scalars, strict=True):
            refusal = self._bind(scalar, value, identity, step)
            if refusal is not None:
                return refusal
        return self._define(on_scalars(op, scalars))

    def _generic(self, view: Structured, step: Step) -> Functor | Refusal:
        identity = [LinearIndex(((i, 1),)) for i in range(len(view.iterators))]
        for value, forms, scalar in zip(view.operands, view.forms, view.body.args, strict=True):
            is_placed = value is step.main or value in view.inits
            if forms is None or (is_placed and list(forms) != identity):
                return Refusal("its epilogue rearranges elements")
            if value in view.inits and not scalar.uses:
                continue
            refusal = self._bind(scalar, value, forms, step)
            if refusal is not None:
                return refusal
        yielded = view.body.last_op
        assert yielded is not None
        for op in view.body.ops:
            if op is yielded:
                break
            if len(op.results) != 1 or op.regions or not is_scalar_op(op):
                return Refusal(f"its epilogue holds {op.name}")
            defined = self._define(op)
            if isinstance(defined, Refusal):
                return defined
            self.functor = defined
        (value,) = yielded.operands
        term = self._term(value)
        if isinstance(term, Refusal):
            return term
        return replace(self.functor, program=replace(self.functor.program, value=term))

    def _bind(
        self, scalar: BlockArgument, value: SSAValue, index: Sequence[LinearIndex], step: Step
    ) -> Refusal | None:
        """Name the element of `value` that `scalar` stands for."""
        if value is step.main:
            self.terms[scalar] = self.functor.program.value
            return None
        constant = constant_fill_of(value)
        if constant is not None:
            self.terms[scalar] = Constant(constant)
            return None
        if not isinstance(value.type, TensorType):
            return Refusal("its epilogue reads a scalar")
        access = access_of(value, index)
        if isinstance(access, Refusal) or access.padded:
            return Refusal("its epilogue reads a value that the kernel computes")
        forms: list[LinearIndex] = []
        for form in access.index:
            needed = [self.functor.forms[dim] for dim in form.loops]
            if None in needed:
                return Refusal("its epilogue reads different elements in each phase")
            known = [f if f is not None else LinearIndex(()) for f in self.functor.forms]
            forms.append(form.composed(known))
        root_type = cast("TensorType[Attribute]", access.root.type)
        read = Read(access.root.index, root_type.element_type, tuple(forms), root_type.get_shape())
        self.functor, self.terms[scalar] = self.functor.reading(read)
        return None

    def _define(self, op: Operation) -> Functor | Refusal:
        if isinstance(op, arith.ConstantOp):
            return self.functor
        terms: list[Term] = []
        for operand in op.operands:
            term = self._term(operand)
            if isinstance(term, Refusal):
                return term
            terms.append(term)
        program = self.functor.program.followed_by(ScalarOp.of(op, terms))
        self.terms[op.results[0]] = program.value
        self.functor = replace(self.functor, program=program)
        return self.functor

    def _term(self, value: SSAValue) -> Term | Refusal:
        """What stands for `value`: it is known, or a constant, wherever that is defined."""
        if value in self.terms:
            return self.terms[value]
        if not isinstance(value.owner, arith.ConstantOp):
            return Refusal("its epilogue reads a value from outside of its body")
        return Constant(value.owner.value)
