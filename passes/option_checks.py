"""Options that several passes have: which values they may take."""

from __future__ import annotations

from typing import Final

from xdsl.utils.exceptions import PassFailedException

DEVICES: Final = ("host", "cuda")


def check_device(device: str) -> None:
    """Refuse what is no device.

    Raises:
        PassFailedException: it is none.
    """
    if device not in DEVICES:
        raise PassFailedException(f"device is {' or '.join(DEVICES)}, not '{device}'")


def check_workspace(workspace_bytes: int | None) -> None:
    """Refuse what is no number of bytes; None is no limit.

    Raises:
        PassFailedException: it is negative.
    """
    if workspace_bytes is not None and workspace_bytes < 0:
        raise PassFailedException(f"workspace-bytes is {workspace_bytes}, below 0")
