// RUN: convir-opt %s -p canonicalize --split-input-file | filecheck %s

// What reads a tensor whose sizes were forgotten reads the tensor that has them.

// CHECK-LABEL: func.func @read
// CHECK-NEXT:    [[Y:%.+]] = linalg.matmul ins(%x, %w : tensor<2x3xf32>, tensor<3x4xf32>) outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    func.return [[Y]]
func.func @read(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %init: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = tensor.cast %x : tensor<2x3xf32> to tensor<?x3xf32>
  %1 = tensor.cast %init : tensor<2x4xf32> to tensor<?x?xf32>
  %2 = linalg.matmul ins(%0, %w : tensor<?x3xf32>, tensor<3x4xf32>) outs(%1 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %3 = tensor.cast %2 : tensor<?x?xf32> to tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// -----

// Sizes that are constants are static.

// CHECK-LABEL: func.func @sizes
// CHECK:         tensor.extract_slice %x[0] [2] [1] : tensor<4xf32> to tensor<2xf32>
// CHECK:         tensor.insert_slice {{%.+}} into %y[0] [2] [3] : tensor<2xf32> into tensor<9xf32>
func.func @sizes(%x: tensor<4xf32>, %y: tensor<9xf32>) -> tensor<9xf32> {
  %c2 = arith.constant 2 : index
  %0 = tensor.extract_slice %x[0] [%c2] [1] : tensor<4xf32> to tensor<?xf32>
  %1 = tensor.insert_slice %0 into %y[0] [%c2] [3] : tensor<?xf32> into tensor<9xf32>
  return %1 : tensor<9xf32>
}

// -----

// Not rewritten because the cast says more than its source.

// CHECK-LABEL: func.func @asserted
// CHECK:         [[C:%.+]] = tensor.cast %x : tensor<?xf32> to tensor<4xf32>
// CHECK:         math.exp [[C]] : tensor<4xf32>
func.func @asserted(%x: tensor<?xf32>) -> tensor<4xf32> {
  %0 = tensor.cast %x : tensor<?xf32> to tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
