"""Items in ranges: those that belong together are computed as one, others by themselves."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from host_contractions import TARGETS, Case, operands, window
from host_kernels import kernel_of

from convir.lowering.kernels.host.implicit_gemm.kernel import RowKernel
from convir.lowering.kernels.host.target import target
from convir.runtime.host.contraction import HostKernel, compile_contraction

pytestmark = pytest.mark.fast

THREE = (window(3, 1, 1), window(3, 1, 1))
CASES = {
    "one piece for one thread": (Case(1, 24, 300, (9, 7), THREE), "fprop"),
    "several pieces for one thread": (Case(1, 16, 64, (13, 17), THREE), "fprop"),
    "groups": (Case(1, 64, 192, (7, 8), THREE, groups=2), "fprop"),
    "results that are copied": (Case(1, 24, 200, (7, 9), THREE, orders=(1, 1, 1)), "fprop"),
    "accumulating": (Case(1, 24, 200, (7, 9), THREE, accumulate=True), "fprop"),
    "phases": (Case(1, 200, 24, (12, 9), (window(4, 2, 1), window(3, 2, 1))), "dgrad"),
    "zero-filled outputs": (Case(1, 400, 20, (18, 22), (window(2, 3), window(2, 4))), "dgrad"),
}
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_any_ranges_of_items_compute_the_same(name: str, cpu: str) -> None:
    case, kind = CASES[name]
    kernel = compile_contraction(case.spec(kind), target(cpu))
    (stage,) = (stage for stage in kernel.plan.stages if "c" in stage.buffers)
    cuts = kernel_of(kernel.plan, RowKernel).cuts
    together = cuts.chunks_together * cuts.parts_together
    assert 1 < together <= stage.items
    whole = _computed(kernel, case, kind, [(0, stage.items)])
    turns = [(item, item + 1) for item in range(stage.items)]
    np.testing.assert_array_equal(_computed(kernel, case, kind, turns), whole)
    for width in (2, 3, together + 1):
        bounds = [*range(0, stage.items, width), stage.items]
        ranges = [*pairwise(bounds)]
        np.testing.assert_array_equal(_computed(kernel, case, kind, ranges[::-1]), whole)


def _computed(
    kernel: HostKernel, case: Case, kind: str, ranges: list[tuple[int, int]]
) -> np.ndarray:
    """The result's elements, of these ranges of items one after the other."""
    x, w, y = (array.astype(np.float32) for array in operands(case))
    a, c = (x, y) if kind == "fprop" else (y, x)
    memory = {name: np.zeros(size, np.uint8) for name, size in kernel.workspace.items()}
    if not case.accumulate:
        c[...] = np.nan
    arrays = {"a": a, "b": w, "c": c, **memory}
    addresses: Any = {name: array.ctypes.data for name, array in arrays.items()}
    kernel.pack(addresses, 1)
    for stage in kernel.plan.stages:
        given = [addresses[name] for name in stage.buffers]
        arguments = (ctypes.c_void_p * len(given))(*given)
        run = _KERNEL(kernel.address(stage))
        for begin, end in ranges if "c" in stage.buffers else [(0, stage.items)]:
            run(ctypes.addressof(arguments), begin, end, 0)
    assert not np.isnan(c).any()
    return c
