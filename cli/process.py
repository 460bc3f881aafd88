"""What a short-lived tool leaves out: a quarter of a run went into tidying up memory.

IR is one graph of cycles that lives as long as the process, so that a collection finds nothing
and visits everything; and all memory is given back when the process ends.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable


def run_process(tool: Callable[[], int]) -> NoReturn:
    """Run `tool` without garbage collection and end the process with the status it returns.

    A tool that holds large arrays in cycles calls `gc.enable()` itself.
    """
    gc.disable()
    status = tool()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the file descriptor was closed from the start
            with suppress(OSError, ValueError):
                stream.flush()
    os._exit(status)
