"""Named pipelines: plain tuples of passes, each line with the reason it stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.passes import ModulePass

PIPELINES: Mapping[str, tuple[ModulePass, ...]] = {}
"""Pipeline name to its passes, in order."""
