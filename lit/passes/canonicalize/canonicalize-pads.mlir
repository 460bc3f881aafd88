// RUN: convir-opt %s -p canonicalize --split-input-file | filecheck %s

// CHECK-LABEL: func.func @by_nothing
// CHECK-NEXT: func.return %a : tensor<4xf32>
func.func @by_nothing(%a: tensor<4xf32>, %x: f32) -> tensor<4xf32> {
  %0 = tensor.pad %a low[0] high[0] {
  ^bb0(%i: index):
    tensor.yield %x : f32
  } : tensor<4xf32> to tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @splat_with_itself
// CHECK: [[ZEROS:%.+]] = arith.constant dense<0.000000e+00> : tensor<7xf32>
// CHECK-NEXT: func.return [[ZEROS]]
func.func @splat_with_itself() -> tensor<7xf32> {
  %0 = arith.constant dense<0.0> : tensor<4xf32>
  %1 = tensor.pad %0 low[1] high[2] {
  ^bb0(%i: index):
    %zero = arith.constant 0.0 : f32
    tensor.yield %zero : f32
  } : tensor<4xf32> to tensor<7xf32>
  return %1 : tensor<7xf32>
}

// CHECK-LABEL: func.func @twice
// CHECK-NEXT: [[PAD:%.+]] = tensor.pad %a low[1, 1] high[2, 1] {
// CHECK-NEXT: ^bb0({{.*}}):
// CHECK-NEXT: tensor.yield %x : f32
// CHECK-NEXT: } : tensor<4x?xf32> to tensor<7x?xf32>
// CHECK-NEXT: func.return [[PAD]]
func.func @twice(%a: tensor<4x?xf32>, %x: f32) -> tensor<7x?xf32> {
  %0 = tensor.pad %a low[1, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %x : f32
  } : tensor<4x?xf32> to tensor<5x?xf32>
  %1 = tensor.pad %0 low[0, 1] high[2, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %x : f32
  } : tensor<5x?xf32> to tensor<7x?xf32>
  return %1 : tensor<7x?xf32>
}

// -----

// Not rewritten because it says nofold.

// CHECK-LABEL: func.func @nofold
// CHECK: tensor.pad
func.func @nofold(%a: tensor<4xf32>, %x: f32) -> tensor<4xf32> {
  %0 = tensor.pad %a nofold low[0] high[0] {
  ^bb0(%i: index):
    tensor.yield %x : f32
  } : tensor<4xf32> to tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Not rewritten because the padding differs, in its sign alone.

// CHECK-LABEL: func.func @another_zero
// CHECK: tensor.pad
func.func @another_zero() -> tensor<7xf32> {
  %0 = arith.constant dense<0.0> : tensor<4xf32>
  %zero = arith.constant -0.0 : f32
  %1 = tensor.pad %0 low[1] high[2] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<4xf32> to tensor<7xf32>
  return %1 : tensor<7xf32>
}

// -----

// Not rewritten because the amounts are dynamic.

// CHECK-LABEL: func.func @dynamic
// CHECK-COUNT-2: tensor.pad
func.func @dynamic(%a: tensor<4xf32>, %x: f32, %n: index) -> tensor<?xf32> {
  %0 = tensor.pad %a low[%n] high[0] {
  ^bb0(%i: index):
    tensor.yield %x : f32
  } : tensor<4xf32> to tensor<?xf32>
  %1 = tensor.pad %0 low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %x : f32
  } : tensor<?xf32> to tensor<?xf32>
  return %1 : tensor<?xf32>
}
