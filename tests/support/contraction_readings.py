"""MIOpenDriver lines as the CUDA templates see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from convir.analysis.refusal import Refusal
from convir.api.compile import DEFAULT_PIPELINE
from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.cuda.problem import read_problem
from convir.lowering.regions.form_kernel_regions import FormKernelRegionsPass
from convir.lowering.regions.fuse_epilogue import FuseEpiloguePass
from convir.lowering.regions.outline_kernels import outlined
from convir.passes import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.kernels.cuda.problem import ContractionProblem


def dgrad_line(
    n: int, c: int, k: int, spatial: Sequence[int], taps: int, pad: int, stride: int
) -> str:
    rows, out_channels = spatial
    return (
        f"convfp16 -n {n} -c {c} -H {rows} -W {out_channels} -k {k} -y {taps} -x {taps} -p {pad} "
        f"-q {pad} -u {stride} -v {stride} -l 1 -j 1 -g 1 -F 2 "
        "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
    )


def readings(line: str) -> list[ContractionProblem | Refusal]:
    """What the templates see of the regions of a line."""
    (problem,) = parse_line(line).problems.values()
    module = run(ModuleOp([function_of("main", problem)]), DEFAULT_PIPELINE).module
    FuseEpiloguePass().apply(new_context(), module)
    FormKernelRegionsPass().apply(new_context(), module)
    regions = [op for op in module.walk() if isinstance(op, kernel.RegionOp)]
    return [read_problem(outlined(region, "main")[0]) for region in regions]


def reading(line: str) -> ContractionProblem:
    """What they see of the only region of a line."""
    (found,) = readings(line)
    assert not isinstance(found, Refusal), found.reason
    return found
