"""Mutated files: reading one gives a module that survives printing, or one located error.

The corpus is every lit test and example, cut at `// -----`. Mutations are drawn from fixed seeds,
so that a failure is found again by its seed and number.
"""

from __future__ import annotations

import random
import re
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from convir.dialects.context import new_context, read_module
from convir.dialects.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

ROOT = Path(__file__).parents[3]
INPUTS_PER_SEED = 1000
SEEDS = range(8)
MAX_CHARACTERS = 6000
SECONDS_PER_INPUT = 5.0
BYTES_SHARE = 0.05
"""The share of inputs in which one byte is replaced, which may leave UTF-8."""

TOKEN = re.compile(r'"[^"\n]*"|[\w$.%@#!^-]+|\s+|.', re.DOTALL)
ONE_LOCATED_LINE = re.compile(r"in\.mlir:[1-9]\d*:[1-9]\d*: error: \S[^\n]*")
ONE_LINE = re.compile(r"[^\n]*:\d+:\d+: error: \S[^\n]*")
EXCEPTION_NAME = re.compile(r"\b\w+(?:Error|Exception)\b")

ELEMENT_TYPE = re.compile(r"(?<![a-z])(?:b?f16|f32|f64|i\d+|index)\b")
ELEMENT_TYPES = ("f16", "bf16", "f32", "f64", "i1", "i8", "i64", "index", "si8", "none")
NUMBERS = ("0", "1", "2", "7", "-1", "9223372036854775807", "99999999999999999999")
ALIEN = (
    """
99999999999999999999|-1|0x|0xFFFFFFFFFFFFFFFFFF|1.0e999|?|*|<|>|{|}|(|)|[|]|"|%|^bb0|->|:|//
f32|f80|f8E4M3FN|i1|i0|i99999999|index|none|complex<f32>|tuple<>|tensor<?xf32>|tensor<*xf32>
memref<4xf32>|vector<[4]xf32>|dense<1.0>|dense<>|affine_map<(d0) -> (d0)>|strided<[1]>|unit|true
loc(unknown)|{-#|#-}|\x00|é|@f|!x|#x|1 : i0|() -> ()|array<i64: 1>|linalg.yield|func.return
tensor.empty|arith.constant|builtin.module|"a.b"
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


def corpus() -> list[str]:
    files = sorted((*ROOT.glob("lit/**/*.mlir"), *ROOT.glob("examples/*.mlir")))
    parts = (part for file in files for part in file.read_text().split("// -----"))
    uncommented = (re.sub(r"^\s*//.*\n", "", part, flags=re.MULTILINE) for part in parts)
    return [part[:MAX_CHARACTERS] for part in uncommented if part.strip()]


class Mutator:
    def __init__(self, seed: int, texts: list[str]):
        self.random = random.Random(seed)
        self.texts = texts

    def draw(self) -> str | bytes:
        tokens = TOKEN.findall(self.random.choice(self.texts))
        for _ in range(self.random.choice((1, 1, 1, 2, 3, 6))):
            if tokens:
                self.random.choice(MUTATIONS)(self, tokens, self.random.randrange(len(tokens)))
        text = "".join(tokens)
        if not text or self.random.random() > BYTES_SHARE:
            return text
        data = bytearray(text.encode())
        data[self.random.randrange(len(data))] = self.random.randrange(256)
        return bytes(data)

    def truncate(self, tokens: list[str], at: int) -> None:
        del tokens[at:]

    def delete(self, tokens: list[str], at: int) -> None:
        del tokens[at : at + self.random.choice((1, 1, 2, 5))]

    def duplicate(self, tokens: list[str], at: int) -> None:
        tokens[at:at] = tokens[at : at + self.random.choice((1, 3, 10))]

    def swap(self, tokens: list[str], at: int) -> None:
        other = self.random.randrange(len(tokens))
        tokens[at], tokens[other] = tokens[other], tokens[at]

    def replace(self, tokens: list[str], at: int) -> None:
        tokens[at] = self.random.choice(ALIEN)

    def insert(self, tokens: list[str], at: int) -> None:
        tokens.insert(at, self.random.choice(ALIEN))

    def renumber(self, tokens: list[str], at: int) -> None:
        numbered = [n for n, token in enumerate(tokens) if re.search(r"\d", token)]
        if numbered:
            index = self.random.choice(numbered)
            tokens[index] = re.sub(r"\d+", self.random.choice(NUMBERS), tokens[index], count=1)

    def exchange(self, tokens: list[str], at: int) -> None:
        """Put a token of the same kind, from anywhere in the text, in the place of one."""
        kind = re.sub(r"\w+", "w", tokens[at])
        alike = [token for token in tokens if re.sub(r"\w+", "w", token) == kind]
        tokens[at] = self.random.choice(alike)

    def retype(self, tokens: list[str], at: int) -> None:
        typed = [n for n, token in enumerate(tokens) if ELEMENT_TYPE.search(token)]
        if typed:
            index = self.random.choice(typed)
            element_type = self.random.choice(ELEMENT_TYPES)
            tokens[index] = ELEMENT_TYPE.sub(element_type, tokens[index], count=1)

    def flip_bit(self, tokens: list[str], at: int) -> None:
        token = tokens[at]
        place = self.random.randrange(len(token))
        flipped = chr(ord(token[place]) ^ 1 << self.random.randrange(7))
        tokens[at] = token[:place] + flipped + token[place + 1 :]

    def splice(self, tokens: list[str], at: int) -> None:
        other = TOKEN.findall(self.random.choice(self.texts))
        start = self.random.randrange(len(other))
        tokens[at:at] = other[start : start + self.random.choice((1, 5, 30))]

    def nest(self, tokens: list[str], at: int) -> None:
        opening, closing = self.random.choice(("()", "[]", "{}", "<>"))
        depth = self.random.choice((5, 50, 400, 5000))
        tokens[at] = opening * depth + tokens[at] + closing * depth


MUTATIONS: tuple[Callable[[Mutator, list[str], int], None], ...] = (
    # These leave most texts well-formed, for the verifiers to look at.
    *(Mutator.exchange, Mutator.retype, Mutator.renumber) * 4,
    Mutator.truncate,
    Mutator.delete,
    Mutator.duplicate,
    Mutator.swap,
    Mutator.replace,
    Mutator.insert,
    Mutator.flip_bit,
    Mutator.splice,
    Mutator.nest,
)


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mutated_file_is_a_module_or_one_located_error(seed: int):
    ctx = new_context()
    mutator = Mutator(seed, corpus())
    accepted = 0
    for number in range(INPUTS_PER_SEED):
        text = mutator.draw()
        context = f"seed {seed}, input {number}:\n{text!r}"
        with time_limit(SECONDS_PER_INPUT):
            try:
                module = read_module(text, "in.mlir", ctx)
            except DiagnosticError as error:
                message = str(error)
            else:
                accepted += 1
                printed = str(module)
                assert str(read_module(printed, "printed.mlir", ctx)) == printed, context
                continue
        # An op says itself where it stands if it carries a location.
        one_line = ONE_LINE if "loc(" in context else ONE_LOCATED_LINE
        assert one_line.fullmatch(message), f"{message}\n{context}"
        assert not EXCEPTION_NAME.search(message), f"{message}\n{context}"
    assert accepted
