"""A kernel's tensor body as families of the host take it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from convir.analysis.refusal import Refusal
from convir.analysis.structural_keys import once_for_equal_bodies
from convir.lowering.bodies.contraction.read_fused import fused_readings
from convir.lowering.bodies.contraction.read_kernel import contraction_readings
from convir.lowering.bodies.contraction.reading_cost import VectorUnit, reading_cost
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.fused_store import EPILOGUE_BUFFERS, refusal
from convir.lowering.kernels.host.implicit_gemm.blocking import (
    MAX_TAPS,
    MAX_TAPS_OF_FULL_TILES,
    reads_in_place,
)
from convir.lowering.kernels.host.launch import Argument

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.bodies.contraction.fused import FusedContraction, FusedEpilogue
    from convir.lowering.bodies.contraction.read_kernel import ContractionCall
    from convir.lowering.bodies.contraction.spec import ComputeType, Contraction
    from convir.lowering.kernels.host.launch import Buffer, HostLaunch
    from convir.lowering.kernels.host.target import CpuTarget


@dataclass(frozen=True)
class HostContraction:
    """A kernel as one contraction: which argument is which operand."""

    spec: Contraction
    epilogue: FusedEpilogue | None
    a: int
    other: int
    """The argument that is B where C is computed, and C where B is."""
    init: int | None
    """The argument that the products are added to, where no epilogue does that."""
    constant_weights: bool = False
    """Whether B is a constant of the program, which is packed once."""

    @property
    def arguments(self) -> Mapping[Buffer, Argument]:
        """The kernel's argument or result behind every operand."""
        found: dict[Buffer, Argument] = {
            name: Argument("input", index) for name, index in self.inputs.items()
        }
        found["c" if self.spec.result == "C" else "b"] = Argument("output", 0)
        return found

    def launch(self, launch: HostLaunch) -> HostLaunch:
        """What launches on the contraction's operands, on the kernel's arguments."""
        on_arguments = launch.resolved(self.arguments)
        if self.init is None:
            return on_arguments
        copies = ((Argument("input", self.init), Argument("output", 0)),)
        return replace(on_arguments, copies=copies)

    def has_constant_weights(self, constants: Collection[int]) -> bool:
        """Whether B is read, and is one of the arguments `constants`: it is prepared once."""
        return self.spec.result == "C" and self.other in constants

    @property
    def inputs(self) -> Mapping[Buffer, int]:
        """The argument of every operand that is read."""
        found: dict[Buffer, int] = {
            "a": self.a,
            "b" if self.spec.result == "C" else "c": self.other,
        }
        operands = self.epilogue.operands if self.epilogue is not None else ()
        read = dict(zip(EPILOGUE_BUFFERS, (operand.argument for operand in operands), strict=False))
        return {**found, **read}


def _most_taps(spec: Contraction) -> int:
    """Of a phase of a contraction that walks a row table; 0 of one that does not."""
    return max(phase.taps for phase in spec.phases) if spec.result == "C" else 0


def _cost(spec: Contraction, unit: VectorUnit) -> float:
    """About how many cycles the host's kernels take."""
    lanes = unit.lanes(spec.element)
    in_place = spec.result == "C" and reads_in_place(spec, lanes, STORAGE_BYTES[spec.element])
    return reading_cost(spec, unit, packs=not in_place)


def _plain_cost(spec: Contraction, unit: VectorUnit) -> tuple[bool, float]:
    """What has room in a row table first."""
    return _most_taps(spec) > MAX_TAPS, _cost(spec, unit)


def _fused_cost(spec: Contraction, unit: VectorUnit) -> tuple[bool, bool, bool, float]:
    """Results whose channels are a tile's columns first: a bias is a vector beside them."""
    is_crowded = _most_taps(spec) > MAX_TAPS_OF_FULL_TILES
    return is_crowded, spec.result == "B", spec.c.stride != 1, _cost(spec, unit)


def _too_many_taps(spec: Contraction) -> Refusal | None:
    taps = _most_taps(spec)
    return Refusal(f"{taps} taps are too many for a row table") if taps > MAX_TAPS else None


_Ways: TypeAlias = "Sequence[tuple[Contraction, HostContraction | Refusal]] | Refusal"
"""Contractions as which a body can be read, each with what it is for these kernels; or why there is
none."""


@dataclass(frozen=True)
class _Readings:
    """All ways in which a body can be read."""

    plain: _Ways
    """Without an epilogue."""
    sharing: _Ways = ()
    """With one, where groups may read the same rows."""
    apart: _Ways = ()
    """With one, where they do not; not asked for where all that share rows are computed."""
    depend_on_lanes: bool = False
    """Whether a vector of another length may read it otherwise."""

    def best(self, unit: VectorUnit) -> HostContraction | Refusal:
        """What takes least time on a machine."""
        if not isinstance(self.plain, Refusal):
            return min(self.plain, key=lambda way: _plain_cost(way[0], unit))[1]
        sharing = _fastest_fused(self.sharing, unit)
        return _fastest_fused(self.apart, unit) if isinstance(sharing, Refusal) else sharing


