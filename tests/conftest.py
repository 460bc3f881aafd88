"""Tests compile what they say they compile: whole programs come from no cache."""

from __future__ import annotations

import os

from convir.runtime.program_cache import SWITCH_VARIABLE

os.environ.setdefault(SWITCH_VARIABLE, "0")
