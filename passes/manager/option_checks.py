"""Options that several passes have: which values they may take."""

from __future__ import annotations

from typing import Final

from xdsl.utils.exceptions import PassFailedException

from convir.passes.machine_costs import ASSUMED, MachineCosts

DEVICES: Final = ("host", "cuda")


def check_device(device: str) -> None:
    """Refuse what is not a device.

    Raises:
        PassFailedException: it is none.
    """
    if device not in DEVICES:
        raise PassFailedException(f"device is {' or '.join(DEVICES)}, not '{device}'")


def check_workspace(workspace_bytes: int | None) -> None:
    """Refuse what is not a number of bytes; None means no limit.

    Raises:
        PassFailedException: it is negative.
    """
    if workspace_bytes is not None and workspace_bytes < 0:
        raise PassFailedException(f"workspace-bytes is {workspace_bytes}, below 0")


def costs_of(option: str) -> MachineCosts:
    """The costs that an option says; `ASSUMED` if it is empty.

    Raises:
        PassFailedException: it says none.
    """
    if not option:
        return ASSUMED
    try:
        return MachineCosts.parse(option)
    except ValueError as error:
        raise PassFailedException(f"'{option}': {error}") from error
