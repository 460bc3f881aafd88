"""A program compiled for one CPU, as plain data: what the host device runs, and what is cached.

All memories of a call form one list: inputs, outputs, the arena, constants, states, and what is
kept between calls, such as weights that were packed once. A place is a byte of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from convir.runtime.program import StreamSpec

if TYPE_CHECKING:
    from convir.runtime.host.jit import ObjectCode
    from convir.runtime.program import Array, Copy, Fill, Gemm, TensorSpec

Place: TypeAlias = tuple[int, int]
"""The number of a memory, and a byte of it."""

CHAIN_CODE = -1
"""Which of a plan's codes is that of its fused chains: the last one."""


@dataclass(frozen=True)
class KernelLaunch:
    """One launch of machine code."""

    code: int
    """Which of the plan's codes; `CHAIN_CODE` too."""
    entry: str
    """The function."""
    items: int
    """Independent items of work."""
    arguments: tuple[Place, ...]
    """What the pointers that it gets point to."""
    alone: bool = False
    """Whether it runs on the calling thread: waking another takes longer."""


Step: TypeAlias = "Fill | Copy | Gemm | KernelLaunch"


@dataclass(frozen=True)
class HostPlan:
    """Code, memory and steps of a program on one CPU."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int
    """Of the memory plan, and of what kernels need beside it."""
    constants: tuple[Array, ...] = field(repr=False)
    state_bytes: tuple[int, ...]
    kept_bytes: tuple[int, ...]
    """Memories that `packings` write once, when the plan is loaded."""
    packings: tuple[KernelLaunch, ...]
    codes: tuple[ObjectCode, ...]
    steps: tuple[Step, ...]
    stream: StreamSpec = field(default_factory=StreamSpec)
    function: str = "main"
    """The name of what it computes."""
    numbers: tuple[int, ...] = ()
    """What kernels that share code read: 64-bit integers that the first of the memories that are
    kept holds, if there are any."""
    calls: tuple[int, ...] = ()
    """Which call of the program each step is of."""

    @property
    def arena(self) -> int:
        """The number of the arena among the memories."""
        return len(self.inputs) + len(self.outputs)

    @property
    def first_kept(self) -> int:
        """The number of the first memory that is kept between calls."""
        return self.arena + 1 + len(self.constants) + len(self.state_bytes)
