"""Executables for other batches of what is compiled: no passes, no compiler of machine code.

Where calls bind the first sizes of arguments, all alike, that is the batch. What is compiled for
one batch serves those from a quarter of it to eight times as many; past that (`LESS`, `MORE`)
passes choose anew. Two of the next batches are planned as well, and compared: what a batch changes
must be sizes (`convir.runtime.batches.growth`).
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from convir.analysis.refusal import Refusal
from convir.runtime.executable import Executable
from convir.runtime.program import DYNAMIC_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.runtime.cache.program_entry import Signature

Shapes: TypeAlias = tuple[tuple[int, ...], ...]

LESS, MORE = 4, 8
"""A batch is served by what was compiled for one that is at most so many times as large, or as
small. The config that was chosen for 32 is predicted to take 1.01 of the best one's time at a
batch of 8 (geometric mean of 28 lines of the suites), and 1.005 at 256."""
PLANNED = 3
"""Programs that are compared, of the first batch and two others."""
BESIDE = 6
"""Batches behind the first one that may be planned beside it: those are compared that
passes choose the same configs for."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bound:
    """One batch."""

    batch: int
    shapes: Shapes
    """Of the arguments."""


Rebind: TypeAlias = "Callable[[Bound], Executable | Refusal]"
"""Makes the executable for a batch, or says why it has to be compiled."""


class _Base:
    """A batch that was compiled."""

    def __init__(self, batch: int, plan_others: Callable[[], Rebind | Refusal]) -> None:
        self.batch = batch
        self._plan_others = plan_others
        self._lock = threading.Lock()
        self._others: Rebind | Refusal | None = None

    def others(self) -> Rebind | Refusal:
        """What makes executables for others; whoever asks first waits until it is planned."""
        with self._lock:
            if self._others is None:
                self._others = self._plan_others()
            return self._others


class Batches:
    """The executables of one function for all batches."""

    def __init__(
        self,
        signature: Signature,
        specialise: Callable[[Shapes], Executable],
        rebinding: Callable[[Sequence[int], Sequence[Bound], Executable], Rebind | Refusal],
        compiles: Callable[[], bool] = lambda: True,
    ) -> None:
        """Nothing is compiled yet.

        Args:
            signature: of the function, with its open sizes.
            specialise: compiles for one set of shapes.
            rebinding: what makes executables for other batches, from the numbers of the arguments
                that begin with the batch, some batches, and the executable for the first of them.
            compiles: whether this process has imported the compiler. Then `rebinding` is called at
                once, in a thread; else by the first batch that is not there.
        """
        inputs = signature.inputs
        self._open = [i for i, spec in enumerate(inputs) if spec.shape[:1] == (DYNAMIC_SIZE,)]
        self._specialise = specialise
        self._rebinding = rebinding
        self._compiles = compiles
        self._bases: dict[Shapes, list[_Base]] = {}
        """By the shapes without the batch."""
        self._lock = threading.Lock()

    def specialise(self, shapes: Shapes) -> Executable:
        """The executable for arguments of these shapes.

        Raises:
            DiagnosticError, PassFailedException, CompileError: what compiles it does.
        """
        batch = self._batch(shapes)
        if batch is None:
            return self._specialise(shapes)
        rest = self._with_batch(shapes, 0)
        near = self._near(rest, batch)
        for base in near:
            rebind = base.others()
            made = rebind if isinstance(rebind, Refusal) else rebind(Bound(batch, shapes))
            if isinstance(made, Executable):
                return made
            _log.info("a batch of %d is not bound by that of %d: %s", batch, base.batch, made)
        made = self._specialise(shapes)
        # Passes drop sizes of 1; what binds no other batch here would not from this one either.
        if batch > 1 and not near:
            self._learn(rest, batch, made)
        return made

    def _batch(self, shapes: Shapes) -> int | None:
        """The size that all first sizes are that calls bind; None if there are none, or several."""
        sizes = {shapes[i][0] for i in self._open}
        return sizes.pop() if len(sizes) == 1 and 0 not in sizes else None

    def _with_batch(self, shapes: Shapes, batch: int) -> Shapes:
        return tuple(
            (batch, *shape[1:]) if i in self._open else shape for i, shape in enumerate(shapes)
        )

    def _near(self, rest: Shapes, batch: int) -> list[_Base]:
        """What may serve a batch, the nearest first; equally near, the first compiled first."""
        with self._lock:
            known = list(self._bases.get(rest, ()))
        near = [base for base in known if base.batch <= batch * LESS and batch <= base.batch * MORE]
        return sorted(near, key=lambda base: max(base.batch, batch) / min(base.batch, batch))

    def _learn(self, rest: Shapes, batch: int, made: Executable) -> None:
        base = _Base(batch, lambda: self._plan_others(rest, batch, made))
        with self._lock:
            self._bases.setdefault(rest, []).append(base)
        if self._compiles():
            threading.Thread(target=base.others, name="convir-batches").start()

    def _plan_others(self, rest: Shapes, batch: int, made: Executable) -> Rebind | Refusal:
        beside = [
            Bound(each, self._with_batch(rest, each)) for each in range(batch, batch + BESIDE + 1)
        ]
        try:
            others = self._rebinding(self._open, beside, made)
        except Exception as error:  # Whatever it is, the batch itself is there.
            others = Refusal(f"{type(error).__name__}: {error}")
        if isinstance(others, Refusal):
            _log.info("other batches than %d are compiled: %s", batch, others.reason)
        return others
