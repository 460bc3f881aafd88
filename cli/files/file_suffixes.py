"""What the name of a file of arrays says that it holds."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

NPY_SUFFIX = ".npy"


def check_suffix(path: str, known: Sequence[str]) -> None:
    """Refuse a file whose name says that it holds what is neither read nor written.

    A name without a suffix, as `/dev/null`, says nothing.

    Raises:
        UsageError: it has another suffix than those `known`.
    """
    suffix = os.path.splitext(path)[1]
    if suffix and suffix not in known:
        raise UsageError(f"{path}: arrays are read and written as {' or '.join(known)}")
