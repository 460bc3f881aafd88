"""The names of devices and of what may stand for a kernel on them: the words of `configs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import StringAttr

if TYPE_CHECKING:
    from convir.dialects import kernel

HOST: Final = "host"
CUDA: Final = "cuda"

LOOPS: Final = "loops"
"""Loops generated from the body."""
GEMM: Final = "gemm"
"""One call of the device's BLAS; the kernel becomes `rt.gemm`."""
SCATTER: Final = "scatter"
"""The host's one pass over the result of a strided scatter into zeros."""
CONTRACTION: Final = "contraction"
"""A register-tiled contraction kernel of the host."""
PLANAR: Final = "planar"
"""Stages on rows of frames, each frame computed by all of them at once."""
TEMPLATE: Final = "template"
"""A CUDA template; its config is a string of its own, `FAMILY …`."""


def config_of(callee: kernel.FuncOp, device: str) -> str | None:
    """The config that selection chose for `device`, if any."""
    config = callee.configs.data.get(device) if callee.configs is not None else None
    return config.data if isinstance(config, StringAttr) else None
