// RUN: convir-opt %s -p canonicalize --split-input-file | filecheck %s

// CHECK-LABEL: func.func @identity
// CHECK-NEXT: func.return %a, %b : tensor<4xf32>, tensor<?x4xf32>
func.func @identity(%a: tensor<4xf32>, %b: tensor<?x4xf32>, %n: index) -> (tensor<4xf32>, tensor<?x4xf32>) {
  %0 = tensor.collapse_shape %a [[0]] : tensor<4xf32> into tensor<4xf32>
  %1 = tensor.expand_shape %b [[0], [1]] output_shape [%n, 4] : tensor<?x4xf32> into tensor<?x4xf32>
  return %0, %1 : tensor<4xf32>, tensor<?x4xf32>
}

// CHECK-LABEL: func.func @there_and_back
// CHECK-NEXT: func.return %a : tensor<2x3x4xf32>
func.func @there_and_back(%a: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = tensor.collapse_shape %a [[0, 1, 2]] : tensor<2x3x4xf32> into tensor<24xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [6, 4] : tensor<24xf32> into tensor<6x4xf32>
  %2 = tensor.expand_shape %1 [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @collapse_less
// CHECK-NEXT: tensor.collapse_shape %a {{\[\[}}0 : i64, 1 : i64], [2 : i64]] : tensor<2x3x4xf32> into tensor<6x4xf32>
// CHECK-NEXT: func.return
func.func @collapse_less(%a: tensor<2x3x4xf32>) -> tensor<6x4xf32> {
  %0 = tensor.collapse_shape %a [[0, 1, 2]] : tensor<2x3x4xf32> into tensor<24xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [6, 4] : tensor<24xf32> into tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}

// Unit dimensions come and go: those that are left over belong to the last group.

// CHECK-LABEL: func.func @expand_units
// CHECK-NEXT: tensor.expand_shape %a {{\[\[}}0 : i64, 1 : i64, 2 : i64], [3 : i64, 4 : i64]] output_shape [1, 2, 3, 4, 1] : tensor<6x4xf32> into tensor<1x2x3x4x1xf32>
// CHECK-NEXT: func.return
func.func @expand_units(%a: tensor<6x4xf32>) -> tensor<1x2x3x4x1xf32> {
  %0 = tensor.expand_shape %a [[0, 1], [2]] output_shape [1, 6, 4] : tensor<6x4xf32> into tensor<1x6x4xf32>
  %1 = tensor.expand_shape %0 [[0], [1, 2], [3, 4]] output_shape [1, 2, 3, 4, 1] : tensor<1x6x4xf32> into tensor<1x2x3x4x1xf32>
  return %1 : tensor<1x2x3x4x1xf32>
}

// CHECK-LABEL: func.func @dynamic
// CHECK-NEXT: [[DOWN:%.+]] = tensor.collapse_shape %a {{\[\[}}0 : i64, 1 : i64, 2 : i64]] : tensor<?x?x4xf32> into tensor<?xf32>
// CHECK-NEXT: [[UP:%.+]] = tensor.expand_shape %b {{\[\[}}0 : i64, 1 : i64, 2 : i64]] output_shape [%n, 2, 2] : tensor<?xf32> into tensor<?x2x2xf32>
// CHECK-NEXT: func.return [[DOWN]], [[UP]], %b
func.func @dynamic(%a: tensor<?x?x4xf32>, %b: tensor<?xf32>, %n: index) -> (tensor<?xf32>, tensor<?x2x2xf32>, tensor<?xf32>) {
  %0 = tensor.collapse_shape %a [[0, 1], [2]] : tensor<?x?x4xf32> into tensor<?x4xf32>
  %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
  %2 = tensor.expand_shape %b [[0, 1]] output_shape [%n, 4] : tensor<?xf32> into tensor<?x4xf32>
  %3 = tensor.expand_shape %2 [[0], [1, 2]] output_shape [%n, 2, 2] : tensor<?x4xf32> into tensor<?x2x2xf32>
  %4 = tensor.collapse_shape %2 [[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
  return %1, %3, %4 : tensor<?xf32>, tensor<?x2x2xf32>, tensor<?xf32>
}

// CHECK-LABEL: func.func @constants
// CHECK-DAG: arith.constant dense<1.000000e+00> : tensor<2x3xf32>
// CHECK-DAG: arith.constant dense<{{\[\[}}1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
// CHECK-DAG: tensor.splat %x : tensor<2x3xf32>
// CHECK-DAG: [[EMPTY:%.+]] = tensor.empty() : tensor<2x3xf32>
// CHECK-DAG: linalg.fill ins(%x : f32) outs([[EMPTY]] : tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @constants(%x: f32, %d: tensor<6xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = arith.constant dense<1.0> : tensor<6xf32>
  %1 = arith.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi32>
  %2 = tensor.splat %x : tensor<6xf32>
  %3 = linalg.fill ins(%x : f32) outs(%d : tensor<6xf32>) -> tensor<6xf32>
  %4 = tensor.expand_shape %0 [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %5 = tensor.expand_shape %1 [[0, 1]] output_shape [2, 3] : tensor<6xi32> into tensor<2x3xi32>
  %6 = tensor.expand_shape %2 [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %7 = tensor.expand_shape %3 [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  return %4, %5, %6, %7 : tensor<2x3xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// Not rewritten because neither end is a collapse of the other.

// CHECK-LABEL: func.func @regroup
// CHECK-NEXT: tensor.collapse_shape
// CHECK-NEXT: tensor.expand_shape
func.func @regroup(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = tensor.collapse_shape %a [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [3, 2] : tensor<6xf32> into tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// -----

// Not rewritten because the dynamic sizes may trade factors.

// CHECK-LABEL: func.func @dynamic_regroup
// CHECK-NEXT: tensor.collapse_shape
// CHECK-NEXT: tensor.expand_shape
func.func @dynamic_regroup(%a: tensor<?x?xf32>, %n: index, %m: index) -> tensor<?x?xf32> {
  %0 = tensor.collapse_shape %a [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [%n, %m] : tensor<?xf32> into tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}

// -----

// Not rewritten because the constant would be stored twice.

// CHECK-LABEL: func.func @shared_constant
// CHECK: tensor.expand_shape
func.func @shared_constant() -> (tensor<6xi32>, tensor<2x3xi32>) {
  %0 = arith.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [2, 3] : tensor<6xi32> into tensor<2x3xi32>
  return %0, %1 : tensor<6xi32>, tensor<2x3xi32>
}
