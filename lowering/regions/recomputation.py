"""How often a kernel computes what it fuses, and when that is too often.

The loops of a kernel inline every producer where its elements are read. What is read twice at one
index is computed once; what is read at two indices, or behind two conditions, is computed for each.
Seen from an element of the kernel's result, every place where elements of a value are asked for is
a position: the number of positions of an op times its size is the code that it takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from convir.analysis.refusal import Refusal
from convir.analysis.slices import slice_view
from convir.analysis.structured import structured
from convir.lowering.loops.pointwise import is_pointwise

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from xdsl.ir import Operation

MAX_TIMES: Final = 16
"""Computing an element so many times costs about as much as writing and reading it."""

MAX_STEPS: Final = 32
"""Changes of an index between a kernel's result and what it reads: conditions nest as deep."""

MAX_CODE: Final = 128
"""Ops of a kernel, each as often as it is computed, or of as many for each of its reductions:
compilers take the square of a block's length."""

MAX_REDUCTIONS: Final = 256
"""Reductions of a kernel: the phases of a backward data convolution with strides of 16. A kernel
that has one may have a store for each beside its code."""

RESULT: Final = frozenset({0})
"""Where a kernel's result is computed: at the position that it is written to."""


@dataclass(frozen=True)
class KernelSize:
    """What a kernel holds."""

    code: int
    """Ops, each as often as it is computed."""
    reductions: int = 0

    def plus(self, other: KernelSize) -> KernelSize:
        """That of both as one kernel."""
        return KernelSize(self.code + other.code, self.reductions + other.reductions)

    def refusal(self) -> Refusal | None:
        """Why no kernel is as large; None if one may be."""
        if self.reductions > MAX_REDUCTIONS:
            return Refusal(f"its kernel would hold more than {MAX_REDUCTIONS} reductions")
        limit = MAX_CODE * self.reductions + MAX_REDUCTIONS if self.reductions else MAX_CODE
        if self.code > limit:
            return Refusal(f"its kernel would be {self.code} ops, more than {limit}")
        return None


Reshapes: TypeAlias = "tuple[Operation, Reshapes] | None"
"""Reshapes between a value and who reads it, the last one first."""


@dataclass(frozen=True)
class Read:
    """One operand that an op reads, and the reshapes between what is read and that operand."""

    reader: Operation
    operand: int
    reshapes: Reshapes = None


@dataclass
class Positions:
    """Where the ops of kernels are computed, by the steps that lead there from the results."""

    _of: dict[Operation, frozenset[int]] = field(default_factory=dict["Operation", frozenset[int]])
    _numbers: dict[tuple[int, Hashable], int] = field(
        default_factory=dict[tuple[int, "Hashable"], int]
    )
    _steps: list[int] = field(default_factory=lambda: [0])
    """How many steps lead to each position; the first is that of a result."""

    def of(self, op: Operation) -> frozenset[int]:
        """Where `op` is computed."""
        return self._of.get(op, RESULT)

    def read_by(self, reads: Iterable[Read]) -> frozenset[int]:
        """Where a value is computed that is read so."""
        found: set[int] = set()
        for read in reads:
            at = self._after(self.of(read.reader), _step(read.reader, read.operand))
            reshapes = read.reshapes
            while reshapes is not None:
                reshape, reshapes = reshapes
                at = self._after(at, _reshaping(reshape))
            found |= at
        return frozenset(found)

    def put(self, op: Operation, at: frozenset[int]) -> None:
        """Compute `op` at these positions."""
        self._of[op] = at

    def code(self, op: Operation, at: frozenset[int] | None = None) -> int:
        """The code of `op`, in ops, at these positions, or at those where it is."""
        return len(self.of(op) if at is None else at) * _size(op)

    def refusal(self, op: Operation, at: frozenset[int], size: KernelSize) -> Refusal | None:
        """Why a kernel of a size must not compute `op` at these positions; None if it may."""
        if len(at) > MAX_TIMES:
            return Refusal(
                f"the kernel that reads it would compute each element {len(at)} times, "
                f"more than {MAX_TIMES}: it is written to memory"
            )
        if max(self._steps[position] for position in at) > MAX_STEPS:
            return Refusal(
                f"the kernel that reads it would find its elements in more than {MAX_STEPS} steps: "
                "it is written to memory"
            )
        refusal = size.plus(KernelSize(self.code(op, at))).refusal()
        return refusal and Refusal(f"{refusal.reason}: it is written to memory")

    def _after(self, at: frozenset[int], step: Hashable | None) -> frozenset[int]:
        return at if step is None else frozenset(self._next(position, step) for position in at)

    def _next(self, position: int, step: Hashable) -> int:
        number = self._numbers.setdefault((position, step), len(self._steps))
        if number == len(self._steps):
            self._steps.append(self._steps[position] + 1)
        return number


def _step(reader: Operation, operand: int) -> Hashable | None:
    """What leads from an index of the result of `reader` to one of an operand; None if both are the
    same, and no condition or loop lies between. Equal steps from one index lead to one index."""
    if is_pointwise(reader):
        return None
    view = structured(reader)
    if view is not None:
        indexing_map = view.maps[operand]
        if view.loops_of("reduction"):
            return reader, indexing_map
        if all(indexing_map == init_map for init_map in view.init_maps):
            return None
        return indexing_map, view.init_maps
    found = slice_view(reader)
    if found is None or found.kind != "extract_slice":
        return reader, operand
    if not found.dropped and not found.strided and not any(found.mixed_offsets):
        return None
    return found.mixed_offsets, found.mixed_strides, found.dropped


def _reshaping(alias: Operation) -> Hashable | None:
    """What leads from an index of the result of `alias` to one of its operand."""
    return None if alias.name == "tensor.cast" else (alias.operands[0].type, alias.results[0].type)


def _size(op: Operation) -> int:
    """How many ops compute an element of the result of `op`: a slice only adds to an index."""
    if op.name == "tensor.extract_slice":
        return 0
    view = structured(op)
    return 1 if view is None else max(1, len(view.body.ops) - 1)
