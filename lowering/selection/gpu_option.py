"""The options of passes that say which GPU or CPU they work for."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from xdsl.utils.exceptions import PassFailedException

from convir.lowering.implementations import HOST
from convir.lowering.kernels.target import DEFAULT_TARGET, Target, named, names

if TYPE_CHECKING:
    from convir.lowering.kernels.host.target import CpuTarget

_log = logging.getLogger(__name__)

_noted: Final[set[str]] = set()

PRINTED: Final = "ARCH:MULTIPROCESSORS:SHARED_BYTES[:NAME]"


def gpu_of(option: str) -> Target:
    """The GPU that prints as `option`.

    Raises:
        PassFailedException: none does.
    """
    try:
        return Target.parse(option)
    except ValueError as error:
        raise PassFailedException(str(error)) from error


def todays_option(device: str, target: str | None, gpu: str | None) -> str | None:
    """The option `target`, or else its older spelling `gpu`, which says nothing of the host; a note
    says that it was used."""
    if gpu is None:
        return target
    if not _noted:
        _noted.add("gpu")
        _log.warning("option 'gpu=...' is an older spelling of 'target=...'")
    return gpu if target is None and device != HOST else target


def target_of(device: str, option: str | None) -> Target | CpuTarget:
    """What an option says that kernels are chosen for.

    Args:
        device: `host` or `cuda`.
        option: a CPU's name, a GPU's, or the GPU as `Target` prints it; None for what
            there is without one, this machine's CPU or the default GPU.

    Raises:
        PassFailedException: there is no such CPU or GPU.
    """
    if device == HOST:
        from convir.lowering.kernels.host import target as cpus  # noqa: PLC0415  (imports LLVM)

        try:
            return cpus.target(cpus.HOST if option is None else option)
        except ValueError as error:
            raise PassFailedException(str(error)) from error
    if option is None:
        return DEFAULT_TARGET
    if option in names():
        return named(option)
    try:
        return Target.parse(option)
    except ValueError as error:
        message = f"unknown GPU target '{option}': one of {', '.join(names())}, or {PRINTED}"
        raise PassFailedException(message) from error
