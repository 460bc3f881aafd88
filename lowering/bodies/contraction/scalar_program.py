"""What follows a contraction, on one element: scalar ops on its sum and on further operands.

A program is plain data, so that equal ones compare equal and plans can be kept by them. Devices
print it from `as_block`, whose ops are the scalar ops of `arith` and `math`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.dialects import arith, math
from xdsl.ir import Attribute, Block, Operation, SSAValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OF_A_FEW_INSTRUCTIONS = (
    math.AbsFOp,
    math.AbsIOp,
    math.CeilOp,
    math.CopySignOp,
    math.FloorOp,
    math.FmaOp,
    math.RoundEvenOp,
    math.RoundOp,
    math.TruncOp,
)


@dataclass(frozen=True)
class Sum:
    """The sum that the contraction gives."""


@dataclass(frozen=True)
class Operand:
    """The element of a further operand."""

    number: int


@dataclass(frozen=True)
class Result:
    """What an earlier step gives."""

    step: int


@dataclass(frozen=True)
class Constant:
    """A number or a truth value."""

    value: Attribute


Term: TypeAlias = Sum | Operand | Result | Constant


@dataclass(frozen=True)
class ScalarOp:
    """One op of a program."""

    kind: type[Operation]
    operands: tuple[Term, ...]
    result: Attribute
    """The type of what it gives."""
    properties: tuple[tuple[str, Attribute], ...]
    attributes: tuple[tuple[str, Attribute], ...]

    @staticmethod
    def of(op: Operation, operands: Sequence[Term]) -> ScalarOp:
        """`op`, which has one result and no region, on other operands."""
        return ScalarOp(
            type(op),
            tuple(operands),
            op.results[0].type,
            tuple(op.properties.items()),
            tuple(op.attributes.items()),
        )


@dataclass(frozen=True)
class ScalarProgram:
    """Steps in order, and which term is the value of all of them."""

    value: Term
    steps: tuple[ScalarOp, ...] = ()

    @property
    def has_functions(self) -> bool:
        """Whether a step is a transcendental function, or a root."""
        return any(
            step.kind.name.startswith("math.") and step.kind not in _OF_A_FEW_INSTRUCTIONS
            for step in self.steps
        )

    @property
    def only_converts(self) -> bool:
        """Whether it is the sum, converted between types and nothing else: zeros stay zeros."""
        reached: Term = Sum()
        for number, step in enumerate(self.steps):
            if not issubclass(step.kind, arith.TruncFOp | arith.ExtFOp):
                return False
            if step.operands != (reached,):
                return False
            reached = Result(number)
        return self.value == reached

    @property
    def reads_operands(self) -> bool:
        """Whether an operand besides the sum is read."""
        terms = (self.value, *(term for step in self.steps for term in step.operands))
        return any(isinstance(term, Operand) for term in terms)

    def followed_by(self, step: ScalarOp) -> ScalarProgram:
        """This program with one more step, whose result is the value."""
        return ScalarProgram(Result(len(self.steps)), (*self.steps, step))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Every constant that occurs."""
        terms = [term for step in self.steps for term in step.operands]
        return tuple(
            dict.fromkeys(term for term in (*terms, self.value) if isinstance(term, Constant))
        )

    def as_block(self, total: Attribute, operands: Sequence[Attribute]) -> ScalarBlock:
        """The program as ops on the arguments of a block.

        Args:
            total: the type of the sum.
            operands: the types of the further operands.
        """
        block = Block(arg_types=[total, *operands])
        known: dict[Term, SSAValue] = {Sum(): block.args[0]}
        known |= {Operand(i): argument for i, argument in enumerate(block.args[1:])}
        constants: dict[SSAValue, Attribute] = {}
        for constant in self.constants:
            op = arith.ConstantOp(cast("Any", constant.value))
            known[constant] = op.result
            constants[op.result] = constant.value
        for number, step in enumerate(self.steps):
            op = step.kind.create(
                operands=[known[term] for term in step.operands],
                result_types=[step.result],
                properties=dict(step.properties),
                attributes=dict(step.attributes),
            )
            block.add_op(op)
            known[Result(number)] = op.results[0]
        return ScalarBlock(block, known[self.value], constants)


@dataclass(frozen=True)
class ScalarBlock:
    """A program as ops; its arguments are the sum and the further operands."""

    block: Block
    value: SSAValue
    constants: Mapping[SSAValue, Attribute]
    """The values of constants, which stand in no block."""
