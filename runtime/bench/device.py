"""What a benchmark needs of a device: ceilings, a clock, data, our backend and its peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects.problem import ConvProblem
    from convir.runtime.bench.row import Ceilings
    from convir.runtime.executable import Executable
    from convir.runtime.program import Array


@dataclass(frozen=True)
class Candidate:
    """One backend, ready to compute one problem over and over."""

    backend: str
    layout: str
    config: str
    call: Callable[[], object]
    """Computes the problem once; on a GPU it only enqueues."""
    result: Callable[[], Array]
    """What the last call computed, on the host, in our layout."""


@dataclass(frozen=True)
class Failed:
    """A backend that cannot compute a problem, and why."""

    backend: str
    layout: str
    reason: str


class BenchDevice(Protocol):
    """One device of one run."""

    name: str

    def describe(self) -> dict[str, Any]:
        """What a result file says of the device: model, driver, threads, libraries."""
        ...

    def ceilings(self, dtype: str) -> Ceilings:
        """What the device can do at best with elements of `dtype`."""
        ...

    def ours(self, executable: Executable, inputs: Sequence[Array]) -> Candidate:
        """Our own program on `inputs`."""
        ...

    def peer(
        self, name: str, problem: ConvProblem, inputs: Sequence[Array]
    ) -> list[Candidate | Failed]:
        """The backend `name`, once per layout worth trying."""
        ...

    def clock(self, call: Callable[[], object], repeats: int) -> float:
        """µs per call of so many calls in a row."""
        ...
