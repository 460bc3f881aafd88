// RUN: convir-opt %s -p canonicalize --split-input-file | filecheck %s

// CHECK-LABEL: func.func @casts
// CHECK-NEXT: [[CAST:%.+]] = tensor.cast %a : tensor<4x4xf32> to tensor<?x?xf32>
// CHECK-NEXT: func.return %a, %a, [[CAST]]
func.func @casts(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<?x?xf32>) {
  %0 = tensor.cast %a : tensor<4x4xf32> to tensor<4x4xf32>
  %1 = tensor.cast %a : tensor<4x4xf32> to tensor<?x4xf32>
  %2 = tensor.cast %1 : tensor<?x4xf32> to tensor<4x4xf32>
  %3 = tensor.cast %1 : tensor<?x4xf32> to tensor<?x?xf32>
  return %0, %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<?x?xf32>
}

// CHECK-LABEL: func.func @cast_of_empty
// CHECK-NEXT: [[EMPTY:%.+]] = tensor.empty() : tensor<4xf32>
// CHECK-NEXT: func.return [[EMPTY]]
func.func @cast_of_empty(%n: index) -> tensor<4xf32> {
  %0 = tensor.empty(%n) : tensor<?xf32>
  %1 = tensor.cast %0 : tensor<?xf32> to tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @dims
// CHECK-DAG: [[C4:%.+]] = arith.constant 4 : index
// CHECK-DAG: [[DIM:%.+]] = tensor.dim %a, %{{.*}} : tensor<?x4xf32>
// CHECK: func.return [[C4]], %n, [[DIM]]
func.func @dims(%a: tensor<?x4xf32>, %n: index, %i: index, %s: tensor<1x4xf32>) -> (index, index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = tensor.dim %a, %c1 : tensor<?x4xf32>
  %1 = tensor.empty(%n) : tensor<?x4xf32>
  %2 = tensor.dim %1, %c0 : tensor<?x4xf32>
  %3 = tensor.insert_slice %s into %a[%i, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<?x4xf32>
  %4 = tensor.dim %3, %c0 : tensor<?x4xf32>
  return %0, %2, %4 : index, index, index
}

// -----

// Not rewritten because the sizes contradict: the cast in the middle is where that shows.

// CHECK-LABEL: func.func @contradiction
// CHECK-COUNT-2: tensor.cast
func.func @contradiction(%a: tensor<4xf32>) -> tensor<5xf32> {
  %0 = tensor.cast %a : tensor<4xf32> to tensor<?xf32>
  %1 = tensor.cast %0 : tensor<?xf32> to tensor<5xf32>
  return %1 : tensor<5xf32>
}

// -----

// Not rewritten because the dimension is not a constant, or does not exist.

// CHECK-LABEL: func.func @unknown_dim
// CHECK-COUNT-2: tensor.dim
func.func @unknown_dim(%a: tensor<4xf32>, %i: index) -> (index, index) {
  %c1 = arith.constant 1 : index
  %0 = tensor.dim %a, %i : tensor<4xf32>
  %1 = tensor.dim %a, %c1 : tensor<4xf32>
  return %0, %1 : index, index
}
