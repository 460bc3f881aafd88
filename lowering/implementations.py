"""The names of devices and of what may stand for a kernel on them: the words of `configs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import DictionaryAttr, StringAttr

if TYPE_CHECKING:
    from convir.dialects.kernel import ops as kernel

HOST: Final = "host"
CUDA: Final = "cuda"

LOOPS: Final = "loops"
"""Loops generated from the body."""
REDUCTION: Final = "reduction"
"""Passes over rows or columns, each of which combines or stores elements; a GPU's config has
further words, `reduction …`."""
ATTENTION: Final = "attention"
"""Two products with passes over rows between them, a block of rows at a time; on the host."""
POOLING: Final = "pooling"
"""Windows of one or two dimensions, one dimension after the other; on the host."""
GEMM: Final = "gemm"
"""One call of the device's BLAS; the kernel becomes `rt.gemm`."""
PLANAR: Final = "planar"
"""Stages on rows of frames, each frame computed by all of them at once; on the host a register tile
may follow, `planar vectors=4 sums=16`."""
TEMPLATE: Final = "template"
"""A CUDA template; its config is a string of its own, `FAMILY …`."""


def is_planar(config: str | None) -> bool:
    """Whether a config is one of planar kernels."""
    return config is not None and config.partition(" ")[0] == PLANAR


def config_of(given: kernel.FuncOp | kernel.RegionOp, device: str) -> str | None:
    """The config that a kernel has for `device`, if any."""
    config = given.configs.data.get(device) if given.configs is not None else None
    return config.data if isinstance(config, StringAttr) else None


def attach_config(given: kernel.FuncOp | kernel.RegionOp, device: str, config: str) -> None:
    """Give a kernel a config for `device`; it keeps those for others."""
    known = dict(given.configs.data) if given.configs is not None else {}
    given.configs = DictionaryAttr({**known, device: StringAttr(config)})
