"""Modules of LLVM assembly that differ in numbers alone become one, which reads the numbers.

    for family in families([parse(ir) for ir in irs]):
        merged = merge(family, {"@s0": 3})

An entry of a module gets an array of pointers. Behind those that it knows of, an entry of the
merged module finds one more: to the numbers of the module that it stands for. Each function loads
once, at its beginning, those that it needs; a table of numbers, however long, lies behind them, and
one of them says where.

What has to be a constant tells families apart: a size in a type, an alignment, an index of lanes, a
divisor (LLVM makes a multiplication of a constant one), the arguments of intrinsics. So the
instructions of a merged module are those of every single one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from operator import eq
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

NUMBER_BYTES = 8
"""Of a number, and of a pointer."""

NUMBERS = "%shared.numbers"
"""The pointer to them, in every function."""

_NAME = r'(?:"[^"]*"|[-\w.$]+)'
_LITERAL = re.compile(r"(?<![\w%@.\"-])-?\d+(?![\w.\"])")
"""An integer that is not a part of a name, a type or a float."""
_SPLITTING = re.compile(f"({_LITERAL.pattern})")
_HOLE = "\0"
"""Where an integer stood; no assembly holds it."""
_ANY_TABLE = re.compile(r" = internal constant \[\d+ x i64\] \[[^\]]*\]")
_SYMBOL = re.compile(f"@{_NAME}")
_DEFINED = re.compile(rf"^(?:define [^@]*)?(@{_NAME})(?=\(| =)", re.MULTILINE)
_DEFINITION = re.compile(r"^define [^@]*(?P<name>@s\d+)\((?P<arguments>[^()]*)\)")
_FIRST_ARGUMENT = re.compile(rf"ptr (?:\w+ )*(?P<name>%{_NAME})")
_FUNCTION = re.compile(r"^define [^@]*(@s\d+)\(", re.MULTILINE)
_LABEL = re.compile(rf"^{_NAME}:")
_CALL = re.compile(r"\bcall [^@]*(?P<name>@s\d+)\((?P<arguments>[^()]*)\)")
_TABLE = re.compile(
    r"^(?P<head>(?P<name>@s\d+) = internal constant )\[\d+ x i64\] \[(?P<elements>[^\]]*)\]",
    re.MULTILINE,
)
_TABLE_LINE = re.compile(r"^(?P<name>@s\d+) = internal constant \[\]")
"""A table without its elements."""
_ROOM = re.compile(
    rf"^@s\d+ = internal global \[\d+ x i8\] zeroinitializer|^ +%{_NAME} = alloca \[\d+ x i8\]"
)
_NUMBERS_ONLY = re.compile(r"= (?:add|sub|mul|icmp \w+)(?: nsw| nuw)* i64 |= phi +i64 ")
_WITH_NUMBERS = re.compile(r"= select i1 |= getelementptr | call |^\s*store i64 ")
_CONSTANTS_ONLY = re.compile(r"@llvm\.|<\d+ x|\[\d+ x|\{")
"""Of a line: arguments of intrinsics, lanes, types."""


class Module(NamedTuple):
    """LLVM assembly whose symbols are numbered, apart from its integers and its tables."""

    pieces: tuple[str, ...]
    """What stands between the integers."""
    integers: tuple[int, ...]
    symbols: Mapping[str, str]
    """By their names in the source."""
    tables: Mapping[str, tuple[int, ...]]
    """The elements of tables, by their symbols."""

    @property
    def text(self) -> str:
        """All of it but the elements of tables."""
        numbers = (*map(str, self.integers), "")
        return "".join(chain.from_iterable(zip(self.pieces, numbers, strict=True)))

    @property
    def begins(self) -> list[int]:
        """For each line of the text, and behind it, how many integers stand before it."""
        begins = [0]
        for count, piece in enumerate(self.pieces):
            begins += [count] * piece.count("\n")
        begins.append(len(self.integers))
        return begins


@dataclass(frozen=True)
class Merged:
    """One module in the place of several."""

    ir: str
    """LLVM assembly."""
    entries: tuple[Mapping[str, str], ...]
    """Of each module: the entries by their names there."""
    numbers: tuple[tuple[int, ...], ...]
    """Of each module: what an entry finds behind its last pointer, as 64-bit integers."""
    first: Module
    """The first of the modules."""
    slots: Mapping[int, int]
    """Of the integers of a module that differ, where each lies among the numbers."""
    tables: Mapping[str, int]
    """Of the tables that differ, where the number lies that says where they begin."""
    rooms: Mapping[int, int]
    """Of those that say how much memory there is, how much that is here."""

    def numbers_of(self, module: Module) -> tuple[int, ...] | None:
        """The numbers of one more module of the family; None where it is none, or differs from the
        modules in more than these do from one another."""
        if module.pieces != self.first.pieces or module.symbols != self.first.symbols:
            return None
        same = ((name, own == module.tables[name]) for name, own in self.first.tables.items())
        if not all(name in self.tables or equal for name, equal in same):
            return None
        found: dict[int, int] = {}
        for place, (value, known) in enumerate(
            zip(module.integers, self.first.integers, strict=True)
        ):
            if place in self.slots:
                if found.setdefault(self.slots[place], value) != value:
                    return None
            elif value != known and value > self.rooms.get(place, -1):
                return None
        row = [found.get(slot, 0) for slot in range(len(found) + len(self.tables))]
        _append_tables(row, self.tables, module)
        return tuple(row)


class Lines(dict[str, tuple[str, tuple[int, ...]]]):
    """Lines without their integers, and these: modules of one program have most lines in common."""

    def __missing__(self, line: str) -> tuple[str, tuple[int, ...]]:
        parts = _SPLITTING.split(line)
        self[line] = read = _HOLE.join(parts[::2]), tuple(map(int, parts[1::2]))
        return read


def parse(ir: str, lines: Lines | None = None) -> Module:
    """A module, to be compared with others: equal `pieces` may be merged.

    Args:
        ir: LLVM assembly.
        lines: what is known of lines, which grows.
    """
    names = dict.fromkeys(_DEFINED.findall(ir))
    symbols = {name: f"@s{number}" for number, name in enumerate(names)}
    text = _SYMBOL.sub(lambda found: symbols.get(found[0], found[0]), ir)
    tables: dict[str, tuple[int, ...]] = {}

    def taken(found: re.Match[str]) -> str:
        tables[found["name"]] = _elements(found["elements"])
        return f"{found['head']}[]"

    text = _TABLE.sub(taken, text)
    known = Lines() if lines is None else lines
    read = [known[line] for line in text.split("\n")]
    pieces = tuple("\n".join([rest for rest, _ in read]).split(_HOLE))
    plain = {name[1:].strip('"'): symbol for name, symbol in symbols.items()}
    return Module(pieces, tuple(chain.from_iterable([own for _, own in read])), plain, tables)


def without_numbers(ir: str, entries: Iterable[str]) -> bytes:
    """What is equal of modules that may be merged, and of few others: quicker than to parse them.

    Other names than those of the `entries` keep modules apart where they differ in more than
    digits.
    """
    for name in entries:
        ir = ir.replace(f"@{name}(", "@(").replace(f'@"{name}"(', "@(")
    return _ANY_TABLE.sub("", ir).encode().translate(None, b"-0123456789")


def _elements(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.replace("i64", "").split(",")))


def _append_tables(row: list[int], tables: Mapping[str, int], module: Module) -> None:
    """Put tables behind the numbers of a module; `tables` says which of these tell their places."""
    for name, slot in tables.items():
        row[slot] = len(row) * NUMBER_BYTES
        row += module.tables[name]


def families(modules: Sequence[Module]) -> list[list[int]]:
    """The places of modules that may be merged with one another, in order."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for number, module in enumerate(modules):
        alike.setdefault(module.pieces, []).append(number)
    found: list[list[int]] = []
    for numbers in alike.values():
        some = [modules[number] for number in numbers]
        constants = _constants(some[0], differing(some)) if len(some) > 1 else []
        split: dict[tuple[int, ...], list[int]] = {}
        for number in numbers:
            key = tuple(modules[number].integers[at] for at in constants)
            split.setdefault(key, []).append(number)
        found += split.values()
    return found


