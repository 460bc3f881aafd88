"""The option of a pass that says which GPU it works for."""

from __future__ import annotations

from xdsl.utils.exceptions import PassFailedException

from convir.lowering.kernels.target import Target


def gpu_of(option: str) -> Target:
    """The GPU that prints as `option`.

    Raises:
        PassFailedException: none does.
    """
    try:
        return Target.parse(option)
    except ValueError as error:
        raise PassFailedException(str(error)) from error
