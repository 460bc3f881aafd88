"""The code of a program's kernels: what differs in numbers alone is one module, modules are
compiled on all cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.loops.llvm.shared_numbers import (
    NUMBER_BYTES,
    Lines,
    families,
    merge,
    parse,
    without_numbers,
)
from convir.runtime.compile_threads import CompileThreads
from convir.runtime.host.jit import AS_EMITTED, CompileOptions, object_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future
    from typing import Self

    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget
    from convir.lowering.loops.llvm.shared_numbers import Module
    from convir.runtime.host.jit import ObjectCode


@dataclass(frozen=True)
class Placed:
    """Where the functions of a kernel are."""

    code: int
    """Which of the program's codes."""
    entries: Mapping[str, str]
    """Of its launches: the names in that code."""
    numbers: int | None = None
    """The byte among the program's numbers that its entries get a pointer to, if they do."""


class KernelCodes:
    """The modules of one program; each is compiled as soon as it is known, on all cores."""

    def __init__(self, cpu: CpuTarget) -> None:
        """Compile for `cpu`."""
        self.numbers: list[int] = []
        """What the kernels of merged modules read, as 64-bit integers."""
        self._cpu = cpu
        self._lines = Lines()
        self._pool = CompileThreads("convir-compile")
        self._codes: list[Future[ObjectCode]] = []

    def __enter__(self) -> Self:
        self._pool.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.__exit__(*error)

    def add(self, ir: str, options: CompileOptions, exports: Sequence[str]) -> int:
        """The number of the code of a module."""
        self._codes.append(self._pool.submit(object_code, ir, self._cpu, options, tuple(exports)))
        return len(self._codes) - 1

    def add_kernels(self, launches: Sequence[HostLaunch]) -> list[Placed]:
        """Where the functions of each launch are; no two launches have equal code."""
        alike: dict[object, list[tuple[int, str]]] = {}
        for number, launch in enumerate(launches):
            text = launch.ir
            key = launch.code.is_final, without_numbers(text, launch.entries)
            alike.setdefault(key, []).append((number, text))
        placed: dict[int, Placed] = {}
        for some in alike.values():
            if len(some) == 1:  # most are, and reading one takes as long as writing it
                ((number, text),) = some
                placed[number] = self._alone(launches[number], text)
            else:
                placed |= self._shared(launches, dict(some))
        return [placed[number] for number in range(len(launches))]

    def _shared(
        self, launches: Sequence[HostLaunch], texts: Mapping[int, str]
    ) -> dict[int, Placed]:
        """Where the functions are of those launches, by their numbers, whose code is in `texts`."""
        modules = {number: parse(text, self._lines) for number, text in texts.items()}
        alike: dict[object, list[int]] = {}
        for number, module in modules.items():
            key = tuple(pointers_of(launches[number], module).items())
            alike.setdefault(key, []).append(number)
        placed: dict[int, Placed] = {}
        for numbers in alike.values():
            for family in families([modules[number] for number in numbers]):
                members = [numbers[at] for at in family]
                first = launches[members[0]]
                if len(members) == 1:
                    found = [self._alone(first, texts[members[0]])]
                else:
                    found = self._merged(first, [modules[member] for member in members])
                placed |= zip(members, found, strict=True)
        return placed

    def _alone(self, launch: HostLaunch, text: str) -> Placed:
        """Where the functions of a launch are whose code is a module of its own."""
        code = self.add(text, options_of(launch), launch.entries)
        return Placed(code, {name: name for name in launch.entries})

    def _merged(self, first: HostLaunch, modules: list[Module]) -> list[Placed]:
        """Where the functions of the launches of a family are, of which `first` is the first."""
        merged = merge(modules, pointers_of(first, modules[0]))
        code = self.add(merged.ir, options_of(first), tuple(merged.entries[0].values()))
        found: list[Placed] = []
        for entries, numbers in zip(merged.entries, merged.numbers, strict=True):
            begin = len(self.numbers) * NUMBER_BYTES
            found.append(Placed(code, entries, begin if numbers else None))
            self.numbers += numbers
        return found

    def compiled(self) -> tuple[ObjectCode, ...]:
        """All codes, in the order in which they were added.

        Raises:
            CompileError: LLVM refuses one of them.
        """
        return tuple(code.result() for code in self._codes)


def options_of(launch: HostLaunch) -> CompileOptions:
    """How the code of a launch is compiled."""
    return AS_EMITTED if launch.code.is_final else CompileOptions()


def pointers_of(launch: HostLaunch, module: Module) -> dict[str, int]:
    """For each entry of a launch by its symbol, how many pointers it gets."""
    stages = (*launch.prepare, *launch.stages)
    return {module.symbols[stage.entry]: len(stage.buffers) for stage in stages}
