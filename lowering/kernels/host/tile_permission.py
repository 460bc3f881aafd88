"""The permission to use AMX's tile registers, which Linux gives to a process that asks for it."""

from __future__ import annotations

import ctypes
import logging
import os
from functools import cache
from typing import Final

_ARCH_PRCTL: Final = 158
"""The number of the system call on x86-64."""
_ARCH_REQ_XCOMP_PERM: Final = 0x1023
_XFEATURE_XTILEDATA: Final = 18
"""Source: Linux, Documentation/arch/x86/xstate.rst."""

_log = logging.getLogger(__name__)


@cache
def may_use_tiles() -> bool:
    """Whether this process and its threads may use tile registers, which is asked for once.

    A refusal is logged: bf16 is computed on vectors then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0:
        return True
    reason = os.strerror(ctypes.get_errno())
    _log.warning("AMX is not used, vectors are: the system refuses tile registers: %s", reason)
    return False
