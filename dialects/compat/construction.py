"""Building ops and attributes of xDSL's IR as xDSL does, in less time: a compilation builds tens of
thousands of each.

What is out of the ordinary, and whatever is wrong, is left to xDSL's own functions.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ArrayAttr, ArrayOfConstraint, DenseArrayBase, UnknownLoc, i32
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    Operation,
    OpResult,
    Region,
    SSAValue,
    SSAValues,
    Use,
)
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    BaseAttr,
    OptionalDef,
    ParamAttrDef,
    ParsePropInAttrDict,
    RangeOf,
    SameVariadicOperandSize,
    TypeVarConstraint,
    VariadicDef,
)
from xdsl.irdl import operations as irdl_operations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from xdsl.ir import LocationAttr
    from xdsl.irdl import AttrConstraint, IRDLOperation, OpDef

# What is private to xDSL's classes is what their own methods read and write here.
# pyright: reportPrivateUsage=false


def install() -> None:
    """Replace xDSL's own; to be called once."""
    irdl_operations.irdl_op_init = _op_init
    Operation.__init__ = _init
    ParamAttrDef.verify = _verify
    for root in (Attribute, Operation, SSAValue, Block, Region):
        _ask_plainly(root)


class _PlainMeta(ABCMeta):
    """The type of classes that have no subclasses but those that inherit from them."""

    __instancecheck__ = type.__instancecheck__  # pyright: ignore[reportAssignmentType]


def _ask_plainly(root: type) -> None:
    """Let `isinstance` ask `root` and what inherits from it as it asks any class."""
    pending = [root]
    while pending:
        one = pending.pop()
        if type(one) is ABCMeta:
            one.__class__ = _PlainMeta
        pending += one.__subclasses__()


_NO_VALUES: SSAValues[Any] = SSAValues()
_UNKNOWN = UnknownLoc()


def _init(
    self: Operation,
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = {},
    attributes: Mapping[str, Attribute] = {},
    location: LocationAttr | None = None,
    successors: Sequence[Block] = (),
    regions: Sequence[Region] = (),
) -> None:
    if operands:
        self._operands = values = SSAValues(operands)
        self._operand_uses = uses = tuple([Use(self, index) for index in range(len(values))])
        for value, use in zip(values, uses, strict=True):
            following = use._next_use = value.first_use
            if following is not None:
                following._prev_use = use
            value.first_use = use
    results = [OpResult(of, self, index) for index, of in enumerate(result_types)]
    self.results = SSAValues(results) if results else _NO_VALUES
    self.properties = dict(properties)
    self.attributes = dict(attributes)
    self.location = _UNKNOWN if location is None else location
    if successors:
        self.successors = list(successors)
    self.regions = ()
    for region in regions:
        self.add_region(region)
    self.__post_init__()


_VALUES = frozenset((OpResult, BlockArgument))
_SEVERAL = frozenset((list, tuple, SSAValues))

_plain_op_init: Callable[..., None] = irdl_operations.irdl_op_init


class _Form:
    """What an op's definition says of how many operands and results there are."""

    def __init__(self, definition: OpDef) -> None:
        self.definition = definition
        self.operands, self.results = (
            [(isinstance(each, VariadicDef), isinstance(each, OptionalDef)) for _, each in defs]
            for defs in (definition.operands, definition.results)
        )
        self.regions = len(definition.regions)
        options = definition.options
        sized = (AttrSizedOperandSegments, AttrSizedResultSegments)
        known = (*sized, ParsePropInAttrDict, SameVariadicOperandSize)
        self.is_plain = not definition.successors and all(isinstance(x, known) for x in options)
        self.alike = any(isinstance(x, SameVariadicOperandSize) for x in options)
        """Whether variadic operands are of one length."""
        self.sizes = [
            (isinstance(x, AttrSizedOperandSegments), x.as_property, x.attribute_name)
            for x in options
            if isinstance(x, sized)
        ]


_FORMS: dict[int, _Form] = {}
"""By the identity of a definition, which is kept."""
_SEGMENTS: dict[tuple[int, ...], DenseArrayBase[Any]] = {}
_SINGLE_ATTRIBUTES: set[type] = set()
"""Classes of attributes that are no sequences."""


