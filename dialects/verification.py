"""Verifying a module in one walk, in the order of the text.

Beside what xDSL checks, every operand must be defined before its use, on every path and in a
region around it. Faster than xDSL's own verification all the same: an op whose rules see nothing
but types and properties (those of the scalar and tensor dialects, generics, fills) is checked
once for each combination of those.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr, UnregisteredOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import BlockArgument, OpResult
from xdsl.irdl import IRDLOperation
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, NoTerminator, SymbolTable

from convir.dialects.compat.errors import reason_of
from convir.dialects.dominance import dominator_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

    _Signature = tuple[object, ...]

_SELF_CONTAINED_DIALECTS = frozenset(("arith", "math", "tensor"))
GRAPH_REGION_DIALECTS = frozenset(("builtin", "hw"))
"""Dialects whose regions order nothing: a value may stand after its use."""


class _Sight(Enum):
    """What the rules of an op class look at."""

    OWN_TYPES = auto()
    """The types of operands and results, and the properties."""
    OWN_TYPES_AND_YIELD = auto()
    """Those, and the types of the one body's arguments and yielded values."""
    SURROUNDINGS = auto()
    """Other ops too."""


class InvalidOpError(Exception):
    """An op breaks a rule."""

    def __init__(self, op: Operation, reason: Exception | str):
        super().__init__(reason)
        self.op = op
        """The op at fault."""
        told = reason if isinstance(reason, str) else reason_of(reason)
        self.reason = told or "is malformed"
        """What is wrong, in one line."""


def check(module: Operation) -> None:
    """Verify `module` and every op inside.

    Raises:
        InvalidOpError: the first op, in the order of the text, that is wrong.
    """
    try:
        _Walk().visit(module)
    except RecursionError:
        raise InvalidOpError(module, "is nested too deeply") from None


class _Types:
    """Equal types have equal numbers; each object is compared once, as that takes long."""

    def __init__(self) -> None:
        self._equal: dict[Attribute | None, int] = {}
        self._numbers: dict[int, int] = {}
        self._seen: list[Attribute | None] = []
        """Keeps the objects alive, so that no identity is given twice."""

    def number(self, seen: Attribute | None) -> int:
        """The number of a type, or of what stands between types."""
        number = self._numbers.get(id(seen))
        if number is None:
            number = self._equal.setdefault(seen, len(self._equal))
            self._numbers[id(seen)] = number
            self._seen.append(seen)
        return number


