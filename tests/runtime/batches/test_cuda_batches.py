"""The plan of another batch is the one that passes make for it, as far as these choose alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from convir.analysis.refusal import Refusal
from convir.api.batches import PLANNED
from convir.api.build import Build
from convir.api.sources import source_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.batches.cuda import CudaBatches, batches_of
from convir.runtime.cuda.plan import Cubin, CudaPlan
from convir.runtime.cuda.planner import plan_program
from convir.runtime.devices import CUDA, Device

if TYPE_CHECKING:
    from convir.runtime.program import Program

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"

FORWARD = f"convfp16 -n {{}} -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}"
LINES = (
    FORWARD,
    f"convfp16 -n {{}} -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}",
    f"convfp16 -n {{}} -c 64 -H 112 -W 112 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2 {NHWC}",
    f"conv -n {{}} -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -g 8 -F 1 {NHWC}",
    f"convfp16 -n {{}} -c 3 -H 112 -W 112 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -F 1 {NHWC}",
)

JOINED = """
func.func @main(%x: tensor<{0}x28x28x64xf16>, %w: tensor<64x3x3x64xf16>, %v: tensor<64x3x3x64xf16>)
    -> tensor<{0}x28x28x64xf16> {{
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<{0}x28x28x64xf16>
  %i = linalg.fill ins(%zero : f16) outs(%e : tensor<{0}x28x28x64xf16>) -> tensor<{0}x28x28x64xf16>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32)
         ins(%x, %w : tensor<{0}x28x28x64xf16>, tensor<64x3x3x64xf16>)
         outs(%i : tensor<{0}x28x28x64xf16>)
  %f = tensor.empty() : tensor<{0}x28x28x64xf16>
  %j = linalg.fill ins(%zero : f16) outs(%f : tensor<{0}x28x28x64xf16>) -> tensor<{0}x28x28x64xf16>
  %z = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32)
         ins(%y, %v : tensor<{0}x28x28x64xf16>, tensor<64x3x3x64xf16>)
         outs(%j : tensor<{0}x28x28x64xf16>)
  return %z : tensor<{0}x28x28x64xf16>
}}
"""


def lowered(source: str, batch: int) -> Program:
    device = Device(CUDA, model=DEFAULT_TARGET)
    given = source_of(source.format(batch), (), 1.0)
    return Build(given, None, "default", device, None).program()


def batches(source: str, first: int) -> CudaBatches | Refusal:
    """Of the first batch and the next two that passes choose the same configs for."""
    programs, beside = [lowered(source, first)], [first]
    chosen = programs[0].summary(CUDA)
    for batch in range(first + 1, first + 7):
        program = lowered(source, batch)
        if program.summary(CUDA) == chosen and len(programs) < PLANNED:
            programs.append(program)
            beside.append(batch)
    plan = plan_program(programs[0], DEFAULT_TARGET)
    code = {text: Cubin(str(number)) for number, text in enumerate(plan.sources)}
    return batches_of(replace(plan, cubins=code), programs, beside, DEFAULT_TARGET)


def bare(plan: CudaPlan) -> CudaPlan:
    return replace(plan, cubins={})


@pytest.mark.parametrize("line", LINES)
def test_plans_are_those_of_the_passes(line: str) -> None:
    found = batches(line, 48)
    assert isinstance(found, CudaBatches)
    compared = 0
    for batch in (49, 50, 53, 64, 96, 191):
        plan = found.at(batch)
        assert isinstance(plan, CudaPlan)
        assert [spec.shape[0] for spec in (*plan.inputs, *plan.outputs)].count(batch) > 0
        compiled = plan_program(lowered(line, batch), DEFAULT_TARGET)
        if compiled.summary == plan.summary:  # Passes may choose another config.
            assert bare(plan) == compiled
            compared += 1
        assert set(plan.sources) <= found.plan.cubins.keys()
    assert compared > 0


def test_temporaries_grow_and_stay_apart() -> None:
    found = batches(JOINED, 48)
    assert isinstance(found, CudaBatches)
    for batch in (49, 100):
        plan = found.at(batch)
        assert isinstance(plan, CudaPlan)
        assert plan.arena_bytes == batch * 28 * 28 * 64 * 2


def test_code_that_depends_on_the_batch_is_a_refusal() -> None:
    line = f"convbfp16 -n {{}} -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2 {NHWC}"
    refused = batches(line, 16)
    assert isinstance(refused, Refusal)
    assert refused.reason == "its kernels have other code for that batch"


def test_loops_are_a_refusal() -> None:
    text = (
        "func.func @main(%x: tensor<{0}x9xf32>) -> tensor<{0}x9xf32> {{\n"
        "  %0 = arith.addf %x, %x : tensor<{0}x9xf32>\n  return %0 : tensor<{0}x9xf32>\n}}"
    )
    refused = batches(text, 8)
    assert isinstance(refused, Refusal)
    assert refused.reason.endswith(": loops have every size in their code")


def test_a_config_that_is_not_legal_for_a_batch_is_a_refusal() -> None:
    found = batches(LINES[1], 48)
    assert isinstance(found, CudaBatches)
    refused = found.at(1)
    assert isinstance(refused, Refusal)
    assert "steps are not divided into" in refused.reason


def test_a_constant_that_depends_on_the_batch_is_a_refusal() -> None:
    text = (
        "func.func @main(%x: tensor<{0}x9xf32>) -> tensor<{0}x9xf32> {{\n"
        "  %c = arith.constant dense<{0}.0> : tensor<9xf32>\n"
        "  %e = tensor.empty() : tensor<{0}x9xf32>\n"
        "  %0 = linalg.broadcast ins(%c : tensor<9xf32>) outs(%e : tensor<{0}x9xf32>)"
        " dimensions = [0]\n"
        "  %1 = arith.addf %x, %0 : tensor<{0}x9xf32>\n  return %1 : tensor<{0}x9xf32>\n}}"
    )
    assert isinstance(batches(text, 8), Refusal)


def test_other_calls_for_other_batches_are_a_refusal() -> None:
    programs = [lowered(FORWARD, 48), lowered(JOINED, 49), lowered(FORWARD, 50)]
    plan = plan_program(programs[0], DEFAULT_TARGET)
    refused = batches_of(plan, programs, (48, 49, 50), DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert refused.reason == "other calls compute it for other batches"
