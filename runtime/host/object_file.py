"""Which symbols an object file leaves undefined (ELF, 64 bits, little-endian)."""

from __future__ import annotations

import struct
from functools import lru_cache

from convir.lowering.loops.llvm.llvm_binding import llvm

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB, _SHT_STRTAB, _SHT_NOBITS = 2, 3, 8
_SHN_UNDEF = 0


class ObjectFileError(ValueError):
    """Bytes are no object file that can be linked; LLVM ends the process over some of those."""


def is_object(code: bytes, triple: str) -> bool:
    """Whether `code` has the form of an object file for an LLVM target triple."""
    if llvm.get_object_format(triple) != "ELF":
        return True
    try:
        undefined_symbols(code)
    except ObjectFileError:
        return False
    return code.startswith(_ELF64_LITTLE)


@lru_cache(maxsize=4)  # what was read from a cache is asked once more when it is loaded
def undefined_symbols(code: bytes) -> frozenset[str]:
    """The names that `code` needs from elsewhere; empty for formats other than ELF.

    Raises:
        ObjectFileError: it is ELF, and contradicts itself.
    """
    if not code.startswith(_ELF64_LITTLE):
        return frozenset()
    try:
        return _undefined(code)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise ObjectFileError(str(error)) from error


def _undefined(code: bytes) -> frozenset[str]:
    (table,) = struct.unpack_from("<Q", code, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", code, 0x3A)
    sections: list[tuple[int, ...]] = [
        _SECTION_HEADER.unpack_from(code, table + i * entry_size) for i in range(count)
    ]
    _strings(sections, names_index)
    names: set[str] = set()
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != _SHT_NOBITS and offset + size > len(code):
            raise ValueError("a section ends behind the file")
        if kind != _SHT_SYMTAB:
            continue
        strings = _strings(sections, link)
        for name, _, _, section, _, _ in _SYMBOL.iter_unpack(code[offset : offset + size]):
            if section == _SHN_UNDEF and name != 0:
                start = strings + name
                names.add(code[start : code.index(b"\0", start)].decode())
    return frozenset(names)


def _strings(sections: list[tuple[int, ...]], index: int) -> int:
    """Where a table of strings begins."""
    if sections[index][1] != _SHT_STRTAB:
        raise ValueError(f"section {index} holds no strings")
    return sections[index][4]
