"""Kernel configs: one frozen dataclass per family, whose fields are the schema of its text.

    @dataclass(frozen=True)
    class WgradConfig(WithRoles, family="wgrad", sizes=2):
        block_m: Annotated[int, OneOf(64, 128, 256)]
        block_n: Annotated[int, Range(8, 256, multiple=8)]
        stages: Annotated[int, Range(2)]
        math: Literal["mma", "wgmma"]
        roles: Annotated[tuple[int, int], Roles(*ROLES)]
        partition: Partition
        copies: Annotated[str, OneOf("a", "b")] = ""

prints as `wgrad 128x256 stages=4 math=wgmma roles=4:8 partition=stream-k:tree`, and parses back
from it. That string is what `configs = {cuda = "…"}` and tuning records hold.

* The first `sizes` fields are written `AxBxC`, every other one `KEY=VALUE`. The key is the field's
  name, or what `Key` says; fields of one key are joined by `:`.
* A field is an `int`, which is at least 1 unless `Range` or `OneOf` says otherwise; a string with
  its choices as `Literal` or `OneOf`; integers of one key as `tuple[int, int]`, written `AxB`, or
  `A:B` with `Roles`; or a `Partition`.
* A field with a default is not written where it has the default.
* A `bool` with `Spells` is not written: it decides the key of another field.

What a field alone forbids is an error of `parse`, as `stages=1: at least 2`. What fields forbid
together is what a family adds to `Config.refusal`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    ClassVar,
    Literal,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from convir.analysis.refusal import Refusal
from convir.dialects.nearest import did_you_mean
from convir.lowering.kernels.cuda.tile_schedule.partition import Partition

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

GROUP_WARPS = 4
"""Warps of a group that multiplies."""
MAX_CLUSTER = 8
"""Blocks of a cluster on every GPU that has them."""
ROLES = ((0, 4), (0, 8), (4, 4), (4, 8), (8, 8))
"""Producer warps and consumer warps; no warp that loads: every warp does both."""


@dataclass(frozen=True)
class Range:
    """Integers from `least` to `most`, multiples of `multiple`; of a tuple, each of them."""

    least: int = 1
    most: int | None = None
    multiple: int = 1
    separator: ClassVar[str] = "x"

    def __str__(self) -> str:
        """What is allowed, in words."""
        bounds = f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"
        return bounds if self.multiple == 1 else f"multiples of {self.multiple}, {bounds}"

    def accepts(self, value: object) -> bool:
        """Whether `value` is an integer, or a tuple of them, in the range."""
        if isinstance(value, int):
            is_within = self.least <= value and (self.most is None or value <= self.most)
            return is_within and value % self.multiple == 0
        return isinstance(value, tuple) and all(map(self.accepts, cast("tuple[object]", value)))


class OneOf:
    """One of some values."""

    separator: ClassVar[str] = "x"

    def __init__(self, *values: object) -> None:
        self.values = values

    def __str__(self) -> str:
        """What is allowed, in words."""
        return f"one of {', '.join(_text(value, self.separator) for value in self.values)}"

    def accepts(self, value: object) -> bool:
        """Whether `value` is one of them."""
        return value in self.values


class Roles(OneOf):
    """Producer warps and consumer warps, as `LOAD:MATH`."""

    separator: ClassVar[str] = ":"


@dataclass(frozen=True)
class Key:
    """The key of a field whose name is another."""

    name: str


@dataclass(frozen=True)
class Spells:
    """A flag that is True where a field has the key `key`, and False where it has `otherwise`."""

    key: str
    otherwise: str


@dataclass(frozen=True)
class _Entry:
    """A field as text."""

    name: str
    key: str
    """Empty for sizes."""
    label: str
    """What errors call it."""
    kind: object
    rule: Range | OneOf | None
    default: object

    def text(self, value: object) -> str:
        return _text(value, "x" if self.rule is None else self.rule.separator)

    def parse(self, text: str) -> object:
        """The value that prints as `text`.

        Raises:
            ValueError: there is none, or it is not allowed.
        """
        value: object = text
        if self.kind is Partition:
            return Partition.parse(text)
        if self.kind is int:
            value = _integer(text)
        elif get_origin(self.kind) is tuple:
            separator = "x" if self.rule is None else self.rule.separator
            parts = text.split(separator)
            is_whole = len(parts) == len(get_args(self.kind))
            value = tuple(map(_integer, parts)) if is_whole else None
        if self.rule is not None and not self.rule.accepts(value):
            raise ValueError(self.refused(text))
        return value

    def refused(self, text: str) -> str:
        shape = "AxB, each " if self.kind == tuple[int, int] and type(self.rule) is Range else ""
        return f"{self.label}={text}: {shape}{self.rule}"


@dataclass(frozen=True)
class _Schema:
    groups: dict[str, tuple[_Entry, ...]]
    """Fields by key, those of sizes at first and by an empty one."""
    flags: dict[str, Spells]
    """By the name of the field."""
    checks: tuple[tuple[_Entry, Callable[[object], bool]], ...]
    """The fields of which not every value is allowed, and which are."""

    @staticmethod
    @cache
    def of(config: type[Config]) -> _Schema:
        """The schema that the fields of a class are."""
        hints = get_type_hints(config, include_extras=True)
        groups: dict[str, list[_Entry]] = {}
        flags: dict[str, Spells] = {}
        for i, field in enumerate(fields(config)):
            kind, *marks = _unwrapped(hints[field.name])
            rules = [mark for mark in marks if isinstance(mark, Range | OneOf)]
            keys = [mark.name for mark in marks if isinstance(mark, Key)]
            spells = [mark for mark in marks if isinstance(mark, Spells)]
            if spells:
                flags[field.name] = spells[0]
                continue
            if not rules and get_origin(kind) is Literal:
                rules = [OneOf(*get_args(kind))]
            elif not rules and kind is not Partition:
                rules = [Range()]
            key = "" if i < config.sizes else next(iter(keys), field.name)
            label = field.name if not key or key in groups else key
            entry = _Entry(
                field.name, key, label, kind, next(iter(rules), None), cast("object", field.default)
            )
            groups.setdefault(key, []).append(entry)
        ruled = [(entry, entry.rule) for entries in groups.values() for entry in entries]
        checks = [(entry, rule.accepts) for entry, rule in ruled if rule is not None]
        return _Schema({key: tuple(each) for key, each in groups.items()}, flags, tuple(checks))


@dataclass(frozen=True)
class Config:
    """A config that prints, parses and validates itself by its fields."""

    family: ClassVar[str]
    """The first word of the text."""
    sizes: ClassVar[int]
    """How many of the fields are written `AxBxC`."""

    def __init_subclass__(cls, *, family: str = "", sizes: int = 0) -> None:
        cls.family, cls.sizes = family, sizes

    @property
    def warp_roles(self) -> dict[str, int]:
        """So many warps of a block are `producer`, `consumer` and the like; empty without roles."""
        return {}

    def __str__(self) -> str:
        """The canonical text, which `parse` reads."""
        schema = _Schema.of(type(self))
        spelled = {s.key: s.otherwise for name, s in schema.flags.items() if not self._of(name)}
        words = [self.family]
        for key, entries in schema.groups.items():
            values = [self._of(entry.name) for entry in entries]
            if values == [entry.default for entry in entries]:
                continue
            texts = [e.text(value) for e, value in zip(entries, values, strict=True)]
            words.append(f"{spelled.get(key, key)}={':'.join(texts)}" if key else "x".join(texts))
        return " ".join(words)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The config that prints as `text`, its keys in any order.

        Raises:
            ValueError: there is none; it names the field, the value, and what is allowed.
        """
        schema = _Schema.of(cls)
        found = cls._words(text)
        values: dict[str, object] = {}
        for name, spells in schema.flags.items():
            values[name] = spells.otherwise not in found
            if not values[name]:
                if spells.key in found:
                    raise ValueError(f"it has {spells.key} or {spells.otherwise}, not both")
                found[spells.key] = found.pop(spells.otherwise)
        for key in found.keys() - schema.groups.keys():
            known = [*schema.groups, *(spells.otherwise for spells in schema.flags.values())]
            raise ValueError(f"{cls.usage()}, without '{key}'{did_you_mean(key, known)}")
        for key, entries in schema.groups.items():
            if key in found:
                separator = ":" if key else "x"
                parts = found[key].split(separator) if len(entries) > 1 else [found[key]]
                if len(parts) != len(entries):
                    raise ValueError(f"{cls.usage()}, not '{found[key]}'")
                values |= {e.name: e.parse(part) for e, part in zip(entries, parts, strict=True)}
            elif any(entry.default is MISSING for entry in entries):
                raise ValueError(f"{cls.usage()}, and lacks {key or 'its sizes'}")
        return cls(**values)

    @classmethod
    def _words(cls, text: str) -> dict[str, str]:
        """The values of a text by key, sizes by an empty one."""
        family, *words = text.split(" ")
        if family != cls.family:
            raise ValueError(f"'{text}' is not a config of {cls.family}")
        found: dict[str, str] = {}
        for i, word in enumerate(words):
            key, _, value = word.partition("=") if "=" in word else ("", "", word)
            if key in found or (not key and (i > 0 or cls.sizes == 0)):
                raise ValueError(f"{cls.usage()}, not '{word}' here")
            found[key] = value
        return found

    @classmethod
    def usage(cls) -> str:
        """How its text is written."""
        words = ["it is written", cls.family]
        for key, entries in _Schema.of(cls).groups.items():
            values = ":".join("…" for _ in entries)
            word = f"{key}={values}" if key else "x".join(entry.name.upper() for entry in entries)
            is_optional = all(entry.default is not MISSING for entry in entries)
            words.append(f"[{word}]" if is_optional else word)
        return " ".join(words)

    def refusal(self) -> Refusal | None:
        """Why no kernel has this config, whatever it computes; a family adds what fields forbid
        together."""
        for entry, accepts in _Schema.of(type(self)).checks:
            value: object = getattr(self, entry.name)
            if not accepts(value) and value != entry.default:
                return Refusal(entry.refused(entry.text(value)))
        return None

    def _of(self, name: str) -> object:
        value: object = getattr(self, name)
        return value


class WithRoles(Config):
    """A config whose blocks have producer warps and consumer warps."""

    roles: tuple[int, int]
    """Producer warps, and consumer warps."""

    @property
    def warp_roles(self) -> dict[str, int]:
        """The warps of a block by what they do."""
        producers, consumers = self.roles
        return {"producer": producers, "consumer": consumers}

    @property
    def consumer_warpgroups(self) -> int:
        """Groups of four consumer warps."""
        return self.roles[1] // GROUP_WARPS

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return sum(self.roles) * 32


def _unwrapped(hint: object) -> tuple[object, ...]:
    """A field's type, and what `Annotated` says of it."""
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)


def _text(value: object, separator: str) -> str:
    if type(value) is tuple:
        return separator.join(map(str, cast("tuple[object, ...]", value)))
    return str(value)


def _integer(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None
