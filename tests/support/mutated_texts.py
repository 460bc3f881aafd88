""".nam files and MIOpenDriver lines with mistakes in them."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from nam_cases import random_model

if TYPE_CHECKING:
    import random

LINES = (
    "conv -n 2 -c 8 -H 9 -W 7 -k 12 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -g 4 -F 0",
    "convfp16 --spatial_dim 3 -n 1 -c 4 --in_d 5 -H 6 -W 7 -k 8 --fil_d 3 -y 2 -x 1 --pad_d 1 -F 1",
    "convbfp16 -m trans -n 1 -c 4 -H 6 -W 7 -k 8 -y 3 -x 3 -u 2 -v 2 -Y 1 -X 1 -F 2 -I NHWC",
    "convfp64 --spatial_dim 1 -n 3 -c 2 -W 40 -k 2 -x 5 -j 2 -q 4 -z same -F 4",
)
NUMBERS = (
    *("0", "1", "-1", "2", "7", "1000000", "10000000", "2147483647", "2147483648", "4294967296"),
    *("999999999999999999", "9" * 40, "1e3", "0x10", "x", "", "NHWC", "trans", "é", "--", "-c"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 16, 10**7, 2**31, 2**63, 10**30, 10**400, 0.5, -0.0),
    *(1e39, float("inf"), float("nan"), "", "x", "Tanh", "ReLU", "PReLU", [], {}, [1], [0.5]),
    *(["Tanh"], {"type": "LeakyReLU"}, {"active": True}, [[[]]], [1] * 5000, "\ud800", "\x00"),
)


class LineMutator:
    """Draws lines with one or a few mistakes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def draw(self) -> str:
        """A line, or what was one."""
        words: list[str] = [*self.rng.choice(LINES).split()]
        for _ in range(self.rng.choice((1, 1, 2, 3, 5))):
            at = self.rng.randrange(len(words))
            kind = self.rng.randrange(8)
            if kind < 4:
                numbers = [n for n, word in enumerate(words) if word.isdecimal()] or [at]
                words[self.rng.choice(numbers)] = self.rng.choice(NUMBERS)
            elif kind == 4:
                words[at] = self.rng.choice((*NUMBERS, *words))
            elif kind == 5 and len(words) > 1:
                del words[at]
            elif kind == 6:
                words[at:at] = words[at : at + 2]
            else:
                word = words[at] or "-"
                place = self.rng.randrange(len(word))
                words[at] = word[:place] + chr(self.rng.randrange(1, 0x300)) + word[place + 1 :]
        return " ".join(words)


class NamMutator:
    """Draws `.nam` files with one or a few mistakes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._models = [random_model(np.random.default_rng(seed)) for seed in range(6)]

    def draw(self) -> bytes:
        """The bytes of a model, or of what was one."""
        model: Any = json.loads(json.dumps(self.rng.choice(self._models)))
        if self.rng.random() < 0.2:
            submodels = [{"max_value": self._value(), "model": model}]
            model = {"architecture": "SlimmableContainer", "config": {"submodels": submodels}}
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 4))):
            self._change(model)
        text = json.dumps(model)
        if self.rng.random() < 0.1:
            depth = self.rng.choice((10, 1000, 200_000))
            text = self.rng.choice(('{"config":', "[")) * depth + text
        data = bytearray(text.encode())
        if self.rng.random() < 0.2:
            for _ in range(self.rng.choice((1, 2, 9))):
                at = self.rng.randrange(len(data))
                data[at : at + self.rng.choice((0, 1, 5))] = bytes([self.rng.randrange(256)])
        return bytes(data)

    def _value(self) -> Any:
        return deepcopy(self.rng.choice(VALUES))

    def _change(self, model: Any) -> None:
        """Another value, field or list entry, somewhere outside of most weights."""
        objects = list(_objects(model))
        owner: Any = self.rng.choice(objects)
        kind = self.rng.randrange(5)
        if isinstance(owner, list):
            entries = cast("list[Any]", owner)
            if kind < 2 and entries:
                entries[self.rng.randrange(len(entries))] = self._value()
            elif kind == 2 and entries:
                del entries[self.rng.randrange(len(entries))]
            else:
                entries.append(self._value())
            return
        fields = cast("dict[str, Any]", owner)
        if kind == 0 or not fields:
            fields[self.rng.choice(("foo", "bottleneck", "gating_mode", "head1x1"))] = self._value()
        elif kind == 1:
            del fields[self.rng.choice(list(fields))]
        else:
            fields[self.rng.choice(list(fields))] = self._value()


def _objects(value: Any) -> list[Any]:
    """Every object and list of a JSON value."""
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value).values()
        return [value, *(found for entry in inner for found in _objects(entry))]
    if isinstance(value, list):
        entries = cast("list[Any]", value)[:10]
        return [value, *(found for entry in entries for found in _objects(entry))]
    return []
