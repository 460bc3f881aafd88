"""What kernels are planned for: a GPU's architecture, its sizes and its measured rates.

A GPU is a file of `targets/`. What the driver says of a GPU that is none of these is completed by
the rates of the first file of its name, or else of its architecture.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from convir.analysis.refusal import Refusal
from convir.passes.machine_costs import MachineCosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.lowering.kernels.host.target import CpuTarget

HOPPER: Final = "sm_90a"
"""The only architecture with wgmma, and with register counts that warps trade."""
RESERVED_BYTES: Final = 1024
"""Shared memory that every block takes beside its own."""
_PACKAGE: Final = "convir.lowering.kernels"
_DEFAULT: Final = "h200"
_CPU: Final = "cpu"
"""The file of what is not a GPU."""
_SUFFIX: Final = ".toml"


@dataclass(frozen=True)
class Target:
    """A GPU; prints as `sm_90a:132:232448:NAME`, which `parse` reads.

    Cycles are those of a multiprocessor's clock under load, and rates those of one multiprocessor.
    """

    arch: str
    """The architecture that code is compiled for, e.g. `sm_90a`."""
    multiprocessors: int
    shared_bytes: int
    """The most shared memory that one block may ask for, in bytes."""
    name: str
    """As the driver says it; nothing has been measured on a GPU without one."""
    registers: int
    """32-bit registers of a multiprocessor."""
    threads: int
    """Threads that a multiprocessor holds at most."""
    clusters: Mapping[int, int] = field(hash=False)
    """Clusters of so many blocks, each alone on a multiprocessor, that run at the same time."""
    clock_mhz: float
    """Cycles per µs."""
    dram_read: float
    """Bytes per µs."""
    dram_write: float
    """Bytes per µs."""
    l2_bytes: int
    """What the L2 cache still holds of an operand that is read again."""
    l2_rate: float
    """Bytes per cycle that come from the L2 cache."""
    shared_rate: float
    """Bytes per cycle of shared memory."""
    mma_rate: Mapping[str, float] = field(hash=False)
    """Multiply-adds per cycle by `mma.sync`, by type: `f16`, `bf16`, `tf32`."""
    wgmma_rate: Mapping[str, float] = field(hash=False)
    """The same by `wgmma`; empty where there is none."""
    fma_rate: float
    """Multiply-adds of f32 per cycle."""
    f64_rate: float
    """The same of f64."""
    issue_rate: float
    """Instructions of a thread per cycle."""
    launch: float
    """µs of an empty launch, as calls are timed."""
    next_launch: float
    """µs between the end of a kernel and the beginning of the next one in a stream."""
    latency: float
    """Cycles of a load from DRAM."""
    costs: MachineCosts
    """By which passes weigh rewrites."""

    def __str__(self) -> str:
        return spelled(self.arch, self.multiprocessors, self.shared_bytes, self.name)

    @staticmethod
    def parse(text: str) -> Target:
        """The target that prints as `text`, with the rates of the GPU that is most like it.

        Raises:
            ValueError: no GPU prints so.
        """
        arch, *rest = text.split(":", 3)
        if not arch.startswith("sm_") or len(rest) < len(("multiprocessors", "shared_bytes")):
            raise ValueError(f"'{text}' is not a GPU: ARCH:MULTIPROCESSORS:SHARED_BYTES[:NAME]")
        multiprocessors, shared_bytes = map(int, rest[:2])
        return target_of(arch, multiprocessors, shared_bytes, "".join(rest[2:]))

    @property
    def is_hopper(self) -> bool:
        """Whether code for it may use wgmma and TMA."""
        return self.arch == HOPPER

    def shared_refusal(self, needed: int, resident: int = 1) -> Refusal | None:
        """Why `resident` blocks of a multiprocessor do not have `needed` bytes of shared memory
        each; None if they have."""
        room = (self.shared_bytes + RESERVED_BYTES) // resident - RESERVED_BYTES
        if needed <= room:
            return None
        return Refusal(f"it needs {needed} bytes of shared memory of {room}")

    def tensor_rate(self, element: str) -> float | None:
        """Multiply-adds per cycle by the fastest tensor core instruction for a type, if any."""
        return self.wgmma_rate.get(element, self.mma_rate.get(element))


def spelled(arch: str, multiprocessors: int, shared_bytes: int, name: str) -> str:
    """What a target prints as."""
    return f"{arch}:{multiprocessors}:{shared_bytes}{name and ':'}{name}"


def target_of(arch: str, multiprocessors: int, shared_bytes: int, name: str = "") -> Target:
    """A GPU by what its driver says, with the rates of the GPU that is most like it."""
    known = [named(each) for each in names()]
    alike = [each for each in known if each.name == name and each.arch == arch]
    alike += [each for each in known if each.arch == arch]
    return replace(
        next(iter(alike), DEFAULT_TARGET),
        arch=arch,
        multiprocessors=multiprocessors,
        shared_bytes=shared_bytes,
        name=name,
    )


@cache
def names() -> tuple[str, ...]:
    """The GPUs that there are files of, the default first."""
    found = (each.name for each in files(_PACKAGE).joinpath("targets").iterdir())
    known = {name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)}
    return (_DEFAULT, *sorted(known - {_DEFAULT, _CPU}))


@cache
def named(name: str) -> Target:
    """The GPU of a file of `targets/`, by the file's name without its suffix.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: it lacks a field, or has one that is none.
    """
    values = _values(name)
    clusters = {int(blocks): count for blocks, count in values.pop("clusters", {}).items()}
    costs = _costs(values.pop("costs"), values["l2_bytes"])
    return Target(clusters=clusters, costs=costs, **values)


@cache
def cpu_costs(cpu: CpuTarget) -> MachineCosts:
    """By which passes weigh rewrites for a CPU."""
    return _costs(_values(_CPU)["costs"], cpu.l2_bytes)


def _costs(values: Mapping[str, float], l2_bytes: int) -> MachineCosts:
    """Costs as a file has them: one op writes half a second-level cache, and the next reads it."""
    return MachineCosts.of({"cache_bytes": l2_bytes / 2, **values})


def _values(name: str) -> dict[str, Any]:
    file = files(_PACKAGE).joinpath("targets", name + _SUFFIX)
    return tomllib.loads(file.read_text(encoding="utf-8"))


DEFAULT_TARGET: Final = named(_DEFAULT)
"""What is planned for where there is no GPU."""