class _Walk:
    def __init__(self) -> None:
        self._visible: set[SSAValue] = set()
        self._verified: set[_Signature] = set()
        self._types = _Types()
        self._sights: dict[type[Operation], _Sight] = {}

    def visit(self, op: Operation) -> None:
        visible = self._visible
        if op.successors and op.next_op is not None:
            raise InvalidOpError(op, "has successors but is not the last op of its block")
        for index, operand in enumerate(op.operands):
            if operand not in visible:
                raise InvalidOpError(op, f"operand #{index} {_why_invisible(op, operand)}")
        # Such an op would itself report what an op inside captures, so those go first.
        isolated = bool(op.regions) and op.has_trait(IsolatedFromAbove, value_if_unregistered=False)
        if isolated:
            self._visible = set()
            self._visit_regions(op)
            self._visible = visible
        try:
            self._verify(op)
        except Exception as error:
            raise InvalidOpError(op, error) from error
        if not isolated:
            self._visit_regions(op)
        visible.update(op.results)

    def _verify(self, op: Operation) -> None:
        op_class = type(op)
        sight = self._sights.get(op_class)
        if sight is None:
            sight = self._sights[op_class] = _sight_of(op)
        if sight is _Sight.SURROUNDINGS:
            op.verify_()
            return
        types: tuple[Attribute | None, ...] = (*op.operand_types, None, *op.result_types)
        if sight is _Sight.OWN_TYPES_AND_YIELD:
            body = op.regions[0].blocks.first if op.regions else None
            if body is None or body.next_block is not None or body.last_op is None:
                op.verify_()
                return
            terminator = body.last_op
            types = (*types, *body.arg_types, None, *terminator.operand_types)
            op_class = (op_class, type(terminator))
        signature = (op_class, *map(self._types.number, types), *op.properties.items())
        if signature not in self._verified:
            op.verify_()
            self._verified.add(signature)

    def _visit_regions(self, op: Operation) -> None:
        for region in op.regions:
            self._visit_region(op, region)

    def _visit_region(self, op: Operation, region: Region) -> None:
        entry = region.blocks.first
        if entry is None:
            return
        _check_terminators(op, region)
        if op.has_trait(SymbolTable, value_if_unregistered=False):
            _check_symbols(region)
        if isinstance(op, UnregisteredOp) or op.dialect_name() in GRAPH_REGION_DIALECTS:
            self._visit_unordered(region.blocks, seen=region.blocks)
            return
        if entry.next_block is None:
            defined = self._visit_block(entry)
            self._visible.difference_update(defined)
            return
        self._visit_branching(region, entry)

    def _visit_block(self, block: Block) -> list[SSAValue]:
        """Visit the ops of a block; the values that it has made visible."""
        self._visible.update(block.args)
        defined: list[SSAValue] = list(block.args)
        for op in block.ops:
            self.visit(op)
            defined.extend(op.results)
        return defined

    def _visit_unordered(self, blocks: Iterable[Block], seen: Iterable[Block]) -> None:
        """Visit `blocks`, where every value of the blocks `seen` may be used."""
        defined: list[SSAValue] = []
        for block in seen:
            defined.extend(block.args)
            for op in block.ops:
                defined.extend(op.results)
        outside = [value for value in defined if value not in self._visible]
        self._visible.update(outside)
        for block in blocks:
            for op in block.ops:
                self.visit(op)
        self._visible.difference_update(outside)

    def _visit_branching(self, region: Region, entry: Block) -> None:
        tree = dominator_tree(region)
        # A block's values are seen by the blocks that it dominates: those below it in the tree.
        pending: list[Block | list[SSAValue]] = [entry]
        while pending:
            item = pending.pop()
            if isinstance(item, list):
                self._visible.difference_update(item)
                continue
            pending.append(self._visit_block(item))
            pending.extend(reversed(tree[item]))
        # Nothing runs in a block that no path reaches, so anything may be used there.
        unreached = [block for block in region.blocks if block not in tree]
        if unreached:
            self._visit_unordered(unreached, seen=region.blocks)


def _why_invisible(op: Operation, operand: SSAValue) -> str:
    if not isinstance(operand, OpResult | BlockArgument):
        return "is never defined"
    around = op.parent_op()
    while around is not None and not around.is_ancestor(operand.owner):
        if around.has_trait(IsolatedFromAbove, value_if_unregistered=False):
            return f"is defined outside of the isolated '{around.name}' around this use"
        around = around.parent_op()
    return "does not dominate this use"


def _check_terminators(op: Operation, region: Region) -> None:
    """Blocks end with a terminator, whose successors are blocks of the same region."""
    several = region.blocks.first is not region.blocks.last
    if not several and op.has_trait(NoTerminator, value_if_unregistered=True):
        return
    for block in region.blocks:
        last = block.last_op
        if last is None:
            raise InvalidOpError(op, "expects a terminator at the end of each block")
        if not last.has_trait(IsTerminator, value_if_unregistered=True):
            raise InvalidOpError(last, "stands at the end of a block but is not a terminator")
        if any(successor.parent is not region for successor in last.successors):
            raise InvalidOpError(last, "branches to a block of another region")


def _check_symbols(region: Region) -> None:
    seen: set[str] = set()
    for op in (op for block in region.blocks for op in block.ops):
        name = op.get_attr_or_prop("sym_name")
        if not isinstance(name, StringAttr):
            continue
        if name.data in seen:
            raise InvalidOpError(op, f"redefinition of symbol named '{name.data}'")
        seen.add(name.data)


def _sight_of(op: Operation) -> _Sight:
    if isinstance(op, linalg.GenericOp | linalg.FillOp):
        return _Sight.OWN_TYPES_AND_YIELD
    if isinstance(op, UnregisteredOp) or op.dialect_name() not in _SELF_CONTAINED_DIALECTS:
        return _Sight.SURROUNDINGS
    if not isinstance(op, IRDLOperation) or op.get_irdl_definition().attributes:
        return _Sight.SURROUNDINGS
    if op.regions or op.has_trait(IsTerminator) or op.has_trait(HasParent):
        return _Sight.SURROUNDINGS
    return _Sight.OWN_TYPES
