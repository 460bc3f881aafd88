"""What the host launches for one kernel: code, stages over items of work, and memory, as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from convir.lowering.kernels.host.code.builder import Module
from convir.lowering.kernels.host.code.fused_store import EpilogueBuffer

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

Buffer: TypeAlias = (
    Literal["a", "b", "c", "packed", "a_copy", "c_copy", "parts", "keys", "values"] | EpilogueBuffer
)
"""Of a contraction: the operands, the packed weights, copies of operands, partial results, and what
the epilogue reads. Of attention: its packed keys and values."""


@dataclass(frozen=True)
class Argument:
    """A tensor that the kernel is called with."""

    place: Literal["input", "output"]
    index: int


@dataclass(frozen=True)
class Stage:
    """One launch over items of work."""

    entry: str
    """The function of the code."""
    items: int
    """Independent items of work."""
    buffers: tuple[Buffer | Argument, ...]
    """Whose addresses it gets."""
    work: float = inf
    """Scalar operations of all items, about; infinite where they are many or nobody can tell."""


class HostCode(Protocol):
    """LLVM IR that is written when somebody asks for it; equal codes are compiled once."""

    @property
    def ir(self) -> str:
        """LLVM assembly that defines the entry of every stage."""
        ...

    @property
    def is_final(self) -> bool:
        """Whether registers and vectors are chosen, so that LLVM only generates machine code."""
        ...


class Writer(Protocol):
    """What writes one kernel, or several, into a module."""

    def write(self, module: Module) -> None:
        """Add their functions."""
        ...


@dataclass(frozen=True)
class KernelCode:
    """The code of kernels that are written into one module."""

    computes: Hashable
    """What the kernels compute, and for which CPU; it alone says whether codes are equal."""
    kernels: tuple[Writer, ...] = field(compare=False, repr=False)
    preparing: tuple[Writer, ...] = field(default=(), compare=False, repr=False)
    """Kernels of what a launch prepares."""

    is_final = True

    @property
    def ir(self) -> str:
        """LLVM assembly, written anew."""
        module = Module()
        for kernel in (*self.kernels, *self.preparing):
            kernel.write(module)
        return module.text()

    @property
    def parts(self) -> tuple[KernelCode, KernelCode]:
        """The code of what a launch computes, and of what it prepares."""
        return (
            KernelCode(("computes", self.computes), self.kernels),
            KernelCode(("prepares", self.computes), self.preparing),
        )


@dataclass(frozen=True)
class HostLaunch:
    """The launches that compute one kernel, and the memory they need beside its own."""

    code: HostCode
    stages: tuple[Stage, ...]
    """In order."""
    prepare: tuple[Stage, ...] = ()
    """What depends on the weights alone: once for constant weights, else before each run. Nothing
    where weights are read as they lie."""
    prepares: Hashable = None
    """What `prepare` computes of the weights: equal ones compute the same."""
    workspace: Mapping[Buffer, int] = field(default_factory=dict["Buffer", int])
    """Bytes of each buffer that the caller provides; best aligned to 64 bytes. `packed` keeps
    its contents between runs, the others need not."""
    copies: tuple[tuple[Argument, Argument], ...] = ()
    """From an input to an output, before the stages, where their memory is not the same."""

    @property
    def ir(self) -> str:
        """The code of all stages as LLVM assembly."""
        return self.code.ir

    @property
    def parts(self) -> tuple[HostLaunch, ...]:
        """What is a module of its own: the stages, and what prepares for them, which is alike in
        kernels that share nothing else."""
        if not isinstance(self.code, KernelCode) or not self.code.preparing:
            return (self,)
        computing, preparing = self.code.parts
        return HostLaunch(computing, self.stages), HostLaunch(preparing, (), self.prepare)

    @property
    def entries(self) -> tuple[str, ...]:
        """The functions that `ir` exports."""
        return tuple(stage.entry for stage in (*self.prepare, *self.stages))

    def resolved(self, arguments: Mapping[Buffer, Argument]) -> HostLaunch:
        """The launch with the kernel's arguments in the place of a contraction's operands."""
        return replace(
            self,
            stages=tuple(_resolved(stage, arguments) for stage in self.stages),
            prepare=tuple(_resolved(stage, arguments) for stage in self.prepare),
        )


def _resolved(stage: Stage, arguments: Mapping[Buffer, Argument]) -> Stage:
    buffers = (
        name if isinstance(name, Argument) else arguments.get(name, name) for name in stage.buffers
    )
    return replace(stage, buffers=tuple(buffers))