def _fastest_fused(ways: _Ways, unit: VectorUnit) -> HostContraction | Refusal:
    return (
        ways
        if isinstance(ways, Refusal)
        else min(ways, key=lambda way: _fused_cost(way[0], unit))[1]
    )


@dataclass
class _Asked:
    """A vector that remembers whether a reading asked for its length."""

    unit: VectorUnit
    asked: bool = False
    matters: bool = False
    """Whether a reading depends on whether groups may share rows."""

    def __bool__(self) -> bool:
        self.matters = True
        return True

    def lanes(self, element: ComputeType) -> int:
        """How many elements it holds."""
        self.asked = True
        return self.unit.lanes(element)


def read_host_contraction(
    callee: kernel.FuncOp, unit: VectorUnit, of_any_length: _Readings | None = None
) -> HostContraction | Refusal:
    """Read the body of `callee`, or say why these kernels do not compute it.

    Args:
        callee: the kernel.
        unit: what multiplies on the CPU: of several readings the fastest there is taken.
        of_any_length: what vectors of any length read, where somebody has it.
    """
    readings = _readings(callee, None) if of_any_length is None else of_any_length
    if readings.depend_on_lanes:
        readings = _readings(callee, unit)
    return readings.best(unit)


@once_for_equal_bodies
def _readings(callee: kernel.FuncOp, unit: VectorUnit | None) -> _Readings:
    """All ways in which `callee` can be read by vectors of `unit`; of any length if it is None and
    none of them asks for it."""
    asked = _Asked(unit or VectorUnit(16, 1.0))
    plain = contraction_readings(callee, shared_by=asked)
    if not isinstance(plain, Refusal):
        ways = [(call.spec, _of_call(call)) for call in plain]
        return _Readings(ways, depend_on_lanes=asked.asked)
    asked.matters = False
    sharing = _fused_ways(callee, asked)
    if not asked.matters:
        return _Readings(plain, sharing, sharing, asked.asked)
    is_read = not isinstance(sharing, Refusal) and all(
        isinstance(each, HostContraction) for _, each in sharing
    )
    apart = () if is_read else _fused_ways(callee, None)
    return _Readings(plain, sharing, apart, asked.asked)


def _of_call(call: ContractionCall) -> HostContraction | Refusal:
    return _too_many_taps(call.spec) or HostContraction(
        call.spec, None, call.a, call.other, call.init
    )


def _fused_ways(callee: kernel.FuncOp, shared_by: _Asked | None) -> _Ways:
    """The ways to read a body with an epilogue that is stored from tiles."""
    readings = fused_readings(callee, shared_by=shared_by)
    if isinstance(readings, Refusal):
        return readings
    return [(spec, _of_fused(fused)) for spec, fused in readings]


def _of_fused(fused: FusedContraction | Refusal) -> HostContraction | Refusal:
    if isinstance(fused, Refusal):
        return fused
    reason = refusal(fused.contraction, fused.epilogue)
    if reason is not None:
        return Refusal(reason)
    return _too_many_taps(fused.contraction) or HostContraction(
        fused.contraction, fused.epilogue, fused.a, fused.other, None
    )


@dataclass(frozen=True, eq=False)
class KernelBody:
    """A kernel, and which of its arguments share memory with a result; it is read once."""

    function: kernel.FuncOp
    reused: tuple[tuple[int, int], ...] = ()
    """The arguments over which a result is written, all of it over all of it, and that result."""
    overlaps_partly: bool = False
    """Whether a result shares memory with an argument that is another buffer."""
    constants: tuple[int, ...] = ()
    """The arguments that are constants of the program."""
    _readings: dict[VectorUnit, HostContraction | Refusal] = field(
        default_factory=dict["VectorUnit", "HostContraction | Refusal"], init=False, repr=False
    )

    @property
    def overlaps(self) -> bool:
        """Whether a result shares memory with an argument, in part or wholly."""
        return len(self.reused) > 0 or self.overlaps_partly

    def contraction(self, cpu: CpuTarget) -> HostContraction | Refusal:
        """The kernel as one contraction with an epilogue, or why it is none of the host's."""
        unit = VectorUnit(cpu.vector_bytes, cpu.multiply_adds)
        if unit not in self._readings:
            read = read_host_contraction(self.function, unit, self._of_any_length)
            if not isinstance(read, Refusal) and read.has_constant_weights(self.constants):
                read = replace(read, constant_weights=True)
            self._readings[unit] = read
        return self._readings[unit]

    @cached_property
    def _of_any_length(self) -> _Readings:
        return _readings(self.function, None)

    def rows(self, cpu: CpuTarget) -> HostContraction | Refusal:
        """The same where C is computed: fprop, dgrad and products."""
        found = self.contraction(cpu)
        if isinstance(found, Refusal) or found.spec.result == "C":
            return found
        return Refusal("it computes the gradient of weights")

    def weights(self, cpu: CpuTarget) -> HostContraction | Refusal:
        """The same where B is computed: wgrad."""
        found = self.contraction(cpu)
        if isinstance(found, Refusal) or found.spec.result == "B":
            return found
        return Refusal("it computes no gradient of weights")
