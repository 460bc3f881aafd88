"""Cubins as SASS to read, by a tool of the CUDA toolkit where one is on the path."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from convir.analysis.refusal import Refusal

_TOOLS = {"nvdisasm": ("--print-code",), "cuobjdump": ("--dump-sass",)}
"""The tools, and how each prints code alone."""
_LIMIT_S = 60


def disassembler() -> str | None:
    """The path of a tool that disassembles cubins; None where there is none."""
    return next(filter(None, map(shutil.which, _TOOLS)), None)


def disassembled(cubin: bytes, tool: str) -> str | Refusal:
    """The SASS of a cubin, or why a tool does not give it.

    Args:
        cubin: an ELF file.
        tool: what `disassembler` has found.
    """
    name = Path(tool).name
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [tool, *_TOOLS[name], str(file)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Refusal(f"{name}: {error}")
    if done.returncode:
        return Refusal(f"{name}: {' '.join(done.stderr.split()) or f'exit {done.returncode}'}")
    return done.stdout
