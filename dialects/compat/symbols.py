"""Looking up symbols in constant time.

xDSL's `SymbolTable.lookup_symbol` walks all operations of the table for each call of a function:
the square of the number of kernels, at each verification of a program that launches thousands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.traits import SymbolOpInterface, SymbolTable

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from xdsl.ir import Operation

    _Index = dict[str, ref[Operation]]

_indices: MutableMapping[Operation, _Index] = WeakKeyDictionary()
"""The symbols of each table as they were when it was last walked."""


def lookup_symbol(op: Operation, name: str | StringAttr | SymbolRefAttr) -> Operation | None:
    """The op that `name` names, seen from the closest symbol table around `op`.

    Raises:
        ValueError: there is no symbol table around `op`.
    """
    table: Operation | None = op
    while table is not None and not table.has_trait(SymbolTable):
        table = table.parent_op()
    if table is None:
        raise ValueError(f"Operation {op} has no SymbolTable ancestor")
    reference = name if isinstance(name, SymbolRefAttr) else SymbolRefAttr(name)
    found = _symbol(table, reference.root_reference.data)
    if found is None or not reference.nested_references:
        return found
    nested_root, *nested = reference.nested_references.data
    return lookup_symbol(found, SymbolRefAttr(nested_root, nested))


def _symbol(table: Operation, name: str) -> Operation | None:
    """The symbol `name` of a table; the table is only walked where its index is out of date."""
    known = _indices.get(table, {}).get(name)
    found = None if known is None else known()
    if found is not None and found.parent is table.regions[0].block and _name_of(found) == name:
        return found
    index: _Index = {}
    for op in table.regions[0].block.ops:
        if (symbol := _name_of(op)) is not None:
            index.setdefault(symbol, ref(op))
    _indices[table] = index
    return None if name not in index else index[name]()


def _name_of(op: Operation) -> str | None:
    trait = op.get_trait(SymbolOpInterface)
    symbol = None if trait is None else trait.get_sym_attr_name(op)
    return None if symbol is None else symbol.data