def differing(modules: Sequence[Module]) -> list[int]:
    """The places of the integers that are not the same in all of the modules."""
    first, *others = (module.integers for module in modules)
    found: set[int] = set()
    for other in others:
        if other != first:
            found.update(at for at, same in enumerate(map(eq, first, other)) if not same)
    return sorted(found)


def _constants(module: Module, places: Sequence[int]) -> list[int]:
    """Those of the places of integers in which these have to be constants."""
    lines, begins = module.text.splitlines(), module.begins
    functions = set(_FUNCTION.findall(module.text))
    if not all(_is_known(line, functions) for line in lines if "@" in line):
        return list(places)
    found: list[int] = []
    for at, inside in groupby(places, lambda place: bisect_right(begins, place) - 1):
        columns = [literal.start() for literal in _LITERAL.finditer(lines[at])]
        found += [
            place
            for place in inside
            if not _may_differ(lines[at], place - begins[at], columns[place - begins[at]])
        ]
    return found


def _may_differ(line: str, at: int, column: int) -> bool:
    """Whether the integer of a line at this place among its integers, and in this column, may be
    a value that is loaded."""
    if _ROOM.match(line):
        return at == 0
    if _CONSTANTS_ONLY.search(line):
        return False
    if _NUMBERS_ONLY.search(line):
        return True
    return bool(_WITH_NUMBERS.search(line)) and line.endswith("i64 ", 0, column)


