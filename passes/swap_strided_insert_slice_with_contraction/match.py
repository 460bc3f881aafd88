"""Which loops of a contraction a scattered operand restricts, and to which iterations.

A dimension of the operand that one loop alone indexes is zero in all iterations of that loop but
those that meet a scattered element. A reduction loop may skip the others; a parallel loop may
skip them where the result then keeps what the init held. A dimension that several loops index, a
window, stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from xdsl.ir.affine import AffineExpr, AffineMap

from convir.analysis.refusal import Refusal
from convir.analysis.scatter.placement import Placement, covers, product, read
from convir.analysis.scatter.scattered_tensor import narrowed
from convir.analysis.slices import size_of

if TYPE_CHECKING:
    from convir.analysis.contraction import ContractionDims, Operand
    from convir.analysis.linear import LinearIndex
    from convir.analysis.scatter.placement import Digits
    from convir.analysis.scatter.scattered_tensor import Scatter
    from convir.analysis.slices import Size


@dataclass(frozen=True)
class Cut:
    """How one operand is cut down to the iterations that are left."""

    dims: tuple[Digits, ...]
    """What is kept of each dimension."""
    map: AffineMap
    """Its indexing map afterwards."""


@dataclass(frozen=True)
class Restriction:
    """A contraction, reduced to the iterations in which its scattered operand is not zero."""

    dims: ContractionDims
    operand: int
    """0 if the lhs is the scattered operand, 1 if the rhs is."""
    scatter: Scatter
    """The operand, its restricted dimensions narrowed to what the loops read of them."""
    kept: frozenset[int]
    """The dimensions of the operand that stay scattered."""
    loops: dict[int, Digits]
    """For each restricted loop, the iterations that are left."""
    maps: tuple[AffineMap, AffineMap, AffineMap]
    """The indexing maps of lhs, rhs and result afterwards."""
    other: tuple[Digits, ...]
    """What is left of each dimension of the other input."""
    result: tuple[Digits, ...]
    """The elements of each dimension of the result that are still computed."""

    @property
    def strided(self) -> bool:
        """True if a restricted loop skips iterations between those it keeps."""
        return any(placement.stride != 1 for digits in self.loops.values() for placement in digits)

    @property
    def scatters_result(self) -> bool:
        """True if some elements of the result are no longer computed."""
        return not all(covers(digits) for digits in self.result)

    @property
    def saving(self) -> float:
        """By which factor the trip count falls; for dynamic sizes what the strides promise."""
        return prod(_saving(digits) for digits in self.loops.values())


def restrict(dims: ContractionDims, operand: int, scatter: Scatter) -> Restriction | Refusal:
    """Skip every iteration that only meets gaps, in all dimensions where that is possible.

    Refuses, with the reason of the first strided dimension, if there is no such dimension.
    """
    reader = _Reader(dims, operand, scatter)
    for dim, digits in enumerate(scatter.dims):
        if covers(digits):
            continue
        refusal = reader.read_dim(dim)
        if refusal is not None:
            reader.kept[dim] = refusal.reason
    if not reader.loops:
        return Refusal(reader.first_reason())
    other = _cut(dims, 1 - operand, reader.loops)
    if isinstance(other, Refusal):
        return other
    result = _result(dims, reader.loops)
    if isinstance(result, Refusal):
        return result
    own = _map(len(dims.bounds), reader.index)
    maps = (own, other.map) if operand == 0 else (other.map, own)
    return Restriction(
        dims=dims,
        operand=operand,
        scatter=reader.scatter,
        kept=frozenset(reader.kept),
        loops=reader.loops,
        maps=(*maps, dims.view.init_maps[0]),
        other=other.dims,
        result=result,
    )


@dataclass
class _Reader:
    """Collects the loops that the dimensions of the scattered operand restrict."""

    dims: ContractionDims
    position: int
    scatter: Scatter
    loops: dict[int, Digits] = field(default_factory=dict[int, "Digits"])
    kept: dict[int, str] = field(default_factory=dict[int, str])
    index: list[AffineExpr] = field(default_factory=list[AffineExpr])

    def __post_init__(self) -> None:
        self.index = list(self.dims.view.input_maps[self.position].results)

    @property
    def operand(self) -> Operand:
        """The scattered operand."""
        return self.dims.inputs[self.position]

    def read_dim(self, dim: int) -> Refusal | None:
        """Restrict the loop that reads dimension `dim`; the reason if that cannot be done."""
        index = self.operand.index[dim]
        live = _live(self.dims, index)
        if len(live.terms) != 1:
            return Refusal(f"dimension {dim} is {_window_of(self.dims, live)}")
        ((loop, coefficient),) = live.terms
        if any(loop in other.loops for i, other in enumerate(self.operand.index) if i != dim):
            return Refusal(f"loop d{loop} indexes dimension {dim} and another one")
        count = _trip_count(self.dims, self.operand, dim, loop)
        if count is None:
            return Refusal(
                f"the trip count of loop d{loop}, which reads dimension {dim}, is not known"
            )
        seen = read(self.scatter.dims[dim], live.constant, coefficient, count)
        if seen is None:
            return Refusal(f"what loop d{loop} reads of dimension {dim} cannot be proved")
        if product([placement.size for placement in seen]) is None:
            return Refusal(f"dimension {dim} has several dynamic sizes")
        self.scatter = narrowed(self.scatter, dim, seen)
        if (coefficient, live.constant) != (1, 0):
            self.index[dim] = self._index_of(dim, loop)
        if not covers(seen):
            self.loops[loop] = seen
        return None

    def _index_of(self, dim: int, loop: int) -> AffineExpr:
        """`loop`, and the loops that run once and stood beside it: each input is still read by the
        loops that it was read by, so that a contraction remains one."""
        once = [other for other in self.operand.index[dim].loops if self.dims.is_unit(other)]
        beside = [AffineExpr.dimension(other) for other in once if other != loop]
        return sum(beside, AffineExpr.dimension(loop))

    def first_reason(self) -> str:
        """Why nothing is restricted: the first strided dimension's reason, or the first."""
        strided = [
            reason
            for dim, reason in self.kept.items()
            if any(placement.stride != 1 for placement in self.scatter.dims[dim])
        ]
        reasons = strided or list(self.kept.values())
        return reasons[0] if reasons else "no loop reads a gap"


