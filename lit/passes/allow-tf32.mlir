// RUN: convir-opt %s -p allow-tf32 --split-input-file --remarks 2>&1 | filecheck %s

// CHECK: remark: [allow-tf32] func.func rewritten: 1 products of f32 may use TF32
// CHECK: remark: [allow-tf32] func.func rewritten: 1 products of f32 may use TF32
// CHECK: remark: [allow-tf32] func.func not rewritten: it has no products of f32
// CHECK: remark: [allow-tf32] func.func not rewritten: it has no products of f32

// CHECK-LABEL: func.func @a_convolution
// CHECK-SAME: attributes {convir.allow_tf32}
func.func @a_convolution(%x: tensor<1x8x8x4xf32>, %w: tensor<8x3x3x4xf32>, %init: tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32> {
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : tensor<1x8x8x4xf32>, tensor<8x3x3x4xf32>) outs(%init : tensor<1x6x6x8xf32>)
  return %y : tensor<1x6x6x8xf32>
}

// -----

// CHECK-LABEL: func.func @a_product
// CHECK-SAME: attributes {convir.allow_tf32}
func.func @a_product(%a: tensor<4x8xf32>, %b: tensor<8x5xf32>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %c = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %c : tensor<4x5xf32>
}

// -----

// What is f16 is multiplied exactly anyway.
// CHECK-LABEL: func.func @of_f16
// CHECK-NOT: allow_tf32
func.func @of_f16(%x: tensor<1x8x8x4xf16>, %w: tensor<8x3x3x4xf16>, %init: tensor<1x6x6x8xf16>) -> tensor<1x6x6x8xf16> {
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) accumulate(f32) ins(%x, %w : tensor<1x8x8x4xf16>, tensor<8x3x3x4xf16>) outs(%init : tensor<1x6x6x8xf16>)
  return %y : tensor<1x6x6x8xf16>
}

// -----

// CHECK-LABEL: func.func @elementwise
// CHECK-NOT: allow_tf32
func.func @elementwise(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.mulf %a, %b : tensor<4xf32>
  return %c : tensor<4xf32>
}
