"""Kernels compiled for the CPUs that every x86-64 machine can be asked to be, and run once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from convir.dialects.context import read_module
from convir.lowering.kernels.host.launch import HostLaunch, KernelCode
from convir.lowering.kernels.host.target import HOST, X86_64, X86_64_V3, target
from convir.runtime.executable import Executable
from convir.runtime.host.device import HostProgram
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.kernels.host.target import CpuTarget

Kernel = TypeVar("Kernel")

TARGETS = (X86_64, X86_64_V3, HOST)
"""Without f16 conversions and without FMA, with both, and whatever this machine is."""

POISON = 0xFF
"""Every byte of an output before a run: NaN in every float."""


def runnable(name: str) -> CpuTarget | None:
    """The target called `name`; None if this machine cannot run its code."""
    cpu = target(name)
    if cpu.fma and not target(HOST).fma:
        return None
    return cpu


def program_text(kernel: str, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """An rt program that launches the kernel `@k` on buffers of the given types (`4x8xf32`)."""
    buffers = [f"memref<{shape}>" for shape in (*inputs, *outputs)]
    names = [f"%a{i}" for i in range(len(buffers))]
    arguments = ", ".join(f"{n}: {b}" for n, b in zip(names, buffers, strict=True))
    split = len(inputs)

    def operands(begin: int, end: int) -> str:
        return f"({', '.join(names[begin:end])} : {', '.join(buffers[begin:end])})"

    ins = f"ins{operands(0, split)}" if inputs else ""
    outs = f"outs{operands(split, len(buffers))}"
    return f"""{kernel}
func.func @main({arguments}) attributes {{rt.program, rt.outputs = {len(outputs)} : i64}} {{
  rt.launch @k {ins} {outs}
  func.return
}}
"""


def run_program(text: str, arguments: Sequence[Any], cpu: CpuTarget) -> tuple[Any, ...]:
    """The results of an rt program on the host, compiled for `cpu`, its outputs poisoned before."""
    executable = Executable(HostProgram(read_program(read_module(text)), cpu=cpu))
    outputs = [poisoned(spec.shape, spec.dtype) for spec in executable.outputs]
    executable(*arguments, out=outputs)
    return tuple(outputs)


def poisoned(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array that holds what no result is."""
    if np.dtype(dtype) == np.bool_:
        return np.ones(shape, np.bool_)
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.full(size, POISON, np.uint8).view(dtype).reshape(shape)


def kernel_of(launch: HostLaunch, kind: type[Kernel]) -> Kernel:
    """The kernel of a kind among those that a launch is made of."""
    assert isinstance(launch.code, KernelCode)
    return next(kernel for kernel in launch.code.kernels if isinstance(kernel, kind))


def assert_same(found: Any, expected: Any, what: str = "") -> None:
    """Equal in every element; NaN is NaN, -0 is 0."""
    assert found.dtype == expected.dtype
    if found.dtype.kind in "fV":
        found, expected = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(found, expected, err_msg=what)
