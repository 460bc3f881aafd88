"""Depthwise convolutions on planes: what is asked for ahead, and how planes are cut in blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from host_contractions import BFLOAT, DOUBLE, SINGLE, TARGETS, Case, Types, run, window

from convir.lowering.kernels.host.direct_depthwise.kernel import (
    FAR,
    FEW_AGAIN,
    SCRATCH_BYTES,
    SCRATCH_PART,
    PlaneCuts,
    cut_planes,
)
from convir.lowering.kernels.host.direct_depthwise.launch import launch
from convir.lowering.kernels.host.operand_stages import OperandStages
from convir.lowering.kernels.host.target import target
from convir.lowering.kernels.host.traffic import operand_bytes
from convir.lowering.loops.llvm.shared_numbers import families, parse
from convir.runtime.host.contraction import HostKernel
from convir.runtime.host.jit import AS_EMITTED, compile_ir

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import CpuTarget

pytestmark = pytest.mark.fast

NO_CACHE = 1
"""Bytes of a last cache that holds nothing: whatever is computed is asked for."""


def case(channels: int, inputs: tuple[int, ...], *windows: Any, n: int = 1) -> Case:
    return Case(n, channels, channels, inputs, windows, groups=channels, orders=(1, 0, 1))


CASES = {
    "3x3": case(3, (21, 75), window(3, 1, 1), window(3, 1, 1), n=2),
    "rows of whole steps": case(18, (20, 64), window(3, 1, 1), window(3, 1, 1)),
    "stride": case(18, (23, 77), window(3, 2, 1), window(3, 2, 1)),
    "5x5 of a stride": case(5, (40, 70), window(5, 2, 2), window(5, 2, 2)),
    "two vectors": case(20, (15, 14), window(3, 1, 1), window(3, 1, 1)),
    "small planes": case(20, (7, 6), window(3, 1, 1), window(3, 1, 1)),
    "stride past the filter": case(4, (31, 40), window(1, 3), window(1, 2)),
    "blocks of wide lines": case(2, (37, 700), window(5, 1, 2), window(5, 1, 2)),
    "volume": case(4, (3, 9, 40), window(1), window(3, 1, 1), window(3, 2, 1)),
    "several results": replace(case(4, (9, 40), window(3, 1, 1), window(3, 1, 1)), k=12),
}


def far_from(cpu: CpuTarget, l3_bytes: int = NO_CACHE) -> CpuTarget:
    """The CPU with a last cache of so many bytes."""
    return replace(cpu, l3_bytes=l3_bytes)


def compiled(spec: Contraction, cpu: CpuTarget) -> HostKernel:
    """The kernel of this family, which asks for what comes next."""
    plan = launch(spec, far_from(cpu))
    return HostKernel(plan, compile_ir(plan.ir, exports=plan.entries, cpu=cpu, options=AS_EMITTED))


def cuts_of(given: Case, cpu: CpuTarget) -> PlaneCuts:
    spec = given.spec("fprop")
    found = cut_planes(spec, OperandStages(spec, cpu).lanes)
    assert found is not None
    return found


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("types", [SINGLE, BFLOAT, DOUBLE], ids=lambda types: types[0])
@pytest.mark.parametrize("name", CASES)
def test_what_comes_next_is_asked_for(name: str, types: Types, cpu: str) -> None:
    run(replace(CASES[name], types=types), "fprop", cpu, compiled=compiled)


@pytest.mark.parametrize("name", ["3x3", "stride", "small planes"])
def test_threads(name: str) -> None:
    run(CASES[name], "fprop", "host", threads=2, compiled=compiled)


def test_gradients() -> None:
    run(CASES["3x3"], "dgrad", "host", compiled=compiled)


def test_another_batch_differs_in_numbers_alone() -> None:
    """Also where its operands exceed the last cache, and those of the smaller batch do not."""
    near, far = (replace(CASES["stride"], n=n).spec("fprop") for n in (2, 5))
    held = operand_bytes(far) // FAR - 1
    assert operand_bytes(near) <= FAR * held < operand_bytes(far)
    cpu = far_from(target("x86-64-v3"), held)
    near_code, far_code = (launch(spec, cpu).ir for spec in (near, far))
    assert len(list(families([parse(near_code), parse(far_code)]))) == 1
    assert "%pays = add i64 0, 0" in near_code
    assert "%pays = add i64 0, 1" in far_code


def test_lines_of_several_results_are_asked_for_by_none() -> None:
    """What a plane's next results read is in a cache already; where they are stored is not."""
    code = launch(CASES["several results"].spec("fprop"), target("x86-64-v3")).ir
    asked = [line for line in code.splitlines() if "call void @llvm.prefetch" in line]
    assert asked
    assert all(", i32 1, i32 3, i32 1)" in line for line in asked)


@pytest.mark.parametrize(("width", "asks"), [(8, False), (9, True)])
def test_rows_of_a_single_vector_ask_for_nothing(width: int, asks: bool) -> None:
    spec = case(20, (9, width), window(3, 1, 1), window(3, 1, 1)).spec("fprop")
    assert ("@llvm.prefetch" in launch(spec, target("x86-64-v3")).ir) == asks


@pytest.mark.parametrize("kind", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("width", [28, 112, 320, 640, 1400])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("taps", [3, 5])
def test_blocks(taps: int, stride: int, width: int, kind: str) -> None:
    """A block's lines leave room in the first-level cache, or few of them are copied again; fewer
    blocks would not do, and all have as many rows."""
    windows = window(taps, stride, taps // 2), window(taps, stride, taps // 2)
    given, cpu = case(64, (400, width), *windows), target(kind)
    cuts, (height, _) = cuts_of(given, cpu), given.outputs

    def may_be(rows: int) -> bool:
        nbytes = ((rows - 1) * stride + taps) * cuts.line_bytes
        again = (rows - 1) * stride < FEW_AGAIN * (taps - stride)
        return nbytes <= cpu.l1_bytes // SCRATCH_PART or (again and nbytes <= SCRATCH_BYTES)

    assert cuts.rows == 1 or may_be(cuts.rows)
    assert cuts.blocks == 1 or not may_be(-(-height // (cuts.blocks - 1)))
    assert 0 <= cuts.blocks * cuts.rows - height < cuts.blocks