def _op_init(
    self: IRDLOperation,
    op_def: OpDef,
    *,
    operands: Sequence[Any],
    result_types: Sequence[Any],
    properties: Mapping[str, Attribute | None],
    attributes: Mapping[str, Attribute | None],
    successors: Sequence[Any],
    regions: Sequence[Any],
) -> None:
    form = _FORMS.get(id(op_def))
    if form is None:
        form = _FORMS[id(op_def)] = _Form(op_def)
    values = types = None
    if form.is_plain and not successors and len(regions) == form.regions:
        values = _flat(operands, form.operands, _VALUES)
        types = _flat(result_types, form.results, _SINGLE_ATTRIBUTES)
    if values is not None and form.alike and not _are_alike(values[1], form.operands):
        values = None
    if values is None or types is None or any(each.__class__ is not Region for each in regions):
        _plain_op_init(
            self,
            op_def,
            operands=operands,
            result_types=result_types,
            properties=properties,
            attributes=attributes,
            successors=successors,
            regions=regions,
        )
        met = {result.type.__class__ for result in self.results}
        _SINGLE_ATTRIBUTES.update(one for one in met if not issubclass(one, Sequence))
        return
    own = {name: attribute for name, attribute in properties.items() if attribute is not None}
    more = {name: attribute for name, attribute in attributes.items() if attribute is not None}
    for of_operands, as_property, name in form.sizes:
        sizes = tuple((values if of_operands else types)[1])
        segments = _SEGMENTS.get(sizes)
        if segments is None:
            segments = _SEGMENTS[sizes] = DenseArrayBase.from_list(i32, sizes)
        (own if as_property else more)[name] = segments
    Operation.__init__(
        self,
        operands=values[0],
        result_types=types[0],
        properties=own,
        attributes=more,
        regions=regions,
    )


def _are_alike(sizes: Sequence[int], defined: Sequence[tuple[bool, bool]]) -> bool:
    variadic = [size for size, (is_variadic, _) in zip(sizes, defined, strict=True) if is_variadic]
    return len(set(variadic)) <= 1


def _flat(
    given: Sequence[Any], defined: Sequence[tuple[bool, bool]], single: Set[type]
) -> tuple[list[Any], list[int]] | None:
    """All in one list, and how many belong to each definition; None if anything is unusual.

    Args:
        given: for each definition one, or several in a list, or None.
        defined: whether each is variadic, and optional.
        single: the classes of what is one.
    """
    if len(given) != len(defined):
        return None
    found: list[Any] = []
    sizes: list[int] = []
    for each, (is_variadic, is_optional) in zip(given, defined, strict=True):
        if each.__class__ in single:
            found.append(each)
            sizes.append(1)
            continue
        if not is_variadic or each.__class__ not in _SEVERAL or (is_optional and len(each) > 1):
            return None
        for one in each:
            if one.__class__ not in single:
                return None
        found += each
        sizes.append(len(each))
    return found, sizes


_plain_verify: Callable[[ParamAttrDef, Any], None] = ParamAttrDef.verify

_CHECKS: dict[int, tuple[ParamAttrDef, tuple[tuple[str, Callable[[Any], bool]], ...] | None]] = {}
"""By the identity of a definition, which is kept: what is enough for each parameter, where the
parameters' classes are."""


def _verify(self: ParamAttrDef, attr: Any) -> None:
    known = _CHECKS.get(id(self))
    if known is None:
        checks = [(name, _enough(definition.constr)) for name, definition in self.parameters]
        found = tuple((name, check) for name, check in checks if check is not None)
        known = self, found if len(found) == len(checks) else None
        _CHECKS[id(self)] = known
    checks = known[1]
    if checks is not None:
        for name, check in checks:
            if not check(getattr(attr, name)):
                break
        else:
            return
    _plain_verify(self, attr)  # which says what is wrong, if anything is


def _enough(constraint: AttrConstraint[Any]) -> Callable[[Any], bool] | None:
    """What verifies whatever it is true of, by classes alone; None where they are not enough."""
    if isinstance(constraint, AnyAttr):
        return _anything
    if isinstance(constraint, TypeVarConstraint):
        return _enough(constraint.base_constraint)
    if isinstance(constraint, BaseAttr):
        return _of_class(constraint.attr)
    if isinstance(constraint, AnyOf):
        found = [_enough(each) for each in cast("Any", constraint).attr_constrs]
        checks = [each for each in found if each is not None]
        return _any_of(checks) if len(checks) == len(found) else None
    if isinstance(constraint, ArrayOfConstraint):
        elements = cast("Any", constraint).elem_range_constraint
        inner = _enough(cast("Any", elements).constr) if isinstance(elements, RangeOf) else None
        return None if inner is None else _array_of(inner)
    return None


def _any_of(checks: Sequence[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda x: any(check(x) for check in checks)


def _array_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda x: x.__class__ is ArrayAttr and all(map(check, x.data))


def _anything(_: object) -> bool:
    return True


def _of_class(wanted: type) -> Callable[[Any], bool]:
    return lambda x: x.__class__ is wanted or isinstance(x, wanted)
