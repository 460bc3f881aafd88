"""Canonicalization patterns: one file per family of operations, looked up by operation name.

A family is imported when the first operation that it rewrites is met.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from xdsl.traits import HasCanonicalizationPatternsTrait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Operation
    from xdsl.pattern_rewriter import RewritePattern

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "tensor.extract_slice": ("slices",),
    "tensor.insert_slice": ("slices",),
}
"""Operation name to the modules of this package whose `PATTERNS` rewrite it, in order."""


def patterns_of(op_class: type[Operation]) -> tuple[RewritePattern, ...]:
    """Our patterns for one class of operations, then those that it carries itself."""
    return (*_own_patterns(op_class.name), *_carried_patterns(op_class))


def _own_patterns(op_name: str) -> tuple[RewritePattern, ...]:
    patterns: list[RewritePattern] = []
    for family in FAMILIES.get(op_name, ()):
        module = import_module(f"{__name__}.{family}")
        patterns.extend(module.PATTERNS[op_name])
    return tuple(patterns)


def _carried_patterns(op_class: type[Operation]) -> tuple[RewritePattern, ...]:
    traits = op_class.get_traits_of_type(HasCanonicalizationPatternsTrait)
    return tuple(pattern for trait in traits for pattern in trait.get_patterns(op_class))
