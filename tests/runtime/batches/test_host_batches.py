"""The plan of another batch computes what the passes' own plan for it computes, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from convir.analysis.refusal import Refusal
from convir.api.build import Build
from convir.api.plans import plan_others
from convir.api.sources import source_of
from convir.lowering.kernels.host.target import target
from convir.runtime.batches.host import HostBatches, batches_of
from convir.runtime.devices import HOST, Device
from convir.runtime.host.device import HostProgram

if TYPE_CHECKING:
    from pathlib import Path

    from convir.runtime.program import Array, Program

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
LINES = (
    f"conv -n {{}} -c 16 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}",
    f"conv -n {{}} -c 16 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2 {NHWC}",
    f"conv -n {{}} -c 16 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}",
    f"conv -n {{}} -c 32 -H 9 -W 9 -k 32 -y 3 -x 3 -p 1 -q 1 -g 4 -F 1 {NHWC}",
    "conv -n {} -c 20 -H 9 -W 9 -k 20 -y 3 -x 3 -p 1 -q 1 -g 20 -F 1",
)
WEIGHTS = [[[[(7 * k + c) % 5 - 2.0 for c in range(16)]]] for k in range(16)]
CONSTANT_WEIGHTS = f"""
func.func @main(%x: tensor<{{0}}x9x9x16xf32>) -> tensor<{{0}}x9x9x16xf32> {{{{
  %w = arith.constant dense<{WEIGHTS}> : tensor<16x1x1x16xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{{0}}x9x9x16xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<{{0}}x9x9x16xf32>) -> tensor<{{0}}x9x9x16xf32>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(1, 1)
         ins(%x, %w : tensor<{{0}}x9x9x16xf32>, tensor<16x1x1x16xf32>)
         outs(%i : tensor<{{0}}x9x9x16xf32>)
  return %y : tensor<{{0}}x9x9x16xf32>
}}}}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path))


def lowered(source: str, batch: int) -> Program:
    given = source_of(source.format(batch), (), 1.0)
    return Build(given, None, "default", Device(HOST), None).program()


def batches(source: str, first: int) -> HostBatches | Refusal:
    beside = (first, first + 1, first + 2)
    return batches_of([lowered(source, batch) for batch in beside], beside, target(), (2, 64))


def results(program: HostProgram, inputs: list[Array]) -> list[Array]:
    made = [np.full(spec.shape, np.nan, spec.dtype) for spec in program.outputs]
    program.run(inputs, made)
    return made


@pytest.mark.parametrize("source", [*LINES, CONSTANT_WEIGHTS])
def test_results_are_those_of_a_compilation(source: str) -> None:
    found = batches(source, 8)
    assert isinstance(found, HostBatches)
    rng = np.random.default_rng(0)
    compared = 0
    for batch in (8, 9, 11, 25, 3):
        plan = found.at(batch)
        if isinstance(plan, Refusal):
            assert plan.reason == "its kernels have other code for that batch"
            continue
        compared += 1
        program = lowered(source, batch)
        inputs = [rng.standard_normal(spec.shape).astype(spec.dtype) for spec in program.inputs]
        bound = results(HostProgram.of_plan(plan, lambda made=program: made), inputs)
        for got, expected in zip(bound, results(HostProgram(program), inputs), strict=True):
            np.testing.assert_array_equal(got, expected)
    assert compared >= 2


def test_codes_are_compiled_once() -> None:
    found = batches(LINES[0], 8)
    assert isinstance(found, HostBatches)
    plans = [found.at(batch) for batch in (9, 30)]
    codes = [plan.codes for plan in plans if not isinstance(plan, Refusal)]
    assert len(codes) == 2
    assert codes[0] is codes[1]


def test_loops_are_a_refusal() -> None:
    text = (
        "func.func @main(%x: tensor<{0}x9xf32>) -> tensor<{0}x9xf32> {{\n"
        "  %0 = arith.addf %x, %x : tensor<{0}x9xf32>\n  return %0 : tensor<{0}x9xf32>\n}}"
    )
    refused = batches(text, 8)
    assert isinstance(refused, Refusal)
    assert refused.reason.endswith(": loops have every size in their code")


def test_another_reading_for_another_batch_is_a_refusal() -> None:
    # With channels outside, the products are C for one batch and B for the next one.
    refused = batches("conv -n {} -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1", 64)
    assert isinstance(refused, Refusal)
    assert refused.reason == "@main_0: it computes the gradient of weights"


def test_temporaries_past_the_limit_are_a_refusal() -> None:
    beside = (8, 9, 10)
    programs = [lowered(LINES[2], batch) for batch in beside]
    loaded = HostProgram(programs[0])
    others = plan_others(Device(HOST), loaded, programs, beside, (), workspace_bytes=1000)
    assert not isinstance(others, Refusal)
    refused = others(9, lambda: programs[1])
    assert isinstance(refused, Refusal)
    assert refused.reason.startswith("its temporaries take ")
    assert refused.reason.endswith(" bytes, of 1000")
