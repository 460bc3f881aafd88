"""Object code to addresses: LLVM's linkers in this process, each for a bounded number of libraries.

A library that is dropped gives its code back, but its linker (an LLJIT) keeps a record of it, about
9 KiB, until the linker itself goes. So a linker takes only so many, and goes with the last of them.

The linkers are JITLink's, which reserves one range for all sections of an object file. RuntimeDyld
maps each section by itself: in a process with many mappings a large table comes to lie further from
its code than the 2 GiB that code reaches, and LLVM aborts.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from convir.lowering.loops.llvm.llvm_binding import llvm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIBRARIES_PER_LINKER = 64
"""A new linker takes half a millisecond, the records of so many libraries half a megabyte."""


class Library:
    """Loaded machine code; its addresses are valid as long as it is referenced."""

    def __init__(self, tracker: Any, linker: Any, addresses: dict[str, int]) -> None:
        self._tracker = tracker  # goes before the linker that it is of
        self._linker = linker
        self._addresses = addresses

    def address(self, name: str) -> int:
        """The address of the exported function `name`.

        Raises:
            KeyError: `name` was not exported.
        """
        return self._addresses[name]


class Linkers:
    """What links libraries, in any number. Calls from several threads may overlap."""

    def __init__(self, machine: Callable[[], Any]) -> None:
        """Link for what `machine` returns, LLVM's target machine of this process."""
        self._machine = machine
        self._lock = threading.Lock()
        self._linker: Any = None
        self._linked = 0

    def link(self, objects: Sequence[bytes], exports: Sequence[str]) -> Library:
        """One library of object files; what they leave undefined is looked up in the process.

        Raises:
            RuntimeError: a symbol is defined nowhere, or a file is not object code.
        """
        builder = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            builder.add_object_img(code)
        for name in exports:
            builder.export_symbol(name)
        with self._lock:
            if self._linked % LIBRARIES_PER_LINKER == 0:
                self._linker = llvm.create_lljit_compiler(
                    self._machine(), use_jit_link=True, suppress_errors=True
                )
            self._linked += 1
            linker = self._linker
            tracker = builder.link(linker, f"convir.{self._linked}")
        return Library(tracker, linker, {name: tracker[name] for name in exports})
