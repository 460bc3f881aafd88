"""A kernel is read once between its selection and its launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from convir.api.compile import DEFAULT_PIPELINE
from convir.dialects.context import new_context
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.kernel_code import cuda_plans
from convir.lowering.kernels.cuda import problem as cuda_problem
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.pipeline import lowering_passes
from convir.passes import run

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.bodies.contraction.spec import Contraction

LINE = "convfp16 -n 3 -c 72 -H 19 -W 17 -k 40 -y 3 -x 3 -p 1 -q 1 -F 1"
"""No other test reads it."""


def test_a_kernel_is_read_once_from_selection_to_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[kernel.FuncOp] = []
    read_fused = cuda_problem.read_fused

    def counted(callee: kernel.FuncOp, cost: Callable[[Contraction], Any]) -> object:
        reads.append(callee)
        return read_fused(callee, cost)

    monkeypatch.setattr(cuda_problem, "read_fused", counted)
    (problem,) = parse_line(LINE).problems.values()
    module = run(ModuleOp([function_of("main", problem)]), DEFAULT_PIPELINE).module
    PassPipeline(lowering_passes("cuda", gpu=DEFAULT_TARGET)).apply(new_context(), module)
    assert cuda_plans(module, DEFAULT_TARGET)
    assert len(reads) == 1
