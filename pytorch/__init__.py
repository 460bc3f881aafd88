"""convir as a drop-in for PyTorch: its convolutions on these kernels, wherever they are faster.

    import convir.pytorch
    convir.pytorch.enable()

From then on `aten::convolution` and its backward of this process run on kernels of convir where
those are known to be faster, and on PyTorch's own everywhere else. `python -m convir.pytorch
SCRIPT ARGS…` does the same to a script that nobody edits. `census()` says who ran what, and why.

Importing the package does not import PyTorch.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.pytorch.functional import (
        conv1d,
        conv2d,
        conv3d,
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
    )
    from convir.pytorch.override import disable, enable, enabled
    from convir.pytorch.rows import census

__all__ = [
    "census",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "disable",
    "enable",
    "enabled",
]

_HOMES = {"census": "rows", "disable": "override", "enable": "override", "enabled": "override"}


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(_import_module(f"{__name__}.{_HOMES.get(name, 'functional')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
