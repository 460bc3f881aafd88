"""A second run of `default` has nothing left to do: no pass makes work for an earlier one."""

from __future__ import annotations

import pytest

from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.context import read_module
from convir.passes import run
from convir.reference.checking.check import Checker

pytestmark = pytest.mark.fast

PROGRAMS = {
    "samples with scatters between them and their products": """
      func.func @main(%x: tensor<1x1x3xf32>, %w: tensor<4x4xf32>) -> tensor<3xf32> {
        %y = arith.constant dense<0.0> : tensor<3xf32>
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c3 = arith.constant 3 : index
        %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%acc = %y) -> (tensor<3xf32>) {
          %xn = tensor.extract_slice %x[0, 0, %n] [1, 1, 1] [1, 1, 1]
            : tensor<1x1x3xf32> to tensor<1x1xf32>
          %zeros = arith.constant dense<0.0> : tensor<4x4xf32>
          %s = tensor.insert_slice %xn into %zeros[1, 2] [1, 1] [1, 2]
            : tensor<1x1xf32> into tensor<4x4xf32>
          %z = arith.constant dense<0.0> : tensor<f32>
          %p = linalg.generic {
              indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>,
                               affine_map<(i, j) -> ()>],
              iterator_types = ["reduction", "reduction"]}
              ins(%s, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<f32>) {
          ^bb0(%a: f32, %b: f32, %o: f32):
            %m = arith.mulf %b, %a : f32
            %t = arith.addf %o, %m : f32
            linalg.yield %t : f32
          } -> tensor<f32>
          %i = tensor.insert_slice %p into %acc[%n] [1] [1] : tensor<f32> into tensor<3xf32>
          scf.yield %i : tensor<3xf32>
        }
        return %r : tensor<3xf32>
      }""",
    "phases of one output each": """
      func.func @main(%x: tensor<1x2xi32>, %w: tensor<3x2xi32>) -> tensor<2x1xi32> {
        %zeros = arith.constant dense<0> : tensor<4x6xi32>
        %s = tensor.insert_slice %x into %zeros[1, 0] [1, 2] [1, 3]
          : tensor<1x2xi32> into tensor<4x6xi32>
        %part = tensor.extract_slice %s[0, 0] [2, 4] [1, 1] : tensor<4x6xi32> to tensor<2x4xi32>
        %init = arith.constant dense<2> : tensor<2x1xi32>
        %r = linalg.generic {
            indexing_maps = [affine_map<(i, j, n, m) -> (i, j)>,
                             affine_map<(i, j, n, m) -> (n * 2 + j, m + i)>,
                             affine_map<(i, j, n, m) -> (m, n)>],
            iterator_types = ["reduction", "reduction", "parallel", "parallel"]}
            ins(%w, %part : tensor<3x2xi32>, tensor<2x4xi32>) outs(%init : tensor<2x1xi32>) {
        ^bb0(%b: i32, %a: i32, %o: i32):
          %p = arith.muli %b, %a : i32
          %t = arith.addi %o, %p : i32
          linalg.yield %t : i32
        } -> tensor<2x1xi32>
        return %r : tensor<2x1xi32>
      }""",
    "phases of one output each, in groups": """
      func.func @main(%dy: tensor<1x2x4xbf16>, %w: tensor<4x2x2xbf16>) -> tensor<1x2x4xbf16> {
        %e = arith.constant dense<0.0> : tensor<1x2x4xbf16>
        %dx = conv.dgrad layouts(NWC, KSC, NWC) strides(2) padding(1) groups(2)
          ins(%dy, %w : tensor<1x2x4xbf16>, tensor<4x2x2xbf16>) outs(%e : tensor<1x2x4xbf16>)
        return %dx : tensor<1x2x4xbf16>
      }""",
    "padding behind a reshape behind padding": """
      func.func @main(%x1: tensor<2x2xi8>, %v1: tensor<1x1x1x1x2x1xi8>,
          %v8: tensor<2x1x1xi8>) -> tensor<2x1x1xi8> {
        %v2 = tensor.pad %v1 low[0, 0, 0, 0, 0, 0] high[0, 1, 0, 0, 0, 1] {
        ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index, %i5: index):
          %c = arith.constant 0 : i8
          tensor.yield %c : i8
        } : tensor<1x1x1x1x2x1xi8> to tensor<1x2x1x1x2x2xi8>
        %v3 = tensor.collapse_shape %v2 [[0 : i64, 1 : i64], [2 : i64, 3 : i64], [4 : i64, 5 : i64]]
          : tensor<1x2x1x1x2x2xi8> into tensor<2x1x4xi8>
        %v4 = tensor.pad %v3 low[2, 0, 2] high[0, 0, 0] {
        ^bb0(%i0_1: index, %i1_1: index, %i2_1: index):
          %c_1 = arith.constant 0 : i8
          tensor.yield %c_1 : i8
        } : tensor<2x1x4xi8> to tensor<4x1x6xi8>
        %v5 = tensor.extract_slice %v4[0, 0, 0] [3, 1, 5] [1, 1, 1]
          : tensor<4x1x6xi8> to tensor<3x1x5xi8>
        %v9 = linalg.generic {
            indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d1 * 3 + d4, d0, d3 * 3 + d2)>,
                             affine_map<(d0, d1, d2, d3, d4) -> (d4, d2)>,
                             affine_map<(d0, d1, d2, d3, d4) -> (d3, d1, d0)>],
            iterator_types = ["parallel", "parallel", "reduction", "parallel", "reduction"]}
            ins(%v5, %x1 : tensor<3x1x5xi8>, tensor<2x2xi8>)
            outs(%v8 : tensor<2x1x1xi8>) {
        ^bb0(%a: i8, %b: i8, %o: i8):
          %p = arith.muli %b, %a : i8
          %s = arith.addi %p, %o : i8
          linalg.yield %s : i8
        } -> tensor<2x1x1xi8>
        return %v9 : tensor<2x1x1xi8>
      }""",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_second_run_changes_nothing(text: str) -> None:
    source = read_module(text)
    once = run(source, "default")
    assert Checker(source).check(once.module).passed
    again = run(once.module, "default")
    assert not any(remark.fired for remark in again.remarks), again.remarks
    assert is_equivalent(once.module, again.module)
