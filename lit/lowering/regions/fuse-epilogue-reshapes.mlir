// RUN: convir-opt %s -p fuse-epilogue --split-input-file | filecheck %s
// Behind a reshape that takes rows apart an epilogue's operands are elsewhere than a contraction's
// loops say: what is computed of the product is computed in its shape.

#same = affine_map<(b, t, n) -> (b, t, n)>
#channel = affine_map<(b, t, n) -> (n)>

// Tokens: rows of all samples are one dimension, of what is added too.
// CHECK-LABEL: func.func @residual
// CHECK-SAME:  (%x: tensor<8x16xf32>, %w: tensor<16x6xf32>, %r: tensor<2x4x6xf32>)
// CHECK:       %[[R:.*]] = tensor.collapse_shape %r {{\[\[}}0 : i64, 1 : i64], [2 : i64]]
// CHECK:       %[[Y:.*]] = kernel.region {
// CHECK:         linalg.matmul
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %[[R]] : tensor<8x6xf32>, tensor<8x6xf32>)
// CHECK:         kernel.yield {{.*}} : tensor<8x6xf32>
// CHECK:       tensor.expand_shape %[[Y]]
func.func @residual(%x: tensor<8x16xf32>, %w: tensor<16x6xf32>, %r: tensor<2x4x6xf32>) -> tensor<2x4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<8x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x6xf32>) outs(%zeros : tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 4, 6] : tensor<8x6xf32> into tensor<2x4x6xf32>
  %e = tensor.empty() : tensor<2x4x6xf32>
  %2 = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %r : tensor<2x4x6xf32>, tensor<2x4x6xf32>) outs(%e : tensor<2x4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x4x6xf32>
  return %2 : tensor<2x4x6xf32>
}

// -----

#same = affine_map<(b, t, n) -> (b, t, n)>
#channel = affine_map<(b, t, n) -> (n)>

// A bias has none of the dimensions that are one; what is read by several stays behind the reshape.
// CHECK-LABEL: func.func @bias_and_two_readers
// CHECK:       %[[Y:.*]] = kernel.region {
// CHECK:         linalg.matmul
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK:         kernel.yield {{.*}} : tensor<8x6xf32>
// CHECK:       %[[Z:.*]] = tensor.expand_shape %[[Y]]
// CHECK:       linalg.generic {{.*}} ins(%[[Z]] : tensor<2x4x6xf32>)
func.func @bias_and_two_readers(%x: tensor<8x16xf32>, %w: tensor<16x6xf32>, %c: tensor<6xf32>) -> (tensor<2x4x6xf32>, tensor<2x4x6xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<8x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x6xf32>) outs(%zeros : tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 4, 6] : tensor<8x6xf32> into tensor<2x4x6xf32>
  %e = tensor.empty() : tensor<2x4x6xf32>
  %2 = linalg.generic {indexing_maps = [#same, #channel, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %c : tensor<2x4x6xf32>, tensor<6xf32>) outs(%e : tensor<2x4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x4x6xf32>
  %3 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%2 : tensor<2x4x6xf32>) outs(%e : tensor<2x4x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<2x4x6xf32>
  return %2, %3 : tensor<2x4x6xf32>, tensor<2x4x6xf32>
}

// -----

#same = affine_map<(b, t, n) -> (b, t, n)>
#token = affine_map<(b, t, n) -> (t, n)>

// Not rewritten: what is added is of a token, and rows are of samples and tokens.
// CHECK-LABEL: func.func @of_tokens
// CHECK:       %[[Z:.*]] = tensor.expand_shape
// CHECK:       linalg.generic {{.*}} ins(%[[Z]], %p : tensor<2x4x6xf32>, tensor<4x6xf32>)
func.func @of_tokens(%x: tensor<8x16xf32>, %w: tensor<16x6xf32>, %p: tensor<4x6xf32>) -> tensor<2x4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<8x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x6xf32>) outs(%zeros : tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 4, 6] : tensor<8x6xf32> into tensor<2x4x6xf32>
  %e = tensor.empty() : tensor<2x4x6xf32>
  %2 = linalg.generic {indexing_maps = [#same, #token, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %p : tensor<2x4x6xf32>, tensor<4x6xf32>) outs(%e : tensor<2x4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x4x6xf32>
  return %2 : tensor<2x4x6xf32>
}

// -----

#same = affine_map<(b, t, n) -> (b, t, n)>

// Not rewritten: it computes with the place of an element.
// CHECK-LABEL: func.func @places
// CHECK:       %[[Z:.*]] = tensor.expand_shape
// CHECK:       linalg.generic {{.*}} ins(%[[Z]] : tensor<2x4x6xf32>)
// CHECK:       linalg.index
func.func @places(%x: tensor<8x16xf32>, %w: tensor<16x6xf32>) -> tensor<2x4x6xindex> {
  %zeros = arith.constant dense<0.0> : tensor<8x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x6xf32>) outs(%zeros : tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 4, 6] : tensor<8x6xf32> into tensor<2x4x6xf32>
  %e = tensor.empty() : tensor<2x4x6xindex>
  %2 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1 : tensor<2x4x6xf32>) outs(%e : tensor<2x4x6xindex>) {
  ^bb0(%a: f32, %o: index):
    %i = linalg.index 1 : index
    linalg.yield %i : index
  } -> tensor<2x4x6xindex>
  return %2 : tensor<2x4x6xindex>
}
