"""What `ptxas -v` says of kernels: their registers, and the bytes that registers spill."""

from __future__ import annotations

import re
from dataclasses import dataclass

VERBOSE = "--ptxas-options=-v"
"""The option of NVRTC that puts ptxas's report into the log."""

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SERIAL = re.compile(r"wgmma\.mma_async instructions are serialized .* function '([^']+)'")


@dataclass(frozen=True)
class Usage:
    """What one kernel takes of a multiprocessor."""

    registers: int
    """Registers of a thread."""
    stack_bytes: int
    """Local memory of a thread, spilled registers included."""
    spill_bytes: int
    """Bytes that a thread stores and loads because registers ran out."""
    is_serial: bool = False
    """Whether each of its wgmmas waits for the one before, as ptxas did not follow its branches."""


def parse_usage(log: str) -> dict[str, Usage]:
    """The usage of every kernel that a log of NVRTC reports on, by symbol."""
    found: dict[str, Usage] = {}
    symbol, stack, spilled = "", 0, 0
    serial = set(_SERIAL.findall(log))
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            symbol, stack, spilled = entry[1], 0, 0
        elif frame := _STACK.search(line):
            # Functions that a kernel calls are reported on before it is done.
            stack += int(frame[1])
            spilled += int(frame[2]) + int(frame[3])
        elif (registers := _REGISTERS.search(line)) and symbol:
            found[symbol] = Usage(int(registers[1]), stack, spilled, symbol in serial)
    return found
