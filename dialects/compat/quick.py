"""Methods of xDSL's IR that do the same in less time.

Half of a compilation's time is spent in these few: they are called for every op, operand and
attribute, many times each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    BlockOps,
    Data,
    Operation,
    OpResult,
    ParametrizedAttribute,
    Region,
    SSAValue,
)
from xdsl.irdl import IRDLOperation, OptionalDef
from xdsl.irdl import operations as irdl_operations

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence


def install() -> None:
    """Replace them; to be called once."""
    for identical in _IDENTICAL:  # as xDSL says too, but as functions of Python's
        identical.__hash__ = object.__hash__  # pyright: ignore[reportAttributeAccessIssue]
        identical.__eq__ = object.__eq__  # pyright: ignore[reportAttributeAccessIssue]
    Operation.walk = _walk
    BlockOps.__iter__ = _ops_of  # pyright: ignore[reportAttributeAccessIssue]
    BlockOps.__len__ = _op_count
    Attribute.__post_init__ = _attribute_post_init
    IRDLOperation.__post_init__ = _op_post_init
    SSAValue.get = staticmethod(_value_of)
    irdl_operations.irdl_build_arg_list = _arguments_of


_IDENTICAL: tuple[type, ...] = (Operation, IRDLOperation, Block, Region, SSAValue)


def _following(op: Operation | None) -> Generator[Operation]:
    """`op` and what follows it in its block; whoever is given an op may erase it."""
    while op is not None:
        following = op._next_op  # pyright: ignore[reportPrivateUsage]
        yield op
        op = following


def _preceding(op: Operation | None) -> Generator[Operation]:
    """As `_following`, backwards."""
    while op is not None:
        preceding = op._prev_op  # pyright: ignore[reportPrivateUsage]
        yield op
        op = preceding


def _ops_of(self: BlockOps) -> Iterator[Operation]:
    return _following(self.block._first_op)  # pyright: ignore[reportPrivateUsage]


def _op_count(self: BlockOps) -> int:  # `list` asks for it
    count = 0
    for _ in _following(self.block._first_op):  # pyright: ignore[reportPrivateUsage]
        count += 1
    return count


def _walk(
    self: Operation, *, reverse: bool = False, region_first: bool = False
) -> Generator[Operation]:
    """The op and all inside of it, by one generator and not by three for each level."""
    if not region_first:
        yield self
    stack = [(self, _inside(self, reverse=reverse))]
    while stack:
        parent, inside = stack[-1]
        for op in inside:
            if not op.regions:
                yield op
                continue
            if not region_first:
                yield op
            stack.append((op, _inside(op, reverse=reverse)))
            break
        else:
            stack.pop()
            if region_first:
                yield parent


def _inside(op: Operation, *, reverse: bool) -> Generator[Operation]:
    """The ops in the blocks of an op."""
    for region in reversed(op.regions) if reverse else op.regions:
        for block in reversed(region.blocks) if reverse else region.blocks:
            if reverse:
                yield from _preceding(block._last_op)  # pyright: ignore[reportPrivateUsage]
            else:
                yield from _following(block._first_op)  # pyright: ignore[reportPrivateUsage]


def _attribute_post_init(self: Attribute) -> None:
    self._verify()  # pyright: ignore[reportPrivateUsage]
    attribute_class: type[Attribute] = type(self)
    if attribute_class not in _ATTRIBUTES:
        if not issubclass(attribute_class, Data | ParametrizedAttribute):
            raise TypeError("Attributes should only be Data or ParametrizedAttribute")
        _ATTRIBUTES.add(self.__class__)


_ATTRIBUTES: set[type[Attribute]] = set()
"""Classes that are `Data` or `ParametrizedAttribute`."""


def _op_post_init(self: IRDLOperation) -> None:
    op_class = type(self)
    defaults = _DEFAULTS.get(op_class)
    if defaults is None:
        defaults = _DEFAULTS[op_class] = _defaults_of(op_class)
    properties, attributes = defaults
    for name, default in properties:
        self.properties.setdefault(name, default)
    for name, default in attributes:
        self.attributes.setdefault(name, default)
    super(IRDLOperation, self).__post_init__()


_Defaults = tuple[tuple[tuple[str, Attribute], ...], tuple[tuple[str, Attribute], ...]]
_DEFAULTS: dict[type[IRDLOperation], _Defaults] = {}
"""Of properties and attributes of a class that an op has where nobody says otherwise."""


def _defaults_of(op_class: type[IRDLOperation]) -> _Defaults:
    op_def = op_class.get_irdl_definition()
    properties, attributes = (
        tuple(
            (name, definition.default_value)
            for name, definition in definitions.items()
            if not isinstance(definition, OptionalDef) and definition.default_value is not None
        )
        for definitions in (op_def.properties, op_def.attributes)
    )
    return properties, attributes


_plain_value_of: Callable[..., Any] = SSAValue.get


def _value_of(arg: Any, *, type: Any = Attribute) -> Any:
    """`arg`, or the result of the op that it is."""
    if type is Attribute and arg.__class__ in (OpResult, BlockArgument):
        return arg
    return _plain_value_of(arg, type=type)


_plain_arguments_of: Callable[..., Any] = irdl_operations.irdl_build_arg_list


def _arguments_of(
    construct: Any, args: Sequence[Any], arg_defs: Sequence[tuple[str, Any]], error_prefix: str = ""
) -> tuple[list[Any], list[int]]:
    """The arguments in one list, and how many belong to each definition."""
    if len(args) == len(arg_defs):
        if not args:
            return [], []
        if all(arg.__class__ in _SINGLE for arg in args):
            return list(args), [1] * len(args)
    return _plain_arguments_of(construct, args, arg_defs, error_prefix)


_SINGLE = frozenset((OpResult, BlockArgument, Region, Block))
"""Classes of arguments that are no sequences."""
