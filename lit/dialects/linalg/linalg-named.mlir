// RUN: convir-opt %s | filecheck %s
// RUN: convir-opt %s | convir-opt | filecheck %s

// Operands narrower than the accumulator are widened by the body that the name stands for.
// CHECK-LABEL: func.func @matmul
func.func @matmul(%a: tensor<4x5xf16>, %b: tensor<5x6xf16>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK: linalg.matmul ins(%a, %b : tensor<4x5xf16>, tensor<5x6xf16>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<4x5xf16>, tensor<5x6xf16>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @transposed_lhs
func.func @transposed_lhs(%a: tensor<5x4xf32>, %b: tensor<5x6xf32>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK: linalg.matmul indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>] ins(
  %0 = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
       ins(%a, %b : tensor<5x4xf32>, tensor<5x6xf32>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @unsigned_widening
func.func @unsigned_widening(%a: tensor<3x4x5xi8>, %b: tensor<3x5x6xi8>, %c: tensor<3x4x6xi32>) -> tensor<3x4x6xi32> {
  // CHECK: linalg.batch_matmul {cast = #linalg.type_fn<cast_unsigned>} ins(
  %0 = linalg.batch_matmul {cast = #linalg.type_fn<cast_unsigned>}
       ins(%a, %b : tensor<3x4x5xi8>, tensor<3x5x6xi8>) outs(%c : tensor<3x4x6xi32>) -> tensor<3x4x6xi32>
  func.return %0 : tensor<3x4x6xi32>
}

// Strides and dilations are 1 where they are not written, and stay unwritten.
// CHECK-LABEL: func.func @convolution
func.func @convolution(%x: tensor<1x9x9x4xf16>, %w: tensor<3x3x4x8xf16>, %y: tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32> {
  // CHECK: linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>} ins(
  %0 = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>}
       ins(%x, %w : tensor<1x9x9x4xf16>, tensor<3x3x4x8xf16>) outs(%y : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  func.return %0 : tensor<1x4x4x8xf32>
}

// CHECK-LABEL: func.func @depthwise
func.func @depthwise(%x: tensor<1x9x9x4xf32>, %w: tensor<3x3x4x2xf32>, %y: tensor<1x7x7x4x2xf32>) -> tensor<1x7x7x4x2xf32> {
  // CHECK: linalg.depthwise_conv_2d_nhwc_hwcm ins(
  %0 = linalg.depthwise_conv_2d_nhwc_hwcm
       ins(%x, %w : tensor<1x9x9x4xf32>, tensor<3x3x4x2xf32>) outs(%y : tensor<1x7x7x4x2xf32>) -> tensor<1x7x7x4x2xf32>
  func.return %0 : tensor<1x7x7x4x2xf32>
}

// CHECK-LABEL: func.func @pooling
func.func @pooling(%x: tensor<1x4x9xf32>, %window: tensor<3xf32>, %y: tensor<1x4x3xf32>) -> tensor<1x4x3xf32> {
  // CHECK: linalg.pooling_ncw_max {strides = dense<2> : tensor<1xi64>, dilations = dense<2> : tensor<1xi64>} ins(
  %0 = linalg.pooling_ncw_max {dilations = dense<2> : tensor<1xi64>, strides = dense<2> : tensor<1xi64>}
       ins(%x, %window : tensor<1x4x9xf32>, tensor<3xf32>) outs(%y : tensor<1x4x3xf32>) -> tensor<1x4x3xf32>
  func.return %0 : tensor<1x4x3xf32>
}
