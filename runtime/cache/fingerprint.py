"""Which compiler this is: a digest that changes when any of its files does.

Sizes and times of all files are compared, not their contents: a warm compile has milliseconds.
Whoever edits a pass, installs another version, or updates xDSL gets a new digest. Images whose
files are all of one date are told apart by the times at which they were put in place, which
nobody can set.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from convir.dialects.entry_points import entry_points

_FOLDERS = (
    "analysis",
    "api",
    "dialects",
    "frontends",
    "lowering",
    "passes",
    "reference",
    "runtime",
)
_SUFFIXES = (".py", ".ll", ".cuh", ".toml")


@cache
def compiler_fingerprint() -> str:
    """A hexadecimal digest of convir and xDSL as they are installed, and of what adds passes,
    dialects or kernels to them.

    Raises:
        OSError: they are not files in folders, so that nothing can be said.
    """
    digest = hashlib.sha256()
    root = Path(__file__).parents[2]
    others = sorted({point.package for point in entry_points()})
    for folder in (*(root / name for name in _FOLDERS), *map(_package, ("xdsl", *others))):
        digest.update(f"{folder.name}\n".encode())
        digest.update("".join(sorted(_files(str(folder)))).encode())
    return digest.hexdigest()


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"{name} is not installed as files")
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin


def _files(folder: str) -> list[str]:
    """Path, size and times of every source below `folder`, a line each; of a file, its own."""
    if os.path.isdir(folder):
        return _below(folder, "")
    found = os.stat(folder)
    return [f"{found.st_size}\0{found.st_mtime_ns}\0{found.st_ctime_ns}\n"]


def _below(folder: str, prefix: str) -> list[str]:
    lines: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(_SUFFIXES):
                found = entry.stat()
                stamp = f"{found.st_size}\0{found.st_mtime_ns}\0{found.st_ctime_ns}"
                lines.append(f"{prefix}{name}\0{stamp}\n")
            elif name != "__pycache__" and entry.is_dir():
                lines += _below(entry.path, f"{prefix}{name}/")
    return lines
