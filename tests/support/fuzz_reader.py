"""Mutated input for one reader: a module, or one error, in little memory and time.

    python fuzz_reader.py onnx|nam|line FIRST_SEED SEEDS INPUTS_PER_SEED

The process limits its own memory, so that what would take more of it fails as anything else does.
"""

from __future__ import annotations

import random
import re
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutated_models import ModelMutator
from mutated_texts import LineMutator, NamMutator

from convir.dialects.context import new_context, read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.frontends.conv_module import module_of_line
from convir.frontends.miopen import parse_line
from convir.frontends.miopen_options import LineError
from convir.frontends.nam.importer import import_nam
from convir.frontends.onnx.importer import import_model

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

MEMORY_BYTES = 1 << 30
"""What an input may take, the process itself not counted."""
SECONDS = 20
"""What an input may take, on a machine that does other work too."""
MAX_CHARACTERS = 1500
"""Of a line of an error."""
MAX_LINES = 25
"""Of an error: each is about other nodes of a model."""

_ERROR = re.compile(r"[^\n]*:0:0: error: \S[^\n]*")


class Timeout(BaseException):
    """An input took too long; nothing that reads it may catch this."""


def main(reader: str, first_seed: int, seeds: int, count: int) -> None:
    """Read `count` inputs of each seed.

    Raises:
        AssertionError: one was neither a module nor one error.
    """
    signal.signal(signal.SIGALRM, _stop)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first_seed, first_seed + seeds):
            mutator = _MUTATORS[reader](random.Random(seed))
            if seed == first_seed:
                _limit_memory()
            accepted, slowest = 0, 0.0
            for number in range(count):
                drawn = mutator.draw()
                begin = time.monotonic()
                accepted += _check(reader, drawn, Path(folder), f"seed {seed}, input {number}")
                slowest = max(slowest, time.monotonic() - begin)
            assert 0 < accepted < count
            sys.stdout.write(f"{reader} {seed}: {accepted} of {count}, slowest {slowest:.2f} s\n")
            sys.stdout.flush()


def _check(reader: str, drawn: str | bytes, folder: Path, what: str) -> bool:
    """Whether an input is a module."""
    signal.alarm(SECONDS)
    try:
        module = _read(reader, drawn, folder)
    except (DiagnosticError, LineError) as error:
        _check_message(str(error), what, located=not isinstance(error, LineError))
        return False
    except BaseException as error:
        sys.stdout.write(f"{what}: {type(error).__name__}\n{drawn!r}"[:3000] + "\n")
        sys.stdout.flush()
        raise
    finally:
        signal.alarm(0)
    printed = str(module)
    assert str(read_module(printed, "printed.mlir", new_context())) == printed, what
    return True


def _check_message(message: str, what: str, *, located: bool) -> None:
    lines = message.split("\n")
    assert located or len(lines) == 1, f"{what}: {message}"
    assert len(lines) <= MAX_LINES, f"{what}: {message}"
    for line in lines:
        assert not located or _ERROR.fullmatch(line), f"{what}: {message}"
        assert len(line) < MAX_CHARACTERS, f"{what}: {message[:300]}"


def _read(reader: str, drawn: str | bytes, folder: Path) -> ModuleOp:
    if isinstance(drawn, str):
        return module_of_line(parse_line(drawn))
    path = folder / f"model.{reader}"
    path.write_bytes(drawn)
    return import_model(path) if reader == "onnx" else import_nam(path, frames=8)


def _limit_memory() -> None:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmSize:\s+(\d+) kB", status)
    size = int(found[1]) * 1024 if found else 0
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, -1))


def _stop(number: int, frame: object) -> None:
    raise Timeout(f"not done after {SECONDS} s")


_MUTATORS: dict[str, Any] = {"line": LineMutator, "nam": NamMutator, "onnx": ModelMutator}

if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
