"""Methods of xDSL's IR that do the same in less time.

Half of a compilation's time is spent in these few: they are called for every op, operand and
attribute, many times each.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DenseArrayBase, TensorType
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    BlockOps,
    Data,
    IRWithName,
    Operation,
    OpResult,
    ParametrizedAttribute,
    Region,
    SSAValue,
    SSAValues,
    Use,
)
from xdsl.irdl import IRDLOperation, OptionalDef
from xdsl.irdl import operations as irdl_operations
from xdsl.irdl.operations import VarIRConstruct

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
    irdl_operations.get_op_constructs = _constructs_of
    irdl_operations.BeforeVariadicSingleAccessor.__get__ = _named_one
    SSAValues.__getitem__ = _item_of  # pyright: ignore[reportAttributeAccessIssue]
    for owner, name in ((TensorType, "get_shape"), (DenseArrayBase, "get_values")):
        setattr(owner, name, _remembering(vars(owner)[name]))
    for owner, name, own in _GETTERS:
        plain = vars(owner)[name]
        setattr(owner, name, property(attrgetter(own), plain.fset, plain.fdel, plain.__doc__))


_GETTERS: tuple[tuple[type, str, str], ...] = (
    (IRWithName, "name_hint", "_name"),
    (SSAValue, "type", "_type"),
    (OpResult, "owner", "op"),
    (BlockArgument, "owner", "block"),
    (Use, "operation", "_operation"),
    (Use, "index", "_index"),
    (Operation, "parent_node", "parent"),
    (Operation, "next_op", "_next_op"),
    (Operation, "prev_op", "_prev_op"),
    (Block, "parent_node", "parent"),
    (Block, "first_op", "_first_op"),
    (Block, "last_op", "_last_op"),
    (Block, "next_block", "_next_block"),
    (Block, "prev_block", "_prev_block"),
    (Region, "parent_node", "parent"),
    (Region, "first_block", "_first_block"),
    (Region, "last_block", "_last_block"),
)
"""Properties that read one attribute: then no function of Python's is called for them."""


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
    if not reverse and not region_first:
        yield self
        yield from _inner(self)
        return
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


def _inner(op: Operation) -> Generator[Operation]:
    """What is inside of `op`, in the order of the text. What follows is looked up as late as xDSL
    does: an op before the one in front of it is given away, a block as the one before it begins."""
    pending: list[Operation | Block | Region] = [*reversed(op.regions)]
    while pending:
        first = pending.pop()
        if isinstance(first, Operation):
            inside: Operation | None = first
        elif isinstance(first, Block):
            if first._next_block is not None:  # pyright: ignore[reportPrivateUsage]
                pending.append(first._next_block)  # pyright: ignore[reportPrivateUsage]
            inside = first._first_op  # pyright: ignore[reportPrivateUsage]
        else:
            if first.first_block is not None:
                pending.append(first.first_block)
            continue
        while inside is not None:
            following = inside._next_op  # pyright: ignore[reportPrivateUsage]
            yield inside
            if inside.regions:
                if following is not None:
                    pending.append(following)
                pending += reversed(inside.regions)
                break
            inside = following


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


def _constructs_of(op: Operation, construct: VarIRConstruct) -> Any:
    """The operands, results, regions or successors of an op, as a tuple."""
    if construct is VarIRConstruct.OPERAND:
        return op._operands  # pyright: ignore[reportPrivateUsage]  (not a view of them)
    if construct is VarIRConstruct.RESULT:
        return op.results
    if construct is VarIRConstruct.REGION:
        return op.regions
    return op._successors  # pyright: ignore[reportPrivateUsage]  (as above)


def _named_one(
    self: irdl_operations.BeforeVariadicSingleAccessor, obj: Operation, objtype: object = None
) -> Any:
    """The one that a name stands for."""
    return _at(_constructs_of(obj, self.construct), self.idx)


_at: Callable[[tuple[Any, ...], Any], Any] = vars(tuple)["__getitem__"]


def _item_of(self: SSAValues[Any], idx: int | slice) -> Any:
    found = _at(self, idx)
    return SSAValues(found) if idx.__class__ is slice else found


def _remembering(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What an attribute, which never changes, says of itself: asked once."""
    place = f"convir.{plain.__name__}"

    def remembered(self: Any) -> Any:
        known: dict[str, Any] = self.__dict__
        found = known.get(place)
        if found is None:
            found = known[place] = plain(self)
        return found

    remembered.__name__, remembered.__doc__ = plain.__name__, plain.__doc__
    return remembered
