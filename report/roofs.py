"""What a machine can do at most, by its target's rates, and what a kernel takes at least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from convir.lowering.implementations import HOST
from convir.lowering.kernels.host.target import CpuTarget
from convir.lowering.kernels.host.target import target as cpu_target
from convir.lowering.kernels.target import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.devices import Device
    from convir.runtime.program import Buffer

Machine: TypeAlias = Target | CpuTarget

_MULTIPLY_ADD_FLOPS = 2
_F64_BITS, _F32_BITS = 64, 32


def machine_of(device: Device) -> Machine:
    """What kernels for a device are chosen for."""
    return cpu_target() if device.kind == HOST else device.gpu


@dataclass(frozen=True)
class Floor:
    """The least that a kernel takes, and what bounds it."""

    us: float
    bound: str
    """`arithmetic` or `memory`."""


def flops_of_us(machine: Machine, element: str) -> float:
    """FLOPs in a µs of multiply-adds of an element type: of a whole GPU, or of one thread of a CPU,
    whose predictions are of one thread."""
    if isinstance(machine, CpuTarget):
        lanes = machine.lanes(_F64_BITS if element == "f64" else _F32_BITS)
        return _MULTIPLY_ADD_FLOPS * machine.multiply_adds * lanes * machine.clock_mhz
    rate = machine.f64_rate if element == "f64" else machine.tensor_rate(element)
    per_cycle = machine.fma_rate if rate is None else rate
    return _MULTIPLY_ADD_FLOPS * per_cycle * machine.multiprocessors * machine.clock_mhz


def bytes_of_us(machine: Machine) -> float:
    """Bytes in a µs that memory gives."""
    return machine.dram_rate if isinstance(machine, CpuTarget) else machine.dram_read


def floor_of(
    machine: Machine, element: str, flops: int, read: Sequence[Buffer], written: Sequence[Buffer]
) -> Floor:
    """What a kernel takes at least that reads and writes each operand once."""
    arithmetic = flops / flops_of_us(machine, element)
    memory = _memory_us(machine, sum(x.nbytes for x in read), sum(x.nbytes for x in written))
    if arithmetic >= memory:
        return Floor(arithmetic, "arithmetic")
    return Floor(memory, "memory")


def _memory_us(machine: Machine, read: int, written: int) -> float:
    if isinstance(machine, CpuTarget):
        return machine.traffic_us(read + written)
    return read / machine.dram_read + written / machine.dram_write


def name_of(machine: Machine) -> str:
    """What a reader calls it."""
    if isinstance(machine, CpuTarget):
        return f"one thread of {machine.cpu or machine.name}"
    return machine.name or machine.arch
