"""The words that a MIOpenDriver line begins with.

They are apart from the options because every source is compared with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DTYPES: Mapping[str, str] = {
    "conv": "f32",
    "convfp16": "f16",
    "convbfp16": "bf16",
    "convfp64": "f64",
}
"""The first word of a line to the element type of its tensors."""

DRIVER = "MIOpenDriver"
"""The program whose lines they are; a line may begin with its path."""
