"""Constants of a module that is written to a file: a file beside it holds their elements."""

from __future__ import annotations

import os.path
import sys
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from convir.dialects.conv.constant import BlobAttr, ConstantOp, digest_of, move_blobs
from convir.dialects.rt import ops as rt

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from convir.reference.dtypes import Array

SUFFIX = ".npz"

INLINE_BYTES = 4096
"""What a program reads as `rt.constant` stands in the text up to this size."""


class ConstantFile:
    """What goes beside the file OUT: `OUT.npz`."""

    def __init__(self, tool: str, output: str) -> None:
        self._tool = tool
        self._path = output + SUFFIX
        self._folder = os.path.dirname(output)
        self._arrays: dict[str, Array] = {}

    def take(self, module: ModuleOp) -> None:
        """Let the constants that `module` computed name this file, and all paths begin at OUT."""
        move_blobs(module, self._seen_from_folder)
        for op in module.walk():
            if isinstance(op, ConstantOp | rt.ConstantOp) and _is_computed(op):
                self._take(op)

    def write(self) -> None:
        """Write the file if anything was taken, and say so on stderr."""
        if not self._arrays:
            return
        import numpy as np  # noqa: PLC0415  (takes a while, and few modules need it)

        np.savez(self._path, allow_pickle=False, **self._arrays)
        size = sum(array.nbytes for array in self._arrays.values())
        count = f"{len(self._arrays)} constants"
        sys.stderr.write(f"{self._tool}: {self._path} holds {count} of {size} bytes\n")

    def _take(self, op: ConstantOp | rt.ConstantOp) -> None:
        from convir.reference.dtypes import BFLOAT16, constant  # noqa: PLC0415

        value = op.value
        assert isinstance(value, DenseIntOrFPElementsAttr)
        array = constant(value, value.type)
        if array is None:
            return
        stored = array.view("uint16") if array.dtype == BFLOAT16 else array
        key = f"{op.results[0].name_hint or 'constant'}_{len(self._arrays)}"
        self._arrays[key] = stored
        digest = digest_of(stored.tobytes())
        op.properties["value"] = BlobAttr(os.path.basename(self._path), key, digest)

    def _seen_from_folder(self, file: str) -> str:
        return file if os.path.isabs(file) else os.path.relpath(file, self._folder or ".")


def constant_file(tool: str, output: str | None) -> ConstantFile | None:
    """The file beside `output`; None if that is the standard output, a device or a pipe."""
    if output is None or (os.path.exists(output) and not os.path.isfile(output)):
        return None
    return ConstantFile(tool, output)


def _is_computed(op: ConstantOp | rt.ConstantOp) -> bool:
    if not isinstance(op.value, DenseIntOrFPElementsAttr):
        return False
    return isinstance(op, ConstantOp) or len(op.value.data.data) > INLINE_BYTES
