"""What passes make of a module is in its text: nothing hangs on how the module came to be.

Each pass runs on what the pass before it left in memory, on that printed and read again, and on
that with the uses of every value in another order. All three give the same text, and nobody but an
op of the module reads a value of it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from conv_cases import problems
from fused_epilogues import BIAS, RELU, RESIDUAL, ROWS, SCALE, Fused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs.graphs import functions
from xdsl.dialects.builtin import ModuleOp

from convir.dialects.context import new_context, read_module
from convir.frontends.conv_module import function_of
from convir.lowering.pipeline import lowering_passes
from convir.passes.manager.fixpoint import unrolled
from convir.passes.pipelines import PIPELINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fused_epilogues import Step
    from xdsl.ir import SSAValue
    from xdsl.passes import ModulePass

    from convir.dialects.conv.problem import ConvProblem

DEVICES = ("host", "cuda")
STRIDED = Fused("fprop", "strides(2, 2) padding(1, 1)", (1, 9, 9, 8), (8, 3, 3, 8), (1, 5, 5, 8))

SAMPLE = """
  %x{i} = tensor.extract_slice %x[{i}, 0, 0] [1, 8, 16] [1, 1, 1]
    : tensor<2x8x16xf32> to tensor<8x16xf32>
  %p{i} = linalg.matmul ins(%w, %x{i} : tensor<4x8xf32>, tensor<8x16xf32>)
    outs(%zeros : tensor<4x16xf32>) -> tensor<4x16xf32>
  %y{i} = linalg.generic {{
    indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>,
                     affine_map<(m, n) -> (m, n)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%p{i}, %b : tensor<4x16xf32>, tensor<4xf32>) outs(%e : tensor<4x16xf32>) {{
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  }} -> tensor<4x16xf32>
  %r{next} = tensor.insert_slice %y{i} into %r{i}[{i}, 0, 0] [1, 4, 16] [1, 1, 1]
    : tensor<4x16xf32> into tensor<2x4x16xf32>
"""
IN_TURNS = f"""
func.func @main(%x: tensor<2x8x16xf32>, %w: tensor<4x8xf32>, %b: tensor<4xf32>)
    -> tensor<2x4x16xf32> {{
  %zeros = arith.constant dense<0.0> : tensor<4x16xf32>
  %e = tensor.empty() : tensor<4x16xf32>
  %r0 = tensor.empty() : tensor<2x4x16xf32>
  {"".join(SAMPLE.format(i=i, next=i + 1) for i in range(2))}
  return %r2 : tensor<2x4x16xf32>
}}"""


INTEGERS = """
func.func @main(%x: tensor<4x8xi32>, %w: tensor<8x16xi32>, %b: tensor<16xi32>) -> tensor<4x16xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x16xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<4x16xi32>) -> tensor<4x16xi32>
  %p = linalg.matmul ins(%x, %w : tensor<4x8xi32>, tensor<8x16xi32>)
    outs(%z : tensor<4x16xi32>) -> tensor<4x16xi32>
  %y = linalg.generic {
    indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>,
                     affine_map<(m, n) -> (m, n)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%p, %b : tensor<4x16xi32>, tensor<16xi32>) outs(%e : tensor<4x16xi32>) {
  ^bb0(%a: i32, %c: i32, %o: i32):
    %s = arith.addi %a, %c : i32
    linalg.yield %s : i32
  } -> tensor<4x16xi32>
  return %y : tensor<4x16xi32>
}"""
FRAMES = """
  %e{c} = tensor.empty() : tensor<1x{c}x16xf32>
  %z{c} = linalg.fill ins(%zero : f32) outs(%e{c} : tensor<1x{c}x16xf32>) -> tensor<1x{c}x16xf32>
  %y{c} = linalg.generic {{
    indexing_maps = [affine_map<(n, k, w, c) -> (n, c, w)>, affine_map<(n, k, w, c) -> (k, c)>,
                     affine_map<(n, k, w, c) -> (n, k, w)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  }} ins(%x{c}, %w{c} : tensor<1x{c}x16xf32>, tensor<{c}x{c}xf32>)
    outs(%z{c} : tensor<1x{c}x16xf32>) {{
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  }} -> tensor<1x{c}x16xf32>
"""
FEW_AND_MANY = f"""
func.func @main(%x8: tensor<1x8x16xf32>, %w8: tensor<8x8xf32>,
                %x72: tensor<1x72x16xf32>, %w72: tensor<72x72xf32>)
    -> (tensor<1x8x16xf32>, tensor<1x72x16xf32>) {{
  %zero = arith.constant 0.0 : f32
  {FRAMES.format(c=8)}{FRAMES.format(c=72)}
  return %y8, %y72 : tensor<1x8x16xf32>, tensor<1x72x16xf32>
}}"""
TEXTS = {
    "samples in turns": IN_TURNS,
    "contractions that no template computes": INTEGERS,
    "frames of more channels than a kernel has": FEW_AND_MANY,
}


def values_of(module: ModuleOp) -> Iterator[SSAValue]:
    for op in module.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def shuffled(module: ModuleOp, seed: int) -> ModuleOp:
    """A copy of a module where the uses of each value stand in another order."""
    copy, random = module.clone(), Random(seed)
    for value in values_of(copy):
        uses = list(value.uses)
        random.shuffle(uses)
        for use in uses:
            value.remove_use(use)
        for use in uses:
            value.add_use(use)
    return copy


def again(module: ModuleOp) -> ModuleOp:
    """A module printed and read."""
    return read_module(str(module))


def check(module: ModuleOp, passes: Sequence[ModulePass], seed: int) -> None:
    """Run passes on the three of them."""
    for one in unrolled(passes, module):
        others = {"read again": again(module), "shuffled": shuffled(module, seed)}
        one.apply(new_context(), module)
        ops = set(module.walk())
        for value in values_of(module):
            assert {use.operation for use in value.uses} <= ops, f"{one.name}: {value}"
        expected = str(again(module))
        for how, other in others.items():
            one.apply(new_context(), other)
            assert str(again(other)) == expected, f"{one.name}, {how}"


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(case=functions(), seed=st.integers(0, 99))
def test_rewrites(case: tuple[str, object], seed: int) -> None:
    check(read_module(case[0]), PIPELINES["default"], seed)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=4, deadline=None)
@given(problem=problems(), seed=st.integers(0, 99))
def test_convolutions(device: str, problem: ConvProblem, seed: int) -> None:
    module = ModuleOp([function_of("main", problem)])
    check(module, (*PIPELINES["default"], *lowering_passes(device)), seed)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=4, deadline=None)
@given(
    steps=st.lists(st.sampled_from((BIAS, RELU, RESIDUAL, ROWS, SCALE)), max_size=4),
    seed=st.integers(0, 99),
)
def test_epilogues(device: str, steps: list[Step], seed: int) -> None:
    module = read_module(STRIDED.text("f16", steps))
    check(module, (*PIPELINES["default"], *lowering_passes(device)), seed)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_refused_parts_leave_nothing_behind(text: str, device: str) -> None:
    check(read_module(text), (*PIPELINES["default"], *lowering_passes(device)), 0)
