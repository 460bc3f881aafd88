"""Configs as older versions wrote them, in today's words.

Tuning records, `configs = {cuda = "…"}` in IR, and scripts hold configs as text. A family was named
otherwise once, and so were some of its keys; such a text still means the same config. A note in the
log says how it is written now.
"""

from __future__ import annotations

import logging
import re
from typing import Final

_log = logging.getLogger(__name__)

FAMILIES: Final = {
    "igemm": "sm80_implicit_gemm",
    "wgmma": "sm90_implicit_gemm",
    "joined": "sm90_fused_dgrad",
    "wgmma-wgrad": "sm90_wgrad",
    "stacked-wgrad": "sm90_row_packed_wgrad",
    "taps-wgrad": "multi_tap_wgrad",
    "grouped": "grouped_direct",
    "grouped-pairs": "sm90_grouped_direct",
    "grouped-wgrad": "grouped_wgrad",
    "grouped-wgrad-pairs": "sm90_grouped_wgrad",
    "narrow": "few_output_channels",
    "shallow": "few_input_channels",
    "scalar": "simt_direct",
    "merged": "block_diagonal",
    "relaid": "layout_conversion",
}
"""The name that a family had, and the one that it has."""

KEYS: Final[dict[str, dict[str, str]]] = {
    "igemm": {"split": "splits", "copies": "converted"},
    "wgmma": {"math": "schedule"},
    "stacked-wgrad": {"depths": "tile_m", "waiting": "staging", "together": "prologue"},
    "taps-wgrad": {"math": "instruction"},
    "grouped": {"slice": "warp_channels", "loaders": "producer_warps", "math": "instruction"},
    "grouped-wgrad": {"slice": "warp_channels", "loaders": "producer_warps"},
    "grouped-pairs": {"slots": "stages", "parts": "group_blocks"},
    "grouped-wgrad-pairs": {"slots": "stages"},
    "narrow": {"depth": "k_warps", "loaders": "producer_warps"},
}
"""By a family's old name, the keys that were written otherwise."""

_BULK: Final = {("stacked-wgrad", "y")}
"""Keys whose value `bulk` is `tma` now."""

_SLICES: Final = re.compile(r"split-k:\S+:slices$")


def todays_words(text: str) -> str:
    """A config in today's words, where `text` has an older version's; else `text` itself."""
    found: list[str] = []
    family = ""
    for word in text.split(" "):
        key, equals, value = word.partition("=")
        if not equals:
            family = key if key in FAMILIES else family
            found.append(FAMILIES.get(word, _todays_partition(word)))
            continue
        if (family, key) in _BULK:
            value = re.sub(r"^bulk\b", "tma", value)
        key = KEYS.get(family, {}).get(key, key)
        found.append(f"{key}={_todays_partition(value)}")
    return " ".join(found)


def _todays_partition(text: str) -> str:
    return f"{text.removesuffix('slices')}reduce-scatter" if _SLICES.match(text) else text


_noted: Final[set[str]] = set()


def read_config(text: str) -> str:
    """`todays_words` of a config from outside; a note says so, once for each name that was old."""
    today = todays_words(text)
    if today != text:
        old = next((word for word in text.split(" ") if word in FAMILIES), "slices")
        if old not in _noted:
            _noted.add(old)
            _log.warning("config '%s' is an older spelling of '%s'", text, today)
    return today
