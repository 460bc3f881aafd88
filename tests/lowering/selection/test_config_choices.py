"""Partition and roles change a kernel's config, never its meaning."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.implementations import CUDA, config_of
from convir.lowering.kernels.cuda.config import ROLES
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import MultiTapWgradConfig
from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
from convir.lowering.kernels.registry import plan_kernel
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.passes import run
from convir.reference import evaluate

TEXT = """
kernel.func @k(%x: tensor<3x5xSIZExf16>, %dy: tensor<3x5xCOLUMNSxf16>) -> tensor<SIZExCOLUMNSxf32>
    attributes {configs = {cuda = "CONFIG"}} {
  %zero = arith.constant dense<0.0> : tensor<SIZExCOLUMNSxf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(c, k, n, p) -> (n, p, c)>,
      affine_map<(c, k, n, p) -> (n, p, k)>, affine_map<(c, k, n, p) -> (c, k)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %dy : tensor<3x5xSIZExf16>, tensor<3x5xCOLUMNSxf16>)
      outs(%zero : tensor<SIZExCOLUMNSxf32>) {
  ^bb0(%a: f16, %b: f16, %s: f32):
    %1 = arith.extf %a : f16 to f32
    %2 = arith.extf %b : f16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<SIZExCOLUMNSxf32>
  kernel.return %0 : tensor<SIZExCOLUMNSxf32>
}
func.func @main(%x: tensor<3x5xSIZExf16>, %dy: tensor<3x5xCOLUMNSxf16>)
    -> tensor<SIZExCOLUMNSxf32> {
  %0 = kernel.call @k(%x, %dy) : (tensor<3x5xSIZExf16>, tensor<3x5xCOLUMNSxf16>)
    -> tensor<SIZExCOLUMNSxf32>
  func.return %0 : tensor<SIZExCOLUMNSxf32>
}
"""
CONFIG = (
    f"{MultiTapWgradConfig.family} 1x8 stages=3 instruction=mma roles=0:4 "
    f"partition=data-parallel blocks=132"
)


PARTITIONS = st.sampled_from(
    (
        "data-parallel",
        "split-k:2:tree",
        "split-k:9:linear",
        "split-k:2:reduce-scatter",
        "stream-k:linear",
        "stream-k:tree:blocks",
    )
).map(Partition.parse)


def pass_text(partition: Partition) -> str:
    return (
        f"partition-reduction{{kind={partition.kind} reduction={partition.reduction} "
        f"splits={partition.splits} waves={partition.waves}}}"
    )


@settings(deadline=None, max_examples=30)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 6)),
    PARTITIONS,
    st.one_of(st.sampled_from(ROLES), st.tuples(st.integers(0, 9), st.integers(0, 9))),
    st.integers(0, 99),
)
def test_choices_keep_the_meaning(
    sizes: tuple[int, int], partition: Partition, roles: tuple[int, int], seed: int
) -> None:
    in_channels, out_channels = (2 * size for size in sizes)
    text = TEXT.replace("SIZE", str(in_channels)).replace("COLUMNS", str(out_channels))
    before = read_module(text.replace("CONFIG", CONFIG))
    producers, consumers = roles
    warp_roles = f"assign-warp-roles{{producer-warps={producers} consumer-warps={consumers}}}"
    result = run(before, f"{pass_text(partition)},{warp_roles}")
    (callee,) = (op for op in result.module.ops if isinstance(op, kernel.FuncOp))
    config = config_of(callee, CUDA)
    assert config is not None
    assert isinstance(plan_kernel(callee, config, DEFAULT_TARGET), KernelPlan)
    chosen, of_partition = MultiTapWgradConfig.parse(config), result.remarks[0]
    assert chosen.partition == (partition if of_partition.fired else Partition())
    assert chosen.roles == (roles if result.remarks[1].fired else (0, 4))
    assert result.remarks[1].fired == (roles in ROLES and sum(roles) <= 8)
    rng = np.random.default_rng(seed)
    x, dy = (rng.integers(-4, 5, (3, 5, n)).astype(np.float16) for n in (in_channels, out_channels))
    (expected,), (found,) = (evaluate(m, "main", [x, dy]) for m in (before, result.module))
    assert np.array_equal(expected, found)
    assert np.array_equal(found, np.einsum("npc,npk->ck", x, dy, dtype=np.float32))


def test_without_a_choice_the_kernel_stays() -> None:
    text = TEXT.replace("SIZE", "8").replace("COLUMNS", "8").replace("CONFIG", "loops")
    result = run(
        text,
        "partition-reduction{kind=stream-k},assign-warp-roles{producer-warps=4 consumer-warps=4}",
    )
    assert [remark.reason for remark in result.remarks] == [
        "'loops' is not a config of a family",
        "'loops' is not a config of a family",
    ]


def test_configs_of_other_devices_stay() -> None:
    text = TEXT.replace("SIZE", "64").replace("COLUMNS", "64").replace("CONFIG", CONFIG)
    text = text.replace("configs = {cuda", 'configs = {host = "loops", cuda')
    text = text[: text.index("func.func @main")]
    result = run(text, "partition-reduction{kind=stream-k}")
    (remark,) = result.remarks
    assert remark.fired, remark
    (function,) = result.module.ops
    assert isinstance(function, kernel.FuncOp)
    assert config_of(function, "host") == "loops"
    assert "partition=stream-k:linear" in str(config_of(function, CUDA))


def test_kernels_without_a_config_stay() -> None:
    text = TEXT.replace("SIZE", "8").replace("COLUMNS", "8")
    text = text.replace('attributes {configs = {cuda = "CONFIG"}}', "")
    (remark,) = run(text, "partition-reduction{kind=stream-k}").remarks
    assert remark.reason == "'loops' is not a config of a family"
