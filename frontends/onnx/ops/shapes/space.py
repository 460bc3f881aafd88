"""DepthToSpace and SpaceToDepth: blocks of pixels as channels, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.frontends.emitter import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.onnx.call import Call

_MODES = ("DCR", "CRD")
"""Whether the block's rows and columns are the slowest part of the channels, or the fastest."""


def _arguments(call: Call) -> tuple[SSAValue, tuple[int, int, int, int], int, bool]:
    """The images, their shape, the size of a block, and whether blocks are the slowest part."""
    x, block = call.input(0), call.count("blocksize")
    mode = call.choice("mode", "DCR", _MODES)
    shape = shape_of(x)
    if len(shape) != 4:
        raise call.error(f"is of images, N C H W, not of {list(shape)}")
    n, c, h, w = shape
    return x, (n, c, h, w), block, mode == "DCR"


def _depth_to_space(call: Call) -> Sequence[SSAValue]:
    x, (n, c, h, w), block, first = _arguments(call)
    if c % block**2:
        raise call.error(f"{c} channels are no blocks of {block} x {block}")
    kept = c // block**2
    parts = [n, block, block, kept, h, w] if first else [n, kept, block, block, h, w]
    order = [0, 3, 4, 1, 5, 2] if first else [0, 1, 4, 2, 5, 3]
    spread = call.emit.transpose(call.emit.reshape(x, parts), order)
    return [call.emit.reshape(spread, [n, kept, h * block, w * block])]


def _space_to_depth(call: Call) -> Sequence[SSAValue]:
    x, (n, c, h, w), block, first = _arguments(call)
    if h % block or w % block:
        raise call.error(f"images of {h} x {w} are no blocks of {block} x {block}")
    parts = [n, c, h // block, block, w // block, block]
    order = [0, 3, 5, 1, 2, 4] if first else [0, 1, 3, 5, 2, 4]
    gathered = call.emit.transpose(call.emit.reshape(x, parts), order)
    return [call.emit.reshape(gathered, [n, c * block**2, h // block, w // block])]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