def _live(dims: ContractionDims, index: LinearIndex) -> LinearIndex:
    """The index without the loops that run once, or with one of them if there are no others."""
    live = index.restricted(lambda loop: not dims.is_unit(loop))
    if live.terms or not index.terms:
        return live
    parallel = [loop for loop in index.loops if dims.role(loop) != "k"]
    kept = (parallel or list(index.loops))[0]
    return index.restricted(lambda loop: loop == kept)


def _window_of(dims: ContractionDims, index: LinearIndex) -> str:
    if not index.terms:
        return "read at one index only"
    taps = [dims.bounds[loop] for loop in index.loops if dims.role(loop) == "k"]
    size = f" of {taps[0]} taps" if len(taps) == 1 and taps[0] is not None else ""
    return f"read through a window{size} (loops {', '.join(f'd{loop}' for loop in index.loops)})"


def _trip_count(dims: ContractionDims, operand: Operand, dim: int, loop: int) -> Size | None:
    """The trip count of `loop`, as the size of the dimension where it stands there alone."""
    if operand.index[dim].bare == loop:
        return size_of(operand.value, dim)
    return dims.bounds[loop]


def _cut(dims: ContractionDims, position: int, loops: dict[int, Digits]) -> Cut | Refusal:
    """The other input after the loops are restricted: sliced, or read with a larger step."""
    operand = dims.inputs[position]
    kept: list[Digits] = []
    index = list(dims.view.input_maps[position].results)
    for dim, old in enumerate(operand.index):
        size = size_of(operand.value, dim)
        restricted = [loop for loop in old.loops if loop in loops]
        if not restricted:
            kept.append((Placement.whole(size),))
            continue
        live = old.restricted(lambda loop: loop in loops or not dims.is_unit(loop))
        if live.bare is not None:
            sliced = _slice_of(loops[live.bare], size)
            if sliced is None:
                return Refusal(f"the slice of dimension {dim} of the other input is not static")
            kept.append(sliced)
            continue
        stepped = _step(old, restricted, loops)
        if stepped is None or not (isinstance(size, int) or stepped.constant == old.constant):
            return Refusal(
                f"the window over dimension {dim} of the other input cannot take larger steps"
            )
        start = stepped.constant - old.constant
        index[dim] = replace(stepped, constant=old.constant).expression()
        kept.append((_tail(size, start),))
    return Cut(tuple(kept), _map(len(dims.bounds), index))


def _result(dims: ContractionDims, loops: dict[int, Digits]) -> tuple[Digits, ...] | Refusal:
    """The elements of each dimension of the result that the restricted loops leave."""
    kept: list[Digits] = []
    for dim, index in enumerate(dims.out.index):
        size = size_of(dims.out.value, dim)
        digits = None if index.bare is None else loops.get(index.bare)
        left = (Placement.whole(size),) if digits is None else _slice_of(digits, size)
        if left is None:
            return Refusal(f"dimension {dim} of the result is not provably as large as its loop")
        kept.append(left)
    return tuple(kept)


def _slice_of(digits: Digits, size: Size) -> Digits | None:
    """The iterations `digits` of a loop, as a slice of a dimension of `size` that it indexes."""
    if len(digits) == 1:
        return (replace(digits[0], extent=size),)
    return digits if product([placement.extent for placement in digits]) == size else None


def _step(
    index: LinearIndex, restricted: list[int], loops: dict[int, Digits]
) -> LinearIndex | None:
    """The index after each restricted loop counts only the iterations that are left."""
    for loop in restricted:
        digits = loops[loop]
        if len(digits) != 1 or index.coefficient(loop) < 0:
            return None
        offset, stride = digits[0].offset, digits[0].stride
        if not (isinstance(offset, int) and isinstance(stride, int)):
            return None
        index = index.substituted(loop, offset, stride)
    return index


def _tail(size: Size, start: int) -> Placement:
    """A dimension without its first `start` elements."""
    if start == 0 or not isinstance(size, int):
        return Placement.whole(size)
    return replace(Placement.whole(size), offset=start, size=size - start)


def _map(loops: int, results: list[AffineExpr]) -> AffineMap:
    return AffineMap(loops, 0, tuple(results))


def _saving(digits: Digits) -> float:
    ratio = 1.0
    for placement in digits:
        if isinstance(placement.size, int) and isinstance(placement.extent, int):
            ratio *= placement.extent / placement.size
        elif isinstance(placement.stride, int):
            ratio *= placement.stride
    return ratio
