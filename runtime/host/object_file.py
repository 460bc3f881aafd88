"""Which symbols an object file leaves undefined (ELF, 64 bits, little-endian)."""

from __future__ import annotations

import struct

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB = 2
_SHN_UNDEF = 0


def undefined_symbols(code: bytes) -> frozenset[str]:
    """The names that `code` needs from elsewhere; empty for formats other than ELF."""
    if not code.startswith(_ELF64_LITTLE):
        return frozenset()
    (table,) = struct.unpack_from("<Q", code, 0x28)
    entry_size, count = struct.unpack_from("<HH", code, 0x3A)
    sections: list[tuple[int, ...]] = [
        _SECTION_HEADER.unpack_from(code, table + i * entry_size) for i in range(count)
    ]
    names: set[str] = set()
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != _SHT_SYMTAB:
            continue
        strings = sections[link][4]
        for name, _, _, section, _, _ in _SYMBOL.iter_unpack(code[offset : offset + size]):
            if section == _SHN_UNDEF and name != 0:
                start = strings + name
                names.add(code[start : code.index(b"\0", start)].decode())
    return frozenset(names)
