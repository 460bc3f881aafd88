"""Which lines of the weights are prefetched: all but those that are read first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_contractions import Case, window
from host_kernels import kernel_of

from convir.lowering.kernels.host.code.builder import LINE_BYTES
from convir.lowering.kernels.host.implicit_gemm.kernel import RowKernel
from convir.lowering.kernels.host.registry import plan_contraction
from convir.lowering.kernels.host.target import target
from convir.runtime.host.contraction import HostKernel
from convir.runtime.host.jit import compile_ir

pytestmark = pytest.mark.fast

CASES = {
    "blocks of taps": Case(1, 96, 48, (12, 12), (window(3), window(3))),
    "blocks of channels": Case(1, 800, 96, (10, 9), (window(1), window(1))),
    "as many tiles as lines of a step": Case(1, 800, 96, (2, 5), (window(1), window(1))),
}
LISTED = """
define internal void @asked(ptr %place, i32 %write, i32 %keep, i32 %data) {{
  %list = inttoptr i64 {list} to ptr
  %before = load i64, ptr %list
  %count = add i64 %before, 1
  store i64 %count, ptr %list
  %entry = getelementptr i64, ptr %list, i64 %count
  store ptr %place, ptr %entry
  ret void
}}
"""


@pytest.mark.parametrize("name", CASES)
def test_each_line_of_what_comes_next_is_asked_for(name: str) -> None:
    case, cpu = CASES[name], target("x86-64-v3")
    plan = plan_contraction(case.spec("fprop"), cpu)
    asked = np.zeros(1 << 20, np.int64)
    declaration = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    assert declaration in plan.ir
    ir = plan.ir.replace(declaration, LISTED.format(list=asked.ctypes.data))
    ir = ir.replace("@llvm.prefetch.p0(", "@asked(")
    kernel = HostKernel(plan, compile_ir(ir, exports=plan.entries, cpu=cpu))
    taps = (w.taps for w in case.windows)
    shapes = ((1, *case.inputs, case.c), (case.k, *taps, case.c), (1, *case.outputs, case.k))
    memory: dict[str, Any] = {
        letter: np.zeros(shape, np.float32) for letter, shape in zip("abc", shapes, strict=True)
    }
    nbytes = plan.workspace["packed"]
    packed = np.zeros(nbytes + LINE_BYTES, np.uint8)
    memory["packed"] = packed[-packed.ctypes.data % LINE_BYTES :]
    addresses: Any = {letter: array.ctypes.data for letter, array in memory.items()}
    kernel.pack(addresses, 1)
    kernel.run(addresses, 1)
    lines = (asked[1 : asked[0] + 1] - addresses["packed"]) // LINE_BYTES
    found = {line for line in lines.tolist() if 0 <= line < nbytes // LINE_BYTES}
    cuts = kernel_of(plan, RowKernel).cuts
    first = cuts.tap_block * cuts.in_channel_block * cuts.panel_out_channels * 4 // LINE_BYTES
    assert set(range(nbytes // LINE_BYTES)) - found == set(range(first))


@pytest.mark.parametrize(("cpu", "asks"), [("x86-64-v3", True), ("x86-64-v4", False)])
def test_sums_of_earlier_blocks_are_asked_for_where_registers_are_few(cpu: str, asks: bool) -> None:
    case = Case(2, 400, 24, (14, 14), (window(1), window(1)))
    ir = plan_contraction(case.spec("fprop"), target(cpu)).ir
    for_writing = ", i32 1, i32 3, i32 1)"
    assert (for_writing in ir) == asks
