"""What a benchmark needs of a device: ceilings, a clock, data, our backend and its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects.conv.problem import ConvProblem
    from convir.reference.checking.compare import Difference
    from convir.runtime.bench.candidate import Candidate, Failed
    from convir.runtime.bench.row import Ceilings
    from convir.runtime.executable import Executable
    from convir.runtime.program import Array


class BenchDevice(Protocol):
    """One device of one run."""

    name: str
    prepares_weights: bool
    """Whether our programs do more for constant weights than for weights that are arguments."""

    def describe(self) -> dict[str, Any]:
        """What a result file says of the device: model, driver, threads, libraries."""
        ...

    def ceilings(self, dtype: str) -> Ceilings:
        """What the device can do at best with elements of `dtype`."""
        ...

    def inputs(self, problem: ConvProblem, seed: int) -> Sequence[Any]:
        """Random operands in the problem's layouts, as arrays of the device."""
        ...

    def rearranged(self, problem: ConvProblem) -> Sequence[ConvProblem]:
        """The problem in the further layouts that our programs are measured in."""
        ...

    def arranged(self, operand: Any, axes: Sequence[int]) -> Any:
        """A dense copy of an operand whose axes are so transposed."""
        ...

    def ours(self, backend: str, executable: Executable, inputs: Sequence[Any]) -> Candidate:
        """A program of ours on `inputs`, the operands that are no constant of it."""
        ...

    def peer(
        self, name: str, problem: ConvProblem, inputs: Sequence[Any]
    ) -> list[Candidate | Failed]:
        """The backend `name`, once per layout worth trying."""
        ...

    def expected(
        self, problem: ConvProblem, inputs: Sequence[Any], formula: Callable[..., Array]
    ) -> Any:
        """The result in f64, as an array of the device; `formula` computes it with NumPy."""
        ...

    def difference(self, expected: Any, result: Any, relative: float) -> Difference:
        """Where a result differs most from what is expected."""
        ...

    def clock(self, call: Callable[[], object], repeats: int) -> float:
        """µs per call of so many calls in a row."""
        ...
