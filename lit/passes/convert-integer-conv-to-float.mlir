// RUN: convir-opt %s -p 'convert-integer-conv-to-float{device=cuda}' --split-input-file --remarks 2>&1 | filecheck %s
// RUN: convir-opt %s -p convert-integer-conv-to-float --split-input-file --remarks 2>&1 | filecheck %s --check-prefix=HOST

// CHECK: remark: [convert-integer-conv-to-float] conv.fprop rewritten: products of bf16, which are exact in f32
// CHECK: remark: [convert-integer-conv-to-float] conv.fprop rewritten: products of f64, which are exact in f64
// CHECK: remark: [convert-integer-conv-to-float] conv.fprop rewritten: products of bf16, which are exact in f32
// CHECK: remark: [convert-integer-conv-to-float] conv.fprop not rewritten: sums of up to 2154174720 may pass i32
// CHECK: remark: [convert-integer-conv-to-float] conv.fprop not rewritten: a size is dynamic
// CHECK: remark: [convert-integer-conv-to-float] conv.fprop rewritten: products of bf16, which are exact in f32
// CHECK-NOT: remark
// HOST: remark: [convert-integer-conv-to-float] conv.fprop not rewritten: the host multiplies bytes

// CHECK-LABEL: func.func @few_products
// CHECK: arith.extui %{{.*}} : i8 to i32
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: arith.extsi %{{.*}} : i8 to i32
// CHECK: conv.fprop layouts(NHWC, KRSC, NHWC) ins(%{{.*}}, %{{.*}} : tensor<1x4x5x8xbf16>, tensor<2x3x3x8xbf16>)
// CHECK: arith.fptosi
// CHECK: arith.addi
func.func @few_products(%x: tensor<1x4x5x8xi8>, %w: tensor<2x3x3x8xi8>, %init: tensor<1x2x3x2xi32>) -> tensor<1x2x3x2xi32> {
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : tensor<1x4x5x8xi8>, tensor<2x3x3x8xi8>) outs(%init : tensor<1x2x3x2xi32>)
  return %y : tensor<1x2x3x2xi32>
}

// -----

// CHECK-LABEL: func.func @more_than_f32_holds
// CHECK: conv.fprop {{.*}} : tensor<1x4x5x600xf64>
func.func @more_than_f32_holds(%x: tensor<1x4x5x600xi8>, %w: tensor<2x1x1x600xi8>, %init: tensor<1x4x5x2xi32>) -> tensor<1x4x5x2xi32> {
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : tensor<1x4x5x600xi8>, tensor<2x1x1x600xi8>) outs(%init : tensor<1x4x5x2xi32>)
  return %y : tensor<1x4x5x2xi32>
}

// -----

// The elements of a filter may say that sums are small.
// CHECK-LABEL: func.func @small_weights
// CHECK: conv.fprop {{.*}} : tensor<1x4x5x600xbf16>
// CHECK-NOT: arith.addi
func.func @small_weights(%x: tensor<1x4x5x600xi8>) -> tensor<1x4x5x2xi32> {
  %w = arith.constant dense<-3> : tensor<2x1x1x600xi8>
  %init = arith.constant dense<0> : tensor<1x4x5x2xi32>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : tensor<1x4x5x600xi8>, tensor<2x1x1x600xi8>) outs(%init : tensor<1x4x5x2xi32>)
  return %y : tensor<1x4x5x2xi32>
}

// -----

// CHECK-LABEL: func.func @past_i32
// CHECK: conv.fprop {{.*}} : tensor<1x1x1x65998xi8>
func.func @past_i32(%x: tensor<1x1x1x65998xi8>, %w: tensor<1x1x1x65998xi8>, %init: tensor<1x1x1x1xi32>) -> tensor<1x1x1x1xi32> {
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : tensor<1x1x1x65998xi8>, tensor<1x1x1x65998xi8>) outs(%init : tensor<1x1x1x1xi32>)
  return %y : tensor<1x1x1x1xi32>
}

// -----

// CHECK-LABEL: func.func @open_batch
func.func @open_batch(%x: tensor<?x4x5x8xi8>, %w: tensor<2x3x3x8xi8>, %init: tensor<?x2x3x2xi32>) -> tensor<?x2x3x2xi32> {
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : tensor<?x4x5x8xi8>, tensor<2x3x3x8xi8>) outs(%init : tensor<?x2x3x2xi32>)
  return %y : tensor<?x2x3x2xi32>
}

// -----

// CHECK-LABEL: func.func @floats
func.func @floats(%x: tensor<1x4x5x8xf32>, %w: tensor<2x3x3x8xf32>, %init: tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xf32> {
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : tensor<1x4x5x8xf32>, tensor<2x3x3x8xf32>) outs(%init : tensor<1x2x3x2xf32>)
  return %y : tensor<1x2x3x2xf32>
}

// -----

// The zero point of the padding, 200, is what every element is less, and 200 * 3 * 9 * 8 are the
// products of it.
// CHECK-LABEL: func.func @padded_with_a_zero_point
// CHECK: arith.constant -200 : i32
// CHECK: conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) ins(%{{.*}}, %{{.*}} : tensor<1x4x5x8xbf16>, tensor<2x3x3x8xbf16>)
// CHECK: conv.constant dense<43200> : tensor<2xi32>
// CHECK: arith.fptosi
// CHECK: arith.addi
func.func @padded_with_a_zero_point(%x: tensor<1x4x5x8xi8>) -> tensor<1x4x5x2xi32> {
  %z = arith.constant -56 : i8
  %w = arith.constant dense<3> : tensor<2x3x3x8xi8>
  %init = arith.constant dense<0> : tensor<1x4x5x2xi32>
  %padded = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %z : i8
  } : tensor<1x4x5x8xi8> to tensor<1x6x7x8xi8>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%padded, %w : tensor<1x6x7x8xi8>, tensor<2x3x3x8xi8>) outs(%init : tensor<1x4x5x2xi32>)
  return %y : tensor<1x4x5x2xi32>
}
