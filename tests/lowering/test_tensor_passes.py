"""Pipelines know the machine that they run for by the costs that it gives them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conv_lines import NHWC
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.host.target import target
from convir.lowering.kernels.target import cpu_costs, named, names
from convir.lowering.tensor_passes import passes_for
from convir.passes import run
from convir.passes.decompose_strided_dgrad.pass_ import DecomposeStridedDgradPass
from convir.passes.machine_costs import ASSUMED, MachineCosts
from convir.passes.manager.option_checks import costs_of
from convir.passes.pipelines import BACKWARD_DATA

pytestmark = pytest.mark.fast

SMALL = f"conv -n 1 -c 8 -k 8 -H 64 -W 64 -y 9 -x 9 -p 4 -q 4 -u 8 -v 8 -F 2 {NHWC}"
"""64 phases of few products: launches outweigh arithmetic on a GPU, and do not on a core."""


@pytest.mark.parametrize(("device", "fires"), [("host", True), ("cuda", False)])
def test_a_host_is_no_gpu(device: str, fires: bool) -> None:
    (problem,) = parse_line(SMALL).problems.values()
    result = run(ModuleOp([function_of("main", problem)]), passes_for(device, BACKWARD_DATA))
    decided = [r.fired for r in result.remarks if r.pass_name == DecomposeStridedDgradPass.name]
    assert decided[0] == fires  # then it looks again at what it left


def test_costs_that_a_pass_was_given_stay() -> None:
    own = str(replace(ASSUMED, phase_us=9.0))
    (told,) = passes_for("host", [DecomposeStridedDgradPass(costs=own)])
    assert told == DecomposeStridedDgradPass(costs=own)


@pytest.mark.parametrize(
    "costs", [ASSUMED, cpu_costs(target()), *(named(name).costs for name in names())]
)
def test_costs_are_their_text(costs: MachineCosts) -> None:
    assert MachineCosts.parse(str(costs)) == costs == costs_of(str(costs))


@pytest.mark.parametrize("text", ["fast", "launch_us=2.5", str(replace(ASSUMED, store_us=-1.0))])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(PassFailedException, match=r"costs are positive numbers|could not convert"):
        costs_of(text)