def _is_known(line: str, functions: Container[str]) -> bool:
    """Whether a line does no more with a function than to call it, or to begin it."""
    named = [name for name in _SYMBOL.findall(line) if name in functions]
    if line.startswith("define "):
        return _DEFINITION.match(line) is not None and len(named) == 1
    return named == [found["name"] for found in _CALL.finditer(line) if found["name"] in functions]


def merge(modules: Sequence[Module], pointers: Mapping[str, int]) -> Merged:
    """One module in the place of those of a family.

    Args:
        modules: what to merge.
        pointers: for each entry by its symbol, how many pointers it gets.
    """
    return _Merger(modules, pointers).merged()


@dataclass
class _Function:
    """One function of the merged module."""

    name: str
    lines: list[str]
    needs: dict[str, str]
    """The values that it loads from the numbers, each with the instruction."""

    @cached_property
    def callees(self) -> set[str]:
        calling = (line for line in self.lines if "call " in line)
        return {found["name"] for line in calling for found in _CALL.finditer(line)}


class _Merger:
    """Writes the merged module, line by line."""

    def __init__(self, modules: Sequence[Module], pointers: Mapping[str, int]) -> None:
        self._modules = modules
        self._pointers = pointers
        self._rows: list[list[int]] = [[] for _ in modules]
        self._places: dict[tuple[int, ...], int] = {}
        """Where the numbers of a column lie."""
        self._tables: dict[str, int] = {}
        """Where the number lies that says where a table begins."""
        self._next = 0
        """The integers before the next line."""
        self._differing = set(differing(modules))
        self._slots: dict[int, int] = {}
        self._rooms: dict[int, int] = {}

    def merged(self) -> Merged:
        """The module."""
        others: list[str] = []
        functions: dict[str, _Function] = {}
        inside: _Function | None = None
        first = self._modules[0]
        lines, begins = first.text.splitlines(), first.begins
        for number, line in enumerate(lines):
            columns = self._columns(begins[number], begins[number + 1])
            found = _DEFINITION.match(line) if line.startswith("define") else None
            if found is not None:
                inside = functions[found["name"]] = _Function(found["name"], [], {})
            if inside is None:
                others.append(self._global(line, columns))
                continue
            inside.lines.append(self._instruction(line, columns, inside))
            if line == "}":
                inside = None
        getting = _with_callers(functions)
        for function in functions.values():
            others += self._written(function, getting)
        entries = tuple(
            {name: at[1:] for name, at in module.symbols.items() if at in self._pointers}
            for module in self._modules
        )
        ir = "\n".join(others) + "\n"
        for row, module in zip(self._rows, self._modules, strict=True):
            _append_tables(row, self._tables, module)
        numbers = tuple(map(tuple, self._rows))
        return Merged(ir, entries, numbers, first, self._slots, self._tables, self._rooms)

    def _columns(self, begin: int, end: int) -> list[tuple[int, ...]]:
        """For each integer of the next line: what stands there in each module; nothing where it is
        the same in all."""
        self._next = end
        if self._differing.isdisjoint(range(begin, end)):
            return []
        columns = zip(*(module.integers[begin:end] for module in self._modules), strict=True)
        return list(columns)

    def _global(self, line: str, columns: list[tuple[int, ...]]) -> str:
        """A line outside of functions: a table that differs goes to the numbers."""
        if found := _TABLE_LINE.match(line):
            return self._table(line, found["name"])
        return self._room(line, columns)

    def _room(self, line: str, columns: list[tuple[int, ...]]) -> str:
        """Memory is as much as any module asks for."""
        if not columns:
            return line
        self._rooms[self._next - len(columns)] = max(columns[0])
        return _replaced(line, [str(max(column)) for column in columns])

    def _table(self, line: str, name: str) -> str:
        first, *others = (module.tables[name] for module in self._modules)
        if all(other == first for other in others):
            elements = ", ".join(f"i64 {element}" for element in first)
            return line.replace("[]", f"[{len(first)} x i64] [{elements}]", 1)
        self._tables[name] = len(self._rows[0])
        for row in self._rows:
            row.append(0)
        return ""

    def _instruction(self, line: str, columns: list[tuple[int, ...]], function: _Function) -> str:
        for name in _SYMBOL.findall(line) if self._tables and "@" in line else ():
            if name in self._tables:
                at = f"%shared.table{self._tables[name]}"
                begin = self._loaded(self._tables[name], function)
                function.needs[at] = f"getelementptr i8, ptr {NUMBERS}, i64 {begin}"
                line = re.sub(f"{name}(?![0-9])", at, line)
        if not columns:
            return line
        if _ROOM.match(line):
            return self._room(line, columns)
        new: list[str] = []
        for place, column in enumerate(columns, self._next - len(columns)):
            differs = _differ(column)
            new.append(self._number(column, function) if differs else str(column[0]))
            if differs:
                self._slots[place] = self._places[column]
        return _replaced(line, new)

    def _number(self, column: tuple[int, ...], function: _Function) -> str:
        """The value that stands for what differs, loaded when `function` begins."""
        if column not in self._places:
            self._places[column] = len(self._rows[0])
            for row, value in zip(self._rows, column, strict=True):
                row.append(value)
        return self._loaded(self._places[column], function)

    def _loaded(self, place: int, function: _Function) -> str:
        """A number, loaded when `function` begins."""
        at = f"%shared.at{place}"
        function.needs[at] = f"getelementptr i8, ptr {NUMBERS}, i64 {place * NUMBER_BYTES}"
        function.needs[f"%shared.{place}"] = f"load i64, ptr {at}, align 8"
        return f"%shared.{place}"

    def _written(self, function: _Function, getting: set[str]) -> list[str]:
        """The lines of a function, which gets the numbers if it or what it calls needs them."""
        lines = [_passing(line, getting) for line in function.lines]
        if function.name not in getting:
            return lines
        found = _DEFINITION.match(lines[0])
        assert found is not None
        loads = [f"  {name} = {how}" for name, how in function.needs.items()]
        if function.name in self._pointers:
            table = _FIRST_ARGUMENT.match(found["arguments"])
            assert table is not None
            offset = self._pointers[function.name] * NUMBER_BYTES
            loads = [
                f"  %shared.last = getelementptr i8, ptr {table['name']}, i64 {offset}",
                f"  {NUMBERS} = load ptr, ptr %shared.last, align 8",
                *loads,
            ]
        else:
            end = found.end("arguments")
            comma = ", " if found["arguments"] else ""
            lines[0] = f"{lines[0][:end]}{comma}ptr {NUMBERS}{lines[0][end:]}"
        begin = next(at for at, line in enumerate(lines) if line.endswith("{")) + 1
        begin += bool(_LABEL.match(lines[begin]))
        return [*lines[:begin], *loads, *lines[begin:]]


def _with_callers(functions: Mapping[str, _Function]) -> set[str]:
    """The functions that need numbers, and those that call them."""
    getting = {function.name for function in functions.values() if function.needs}
    while True:
        callers = {x.name for x in functions.values() if x.callees & getting}
        if callers <= getting:
            return getting
        getting |= callers


def _passing(line: str, getting: set[str]) -> str:
    """A line whose calls hand the numbers on."""
    found = _CALL.search(line) if "call " in line else None
    if found is None or found["name"] not in getting:
        return line
    comma = ", " if found["arguments"] else ""
    end = found.end("arguments")
    return f"{line[:end]}{comma}ptr {NUMBERS}{line[end:]}"


def _differ(column: tuple[int, ...]) -> bool:
    return len(set(column)) > 1


def _replaced(line: str, new: Iterable[str]) -> str:
    values = iter(new)
    return _LITERAL.sub(lambda _: next(values), line)
