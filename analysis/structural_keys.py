"""Hashable keys that are equal exactly when two operations compute the same from the same values.

Keys hold small numbers in place of types and attributes, so that each of those is hashed in depth
at most once, and values by identity, so that a key stays valid as long as its operation does.
"""

from __future__ import annotations

from functools import wraps
from itertools import count
from threading import local
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from xdsl.ir import Operation
from xdsl.traits import Commutative

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from xdsl.ir import Attribute, Block, Region, SSAValue

Op = TypeVar("Op", bound=Operation)
Given = TypeVarTuple("Given")
Read = TypeVar("Read")

_COMMUTATIVE = frozenset(("arith.addf", "arith.mulf", "arith.maximumf", "arith.minimumf"))
"""Operations that commute without a trait saying so."""

_MOST_REMEMBERED = 256
_remembered: list[dict[Any, Any]] = []
"""What `once_for_equal_bodies` keeps of each function."""


def once_for_equal_bodies(
    read: Callable[[Op, Unpack[Given]], Read],
) -> Callable[[Op, Unpack[Given]], Read]:
    """`read`, called once for all operations whose regions compute the same, as a kernel's do from
    its selection to its launch; until `forget_bodies`.

    Args:
        read: depends on nothing but the regions of its operation, and hashable arguments.
    """
    known: dict[Hashable, Read] = {}
    _remembered.append(known)

    @wraps(read)
    def remembered(op: Op, *given: *Given) -> Read:
        key = (StructuralKeys().of_regions(op), given)
        found = known.get(key)
        if found is None:
            found = read(op, *given)
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            known[key] = found
        return found

    return remembered


def forget_bodies() -> None:
    """Drop what `once_for_equal_bodies` keeps, and this thread's numbers: a program is compiled."""
    for known in _remembered:
        known.clear()
    _of_thread.numbers = _Numbers()


class _Numbers:
    """Numbers that equal types and attributes share. None is given twice in a process, whatever is
    forgotten meanwhile, so that keys with different numbers are never equal by chance."""

    _next = count()

    def __init__(self) -> None:
        self.of_object: dict[int, tuple[int, Attribute]] = {}
        self._of_value: dict[Attribute, int] = {}

    def new(self, attribute: Attribute) -> int:
        """The number of an object that has not been seen."""
        number = self._of_value.get(attribute)
        if number is None:
            number = self._of_value[attribute] = next(self._next)
        self.of_object[id(attribute)] = (number, attribute)  # which keeps its id its own
        return number


class _OfThread(local):
    """What a thread's builders share: compiling hashes the same attributes again and again."""

    def __init__(self) -> None:
        self.numbers = _Numbers()


_of_thread = _OfThread()
_MOST_NUMBERED = 1 << 16
"""Objects after which the next builder begins anew."""


class StructuralKeys:
    """Builds keys. Equal ones of two builders mean the same too, but one of two threads, or that
    have numbered many attributes between them, may build different ones."""

    def __init__(self) -> None:
        if len(_of_thread.numbers.of_object) > _MOST_NUMBERED:
            _of_thread.numbers = _Numbers()
        self._numbers = _of_thread.numbers
        self._commutes: dict[type[Operation], bool] = {}
        self._region_keys: dict[Operation, Hashable] = {}

    def without_regions(self, op: Operation) -> Hashable:
        """The name, operands, result types, attributes and properties of `op`."""
        return self._shallow(op, {}, {})

    def of_regions(self, op: Operation) -> Hashable:
        """What the regions of `op` compute, whatever their values and blocks are called."""
        key = self._region_keys.get(op)
        if key is None:
            values: dict[SSAValue, int] = {}
            blocks: dict[Block, int] = {}
            for region in op.regions:
                _number(region, values, blocks)
            key = tuple(self._region(region, values, blocks) for region in op.regions)
            self._region_keys[op] = key
        return key

    def _shallow(
        self, op: Operation, values: Mapping[SSAValue, int], blocks: Mapping[Block, int]
    ) -> Hashable:
        operands: list[Hashable] = [values.get(operand, operand) for operand in op.operands]
        if len(operands) == 2 and self._is_commutative(type(op)):
            operands.sort(key=hash)
        return (
            op.name,
            tuple(operands),
            tuple([self._number(result.type) for result in op.results]),
            self._dictionary(op.properties),
            self._dictionary(op.attributes),
            tuple([blocks.get(successor, successor) for successor in op.successors]),
            len(op.regions),
        )

    def _region(
        self, region: Region, values: Mapping[SSAValue, int], blocks: Mapping[Block, int]
    ) -> Hashable:
        return tuple(
            (
                tuple(self._number(arg.type) for arg in block.args),
                tuple(
                    (
                        self._shallow(op, values, blocks),
                        tuple(self._region(nested, values, blocks) for nested in op.regions),
                    )
                    for op in block.ops
                ),
            )
            for block in region.blocks
        )

    def _dictionary(self, attributes: Mapping[str, Attribute]) -> Hashable:
        if not attributes:
            return None
        return frozenset((name, self._number(value)) for name, value in attributes.items())

    def _number(self, attribute: Attribute) -> int:
        """A number that equal attributes share; an object seen before is not hashed again."""
        seen = self._numbers.of_object.get(id(attribute))
        return self._numbers.new(attribute) if seen is None else seen[0]

    def _is_commutative(self, op_class: type[Operation]) -> bool:
        commutes = self._commutes.get(op_class)
        if commutes is None:
            commutes = op_class.name in _COMMUTATIVE or op_class.has_trait(
                Commutative, value_if_unregistered=False
            )
            self._commutes[op_class] = commutes
        return commutes


def _number(region: Region, values: dict[SSAValue, int], blocks: dict[Block, int]) -> None:
    """Number every value and block of `region`, in the order of the text."""
    for block in region.blocks:
        blocks[block] = len(blocks)
        for arg in block.args:
            values[arg] = len(values)
        for op in block.ops:
            for result in op.results:
                values[result] = len(values)
            for nested in op.regions:
                _number(nested, values, blocks)
