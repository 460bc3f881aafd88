"""What a cubin makes a GPU do: its instructions and their constants, without names.

A cubin is an ELF file. Its symbols have the mangled names of device code, in the order in which
headers declare them, so files differ where only a name or an `#include` does.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXECUTED = re.compile(r"\.text\.|\.nv\.constant[0-3]\b")
"""Sections of instructions, parameters and constants. What kernels read of tables in memory is not
there: it follows from the problem."""

_FILE_HEADER: Final = struct.Struct("<40xQ10xHHH")
"""Where section headers are, their size, how many, which one has names; ELF-64, "File header"."""
_SECTION_HEADER: Final = struct.Struct("<II16xQQ")
"""Name, type, offset and size. ELF-64, "Sections"."""
_WITHOUT_BYTES = 8
"""The type of sections that take no place in the file."""


class _Section(NamedTuple):
    name: int
    type: int
    offset: int
    size: int


def executed(cubin: bytes) -> bytes:
    """The bytes of all sections that a GPU executes, one after the other.

    Raises:
        ValueError: it is not an ELF file.
    """
    return b"".join(text for name, text in _sections(cubin) if _EXECUTED.match(name))


def _sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    if not cubin.startswith(b"\x7fELF"):
        raise ValueError("a cubin is an ELF file")
    start, size, count, names = map(int, _FILE_HEADER.unpack_from(cubin))
    headers = [
        _Section(*map(int, _SECTION_HEADER.unpack_from(cubin, start + i * size)))
        for i in range(count)
    ]
    for each in headers:
        begin = headers[names].offset + each.name
        name = cubin[begin : cubin.index(b"\0", begin)].decode()
        held = b"" if each.type == _WITHOUT_BYTES else cubin[each.offset : each.offset + each.size]
        yield name, held
