"""The custom syntax of ops that xDSL reads wrongly or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation
    from xdsl.parser import Parser

CUSTOM_SYNTAX: dict[type[Operation], Callable[[Parser], Operation]] = {}
"""Parsers that stand in for an op class's own."""
