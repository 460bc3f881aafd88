"""The kernels of convolutions are read as the contraction that does them best."""

from __future__ import annotations

import pytest
from contraction_readings import dgrad_line
from contraction_readings import reading as fused_reading
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.bodies.contraction.read_kernel import ContractionCall, contraction_readings
from convir.lowering.bodies.contraction.reading_cost import VectorUnit, reading_cost
from convir.lowering.pipeline import lowering_passes
from convir.passes import run

SHAPES = {
    "1x1": "-n {n} -c 6 -H 5 -W 5 -k 4 -y 1 -x 1 -p 0 -q 0 -u {s} -v {s}",
    "3x3": "-n {n} -c 6 -H 5 -W 5 -k 4 -y 3 -x 3 -p 1 -q 1 -u {s} -v {s}",
}
LAYOUT = "-l 1 -j 1 -g 1 --in_layout NHWC --fil_layout NHWC --out_layout NHWC"


def reading(line: str) -> ContractionCall:
    (problem,) = parse_line(line).problems.values()
    module = run(ModuleOp([function_of("main", problem)]), "backward-data").module
    PassPipeline(lowering_passes("host")).apply(new_context(), module)
    (function,) = (op for op in module.ops if isinstance(op, kernel.FuncOp))
    calls = contraction_readings(function)
    assert not isinstance(calls, Refusal), calls.reason
    return min(calls, key=lambda call: reading_cost(call.spec, VectorUnit(64, 2.0)))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("direction", "result"), [(1, "C"), (2, "C"), (4, "B")])
def test_channels_last_is_read_where_it_lies(
    shape: str, n: int, stride: int, direction: int, result: str
):
    line = f"conv {SHAPES[shape].format(n=n, s=stride)} {LAYOUT} -F {direction}"
    spec = reading(line).spec
    assert spec.result == result
    assert (spec.a.stride, spec.c.stride) == (1, 1)
    assert spec.taps == (1 if shape == "1x1" else 9)


@pytest.mark.parametrize("direction", [1, 2, 4])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_channels_first_is_read_too(direction: int, stride: int, groups: int):
    sizes = f"-n 2 -c 6 -H 5 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 -u {stride} -v {stride} -g {groups}"
    spec = reading(f"conv {sizes} -F {direction}").spec
    assert spec.groups == groups
    assert {spec.a.stride, spec.c.stride} <= {5 * 7, 3 * 4}
    assert spec.result == ("B" if direction == 4 else "C")
    phases = stride * stride if direction == 2 else 1
    assert len(spec.phases) == phases


@pytest.mark.parametrize("direction", [1, 2, 4])
def test_a_long_image_is_no_filter(direction: int):
    """The image's positions as taps of a filter would fill the memory."""
    length = (1 << 28) + 3
    sizes = f"--spatial_dim 1 -n 1 -c 8 -W {length} -k 8 -x 3 -q 1 -v 1 -j 1"
    layouts = "--in_layout NWC --fil_layout NWC --out_layout NWC"
    spec = reading(f"conv {sizes} -F {direction} {layouts}").spec
    assert spec.taps == 3


def test_a_result_of_any_size_is_read():
    """Nobody holds the zeros that phases are stored into."""
    line = dgrad_line(n=10_000, c=64, k=64, spatial=(501, 503), taps=3, pad=1, stride=2)
    assert len(fused_reading(line).contraction.phases) == 4
