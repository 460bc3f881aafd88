"""Canonicalization patterns: one file per family of operations, looked up by operation name.

A family is imported when the first operation that it rewrites is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from xdsl.traits import ConstantLike, HasCanonicalizationPatternsTrait, HasFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Operation
    from xdsl.pattern_rewriter import RewritePattern

_FAMILY_OF_DIALECT: Mapping[str, str] = {
    "arith": "arithmetic",
    "linalg": "structured",
    "math": "arithmetic",
}
_FAMILY_OF_OP: Mapping[str, str] = {
    "tensor.cast": "shapes",
    "tensor.collapse_shape": "reshapes",
    "tensor.dim": "shapes",
    "tensor.expand_shape": "reshapes",
    "tensor.extract": "elements",
    "tensor.extract_slice": "slices",
    "tensor.from_elements": "elements",
    "tensor.insert_slice": "slices",
    "tensor.pad": "pads",
    "tensor.reshape": "reshapes",
    "tensor.splat": "elements",
}
"""The module of this package whose `PATTERNS` rewrite an operation."""

_READS_CASTS = frozenset(
    f"tensor.{name}" for name in ("expand_shape", "extract", "extract_slice", "insert_slice", "pad")
)
"""Operations beside those of linalg that may read what a cast forgot the sizes of."""


@dataclass(frozen=True)
class OpRules:
    """How operations of one class are simplified."""

    patterns: tuple[RewritePattern, ...]
    """Tried in order; the first that changes something ends the attempt."""
    folds: bool
    """Whether the folder that the class carries is tried before the patterns."""


def rules_of(op_class: type[Operation]) -> OpRules:
    """Our patterns for a class, then what it carries itself, unless ours replace that."""
    own = (*_own_patterns(op_class.name), *_cast_patterns(op_class.name))
    if op_class.name in REPLACED:
        return OpRules(own, folds=False)
    return OpRules((*own, *_carried_patterns(op_class)), _has_folder(op_class))


REPLACED = frozenset(
    f"arith.{name}"
    for name in (
        *("addi", "subi", "muli", "andi", "ori", "xori", "shli", "shrsi", "shrui"),
        *("divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi"),
        *("maxsi", "maxui", "minsi", "minui", "addf", "subf", "mulf", "divf", "cmpi"),
    )
)
"""Operations whose own patterns and folders are left out: ours do all that those do, and those
fail on a float constant that overflows, do not wrap an `index`, and make a scalar of a tensor."""


def _own_patterns(op_name: str) -> tuple[RewritePattern, ...]:
    family = _FAMILY_OF_OP.get(op_name) or _FAMILY_OF_DIALECT.get(op_name.split(".", maxsplit=1)[0])
    if family is None:
        return ()
    patterns: Mapping[str, tuple[RewritePattern, ...]]
    patterns = import_module(f"{__name__}.{family}").PATTERNS
    return patterns.get(op_name, ())


def _cast_patterns(op_name: str) -> tuple[RewritePattern, ...]:
    if op_name not in _READS_CASTS and not op_name.startswith("linalg."):
        return ()
    casts = import_module(f"{__name__}.casts")
    sizes = (casts.StaticSizes(),) if op_name in _READS_CASTS else ()
    return (*sizes, casts.FoldOperandCasts())


def _carried_patterns(op_class: type[Operation]) -> tuple[RewritePattern, ...]:
    traits = op_class.get_traits_of_type(HasCanonicalizationPatternsTrait)
    return tuple(pattern for trait in traits for pattern in trait.get_patterns(op_class))


def _has_folder(op_class: type[Operation]) -> bool:
    """True if the class can be folded; a constant would fold to itself for ever."""
    return op_class.has_trait(HasFolder, value_if_unregistered=False) and not op_class.has_trait(
        ConstantLike, value_if_unregistered=True
    )
