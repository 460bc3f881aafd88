// Zeros that nobody reads any more are gone, and each constant is there once.
// RUN: convir-opt %s --pipeline backward-data | filecheck %s

func.func @main(%dy: tensor<1x4x4x8xf32>, %w: tensor<16x3x3x8xf32>, %y: tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x10x10x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x10x10x8xf32>) -> tensor<1x10x10x8xf32>
  %0 = tensor.insert_slice %dy into %zeros[0, 1, 1, 0] [1, 4, 4, 8] [1, 2, 2, 1] : tensor<1x4x4x8xf32> into tensor<1x10x10x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d5, d2 + d6, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d5, d6, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%0, %w : tensor<1x10x10x8xf32>, tensor<16x3x3x8xf32>) outs(%y : tensor<1x8x8x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %2 = arith.mulf %in, %in_0 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<1x8x8x16xf32>
  return %1 : tensor<1x8x8x16xf32>
}

// CHECK-LABEL: @main
// CHECK-NOT:     linalg.fill
// CHECK-COUNT-1: arith.constant 0.000000e+00 : f32
// CHECK-NOT:     arith.constant 0.000000e+00 : f32
// The padding alone needs a zero; every phase is added to its part of %y.
// CHECK:         tensor.pad %dy
// CHECK-NOT:     into %{{.+}}[0, 1, 1, 0] [1, 4, 4, 8]
// CHECK:         tensor.insert_slice %{{.+}} into %y[0, 0, 0, 0] [1, 4, 4, 16] [1, 2, 2, 1]
// CHECK:         return
