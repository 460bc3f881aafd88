"""One row of a benchmark: one backend on one problem."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from convir.runtime.bench.candidate import Weights
    from convir.runtime.bench.timing import Timing

OURS = "convir"
"""The backend of our own rows."""
PLAIN = "plain"
"""A peer everywhere: our own program without the rewrites of a pipeline."""
LIBRARY = "library"
"""A peer on a GPU: our own program with a library's matrix products instead of our kernels."""
OUR_PEERS = (PLAIN, LIBRARY)


@dataclass(frozen=True)
class Ceilings:
    """What the machine can do at best, measured in the same run."""

    gflops: float
    """10^9 multiplications and additions a second, by element type of the run."""
    gbytes: float
    """10^9 bytes read or written a second, of a copy that leaves the caches."""

    def floor_us(self, flops: int, nbytes: int) -> float:
        """The least time in µs that so many operations and bytes take."""
        return max(flops / self.gflops, nbytes / self.gbytes) / 1e3


@dataclass(frozen=True)
class RateUnit:
    """The unit of operations a second that fits a machine."""

    name: str
    gflops: float
    """How many 10^9 a second it is."""

    @staticmethod
    def of(gflops: Iterable[float]) -> RateUnit:
        """TFLOP/s where the largest of some rates is one at least, else GFLOP/s."""
        return TERA if max(gflops, default=0.0) >= TERA.gflops else GIGA

    def text(self, gflops: float) -> str:
        """A rate of so many 10^9 a second, in three digits at least."""
        value = gflops / self.gflops
        return f"{value:.{max(0, 2 - _exponent(value))}f}"


GIGA, TERA = RateUnit("GFLOP/s", 1.0), RateUnit("TFLOP/s", 1e3)


def _exponent(value: float) -> int:
    return floor(log10(value)) if value > 0 else 0


@dataclass(frozen=True)
class Row:
    """Figures of one backend on one problem; either `us` or `failure` is set."""

    suite: str
    line: str
    backend: str
    layout: str
    config: str
    weights: Weights
    us: Timing | None
    flops: int
    nbytes: int
    floor_us: float
    error: float | None = None
    tolerance: float | None = None
    failure: str | None = None

    @property
    def gflops(self) -> float | None:
        """10^9 useful operations a second."""
        return self.flops / self.us.median / 1e3 if self.us is not None else None

    @property
    def gbytes(self) -> float | None:
        """10^9 bytes a second, of those that the formula touches."""
        return self.nbytes / self.us.median / 1e3 if self.us is not None else None

    @property
    def roofline(self) -> float | None:
        """The floor over the median."""
        return self.floor_us / self.us.median if self.us is not None else None

    def record(self) -> dict[str, Any]:
        """The row as it stands in result files."""
        us = self.us
        times = {"median": us.median, "p20": us.p20, "p80": us.p80} if us is not None else None
        return {
            "suite": self.suite,
            "line": self.line,
            "backend": self.backend,
            "layout": self.layout,
            "config": self.config,
            "weights": self.weights,
            "us": times,
            "flops": self.flops,
            "bytes": self.nbytes,
            "floor_us": self.floor_us,
            "error": self.error,
            "tolerance": self.tolerance,
            "failure": self.failure,
        }
