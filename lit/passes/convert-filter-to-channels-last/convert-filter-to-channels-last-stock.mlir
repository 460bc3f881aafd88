// The pass works on xDSL's own ops, in xDSL's own driver.
// RUN: xdsl-opt %s -p convert-filter-to-channels-last | filecheck %s

func.func @chwf(%x: tensor<1x16x4xf32>, %w: tensor<4x3x16xf32>, %y: tensor<1x14x16xf32>) -> tensor<1x14x16xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 + d4, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d3, d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x16x4xf32>, tensor<4x3x16xf32>) outs(%y : tensor<1x14x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %1 = arith.mulf %in, %in_0 : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<1x14x16xf32>
  return %0 : tensor<1x14x16xf32>
}

// CHECK-LABEL: @chwf
// CHECK:         linalg.transpose {{.*}} permutation = [2, 1, 0]
// CHECK:         linalg.generic
