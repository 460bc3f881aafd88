"""Activations that scalar ops spell, found again in what frontends write and in other orders."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from convir.dialects.context import new_context
