"""What the calls of a program take on this machine, for a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convir.reference.checking.inputs import Distribution, random_array
from convir.runtime.executable import Executable
from convir.runtime.trace.measure import measured_us

if TYPE_CHECKING:
    from convir.runtime.devices import Device
    from convir.runtime.program import Array, Program, TensorSpec

_SEED = 0


def measured_calls(program: Program, device: Device) -> list[float | None]:
    """µs of each call: on one thread of this machine's CPU, as predictions are, or on its GPU.

    Args:
        program: what is compiled and run, on random inputs.
        device: where.

    Raises:
        PassFailedException: a kernel has no code for the device.
        CompileError: a toolchain refused generated code.
        GpuMemoryError: the program does not fit on the GPU.
    """
    executable = Executable(device.load(program, threads=1))
    rng = np.random.default_rng(_SEED)
    return measured_us(executable, [_random(spec, rng) for spec in executable.inputs])


def _random(spec: TensorSpec, rng: np.random.Generator) -> Array:
    """Normally distributed numbers; integers are 0, as they may be indices."""
    if spec.dtype.kind in "iub":
        return np.zeros(spec.shape, spec.dtype)
    return random_array(spec.shape, spec.dtype, rng, Distribution.NORMAL)
