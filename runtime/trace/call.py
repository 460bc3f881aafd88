"""One call of an executable, traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from convir.runtime.arrays.border import ArrayBorder
from convir.runtime.cuda.device import CudaProgram
from convir.runtime.host.device import HostProgram
from convir.runtime.trace.cuda import traced_on_gpu
from convir.runtime.trace.host import traced_on_host, tracer
from convir.runtime.trace.slices import ALLOCATION, CALL, COPY, Slice, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.runtime.executable import DeviceProgram, Executable
    from convir.runtime.program import Array, TensorSpec


def traced_call(executable: Executable, arguments: Sequence[Any]) -> list[Slice]:
    """Run a program once, and say what ran when.

    A first call loads code, starts threads and touches memory: to see what all others take, call
    the program before.

    Args:
        executable: a program of known sizes.
        arguments: as the executable takes them.

    Returns:
        Copies of arguments, allocations, the call, and its steps on each track.

    Raises:
        TypeError, ValueError, GpuMemoryError: as the executable itself.
    """
    program = executable.loaded
    border = ArrayBorder(program.arrays, program.index)
    slices: list[Slice] = []

    def argument(number: int, value: Any, spec: TensorSpec) -> Any:
        if border.is_ready(value, spec):
            return value
        size = {"bytes": spec.nbytes}
        copy = f"copy argument {number}"
        return timed(slices, copy, COPY, lambda: border.argument(value, spec, number), size)

    def result(number: int, spec: TensorSpec) -> Any:
        size = {"bytes": spec.nbytes}
        name = f"allocate result {number}"
        return timed(slices, name, ALLOCATION, lambda: border.empty(spec), size)

    with program.scope():
        inputs = [
            argument(number, value, spec)
            for number, (value, spec) in enumerate(zip(arguments, program.inputs, strict=True))
        ]
        outputs = [result(number, spec) for number, spec in enumerate(program.outputs)]
        run = _traced(program)
        steps = timed(slices, f"@{program.function}", CALL, lambda: run(inputs, outputs))
    return [*slices, *steps]


def _traced(
    program: DeviceProgram,
) -> Callable[[Sequence[Array], Sequence[Array]], list[Slice]]:
    """What runs a program once and says when each step ran."""
    if isinstance(program, HostProgram):
        tracer()
        return lambda inputs, outputs: traced_on_host(program, inputs, outputs)
    if isinstance(program, CudaProgram):
        return lambda inputs, outputs: traced_on_gpu(program, inputs, outputs)
    raise TypeError(f"nothing traces a {type(program).__name__}")
