"""Groups of volumes as one: the same products, and zeros between groups."""

from __future__ import annotations

import pytest
from contraction_products import products_of
from cuda_contractions import contraction_of_line

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.block_diagonal.family import (
    FAMILY,
    BlockDiagonalFilter,
    as_one_group,
    block_diagonal_of,
)
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.registry import FAMILIES, legal_plans
from convir.lowering.kernels.target import DEFAULT_TARGET

template = next(template for template in FAMILIES if template.name == FAMILY)

NDHWC = "--in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
SMALL = "--spatial_dim 3 -n 1 --in_d 5 -H 6 -W 5 --fil_d 3 -y 3 -x 2 --pad_d 1 -p 1 -q 1"
CUBES = "--spatial_dim 3 -n 2 --in_d 16 -H 56 -W 56 --fil_d 3 -y 3 -x 3 --pad_d 1 -p 1 -q 1"


def place_of(filter_: BlockDiagonalFilter) -> dict[int, int]:
    """The weight behind every element of merged ones; -1 for a zero."""
    found: dict[int, int] = {}
    for line in range(filter_.lines):
        for group in range(filter_.groups):
            own = group == line // (filter_.lines // filter_.groups)
            for element in range(filter_.run):
                found[len(found)] = line * filter_.run + element if own else -1
    return found


@pytest.mark.parametrize("strides", ["", "--conv_stride_d 2 -u 2 -v 1"])
@pytest.mark.parametrize("channels", ["-c 6 -k 4 -g 2", "-c 6 -k 9 -g 3"])
@pytest.mark.parametrize("direction", [1, 2])
def test_merged_weights_have_the_same_products(direction: int, channels: str, strides: str) -> None:
    line = f"convfp16 {SMALL} {channels} {strides} -F {direction} {NDHWC}"
    spec = contraction_of_line(line).contraction
    filter_ = block_diagonal_of(spec)
    assert isinstance(filter_, BlockDiagonalFilter), filter_.reason
    found = products_of(as_one_group(spec, filter_), {"b": place_of(filter_)})
    assert {key: n for key, n in found.items() if key[1] >= 0} == products_of(spec, {})


def test_weights_come_first() -> None:
    line = f"convbfp16 {CUBES} -u 2 -v 2 -c 64 -k 64 -g 8 -F 2"
    problem = contraction_of_line(f"{line} {NDHWC}")
    plans = legal_plans(problem, DEFAULT_TARGET)
    plan = next(
        plan
        for each, plan in plans
        if str(each.config).startswith("block_diagonal sm90_implicit_gemm ")
    )
    first, second = plan.kernels
    assert first.symbol == "pack_groups"
    assert first.arguments == (problem.place(Pointer("b")), Pointer("workspace", 0))
    buffers = {getattr(argument, "buffer", argument) for argument in second.arguments}
    assert Pointer("workspace", 0) in buffers
    assert problem.place(Pointer("b")) not in buffers
    assert plan.workspace == (2 * 27 * 64 * 64,)
    plans = legal_plans(contraction_of_line(line), DEFAULT_TARGET)
    planes = [str(each.config) for each, _ in plans]
    assert any(
        config.startswith("layout_conversion abc block_diagonal sm90_implicit_gemm ")
        for config in planes
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{CUBES} -c 64 -k 64 -F 2", "there are no groups"),
        (f"{CUBES} -c 64 -k 64 -g 8 -F 4", "weights are what is computed"),
        (f"{CUBES} -c 512 -k 512 -g 16 -F 2", "512 channels of all groups are many"),
        (f"{CUBES} -c 64 -k 12 -g 2", "as one group, rows of A, B or C do not start"),
    ],
)
def test_what_is_not_merged(line: str, reason: str) -> None:
    problem = contraction_of_line(f"convfp16 {line} {NDHWC}" + ("" if "-F" in line else " -F 1"))
    refused = template.candidates(problem, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


@pytest.mark.parametrize(
    "text",
    ["block_diagonal", "block_diagonal sm80_implicit_gemm 128x8x32", "sm90_implicit_gemm 64x64"],
)
def test_what_is_no_config(text: str) -> None:
    with pytest.raises(ValueError, match="a config of sm90_implicit_gemm follows"):
        template.parse(text)
