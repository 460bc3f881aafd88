"""The code of a program's kernels: what differs in numbers alone is one module, modules are
compiled on all cores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.lowering.loops.llvm.shared_numbers import NUMBER_BYTES, families, merge, parse
from convir.runtime.cores import available_cores
from convir.runtime.host.jit import AS_EMITTED, CompileOptions, object_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


@dataclass
class KernelCodes:
    """What is to be compiled for one program."""

    numbers: list[int] = field(default_factory=list[int])
    """What the kernels of merged modules read, as 64-bit integers."""
    _modules: list[tuple[str, CompileOptions, tuple[str, ...]]] = field(
        default_factory=list[tuple[str, CompileOptions, tuple[str, ...]]]
    )

    def add(self, ir: str, options: CompileOptions, exports: Sequence[str]) -> int:
        """The number of the code of a module."""
        self._modules.append((ir, options, tuple(exports)))
        return len(self._modules) - 1

    def add_kernels(self, launches: Sequence[HostLaunch]) -> list[Placed]:
        """Where the functions of each launch are; no two launches have equal code."""
        modules = [parse(launch.ir) for launch in launches]
        alike: dict[object, list[int]] = {}
        for number, (launch, module) in enumerate(zip(launches, modules, strict=True)):
            key = launch.code.is_final, tuple(_pointers(launch, module).items())
            alike.setdefault(key, []).append(number)
        placed: dict[int, Placed] = {}
        for numbers in alike.values():
            for family in families([modules[number] for number in numbers]):
                members = [numbers[at] for at in family]
                found = self._family(
                    [launches[member] for member in members],
                    [modules[member] for member in members],
                )
                placed |= zip(members, found, strict=True)
        return [placed[number] for number in range(len(launches))]

    def _family(self, launches: list[HostLaunch], modules: list[Module]) -> list[Placed]:
        """Where the functions of launches are whose modules may be merged."""
        first = launches[0]
        options = AS_EMITTED if first.code.is_final else CompileOptions()
        if len(launches) == 1:
            code = self.add(first.ir, options, first.entries)
            return [Placed(code, {name: name for name in first.entries})]
        merged = merge(modules, _pointers(first, modules[0]))
        code = self.add(merged.ir, options, tuple(merged.entries[0].values()))
        found: list[Placed] = []
        for entries, numbers in zip(merged.entries, merged.numbers, strict=True):
            found.append(Placed(code, entries, len(self.numbers) * NUMBER_BYTES))
            self.numbers += numbers
        return found

    def compiled(self, cpu: CpuTarget) -> tuple[ObjectCode, ...]:
        """All codes, in the order in which they were added.

        Raises:
            CompileError: LLVM refuses one of them.
        """
        longest_first = sorted(
            range(len(self._modules)), key=lambda number: -len(self._modules[number][0])
        )
        pool = ThreadPoolExecutor(available_cores(), "convir-compile")
        try:
            codes = {
                number: pool.submit(_compiled, self._modules[number], cpu)
                for number in longest_first
            }
            return tuple(codes[number].result() for number in range(len(codes)))
        finally:
            pool.shutdown(cancel_futures=True)


def _compiled(module: tuple[str, CompileOptions, tuple[str, ...]], cpu: CpuTarget) -> ObjectCode:
    ir, options, exports = module
    return object_code(ir, cpu, options, exports)


def _pointers(launch: HostLaunch, module: Module) -> dict[str, int]:
    """For each entry of a launch by its symbol, how many pointers it gets."""
    stages = (*launch.prepare, *launch.stages)
    return {module.symbols[stage.entry]: len(stage.buffers) for stage in stages}
