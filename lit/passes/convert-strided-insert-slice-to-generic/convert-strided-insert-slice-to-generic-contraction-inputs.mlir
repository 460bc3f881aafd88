// `only-contraction-inputs` leaves the stores of finished results alone.
// RUN: convir-opt %s --split-input-file -p 'convert-strided-insert-slice-to-generic{only-contraction-inputs=true},dce' | filecheck %s
// RUN: convir-opt %s --split-input-file -p 'convert-strided-insert-slice-to-generic{only-contraction-inputs=true}' --remarks -o %t 2>&1 | filecheck %s --check-prefix=REMARK

// A contraction reads the scatter through a reshape.

func.func @through_reshape(%x: tensor<4x2x8xf32>, %w: tensor<8x16xf32>, %y: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %zeros = arith.constant dense<0.0> : tensor<8x2x8xf32>
  %0 = tensor.insert_slice %x into %zeros[0, 0, 0] [4, 2, 8] [2, 1, 1] : tensor<4x2x8xf32> into tensor<8x2x8xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<8x2x8xf32> into tensor<16x8xf32>
  %2 = linalg.matmul ins(%1, %w : tensor<16x8xf32>, tensor<8x16xf32>) outs(%y : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %2 : tensor<16x16xf32>
}

// REMARK: insert_slice rewritten: {{.*}}, for a contraction
// CHECK-LABEL: @through_reshape
// CHECK-NOT:     insert_slice
// CHECK:         %[[S:.+]] = linalg.generic
// CHECK:         tensor.collapse_shape %[[S]]

// -----

// Not rewritten because it is the contraction's result that is scattered.

func.func @result(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %y: tensor<4x16xf32>) -> tensor<8x16xf32> {
  %zeros = arith.constant dense<0.0> : tensor<8x16xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%y : tensor<4x16xf32>) -> tensor<4x16xf32>
  %1 = tensor.insert_slice %0 into %zeros[0, 0] [4, 16] [2, 1] : tensor<4x16xf32> into tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// REMARK: insert_slice not rewritten: no contraction reads it
// CHECK-LABEL: @result
// CHECK:         tensor.insert_slice

// -----

// Not rewritten because a contraction that only accumulates onto it reads it element by element.

func.func @init(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %y: tensor<8x8xf32>) -> tensor<8x16xf32> {
  %zeros = arith.constant dense<0.0> : tensor<8x16xf32>
  %0 = tensor.insert_slice %x into %zeros[0, 0] [4, 8] [2, 2] : tensor<4x8xf32> into tensor<8x16xf32>
  %1 = linalg.matmul ins(%y, %w : tensor<8x8xf32>, tensor<8x16xf32>) outs(%0 : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// REMARK: insert_slice not rewritten: no contraction reads it
// CHECK-LABEL: @init
// CHECK:         tensor.insert_slice
