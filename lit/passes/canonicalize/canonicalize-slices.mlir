// RUN: convir-opt %s -p canonicalize --split-input-file | filecheck %s

// CHECK-LABEL: func.func @extract_all
// CHECK-NEXT: func.return %a : tensor<4x8xf32>
func.func @extract_all(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tensor.extract_slice %a[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> to tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @extract_all_dynamic
// CHECK-NEXT: func.return %a : tensor<?xf32>
func.func @extract_all_dynamic(%a: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %0 = tensor.extract_slice %a[0] [%n] [1] : tensor<?xf32> to tensor<?xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: func.func @insert_all
// CHECK-NEXT: func.return %a : tensor<4x8xf32>
func.func @insert_all(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tensor.insert_slice %a into %b[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Offsets and strides multiply through, and a dimension that the inner slice dropped comes back.

// CHECK-LABEL: func.func @extract_of_extract
// CHECK-NEXT: %0 = tensor.extract_slice %a[1, 3, 4] [2, 1, 3] [4, 1, 6] : tensor<16x8x32xf32> to tensor<2x3xf32>
// CHECK-NEXT: func.return %0
func.func @extract_of_extract(%a: tensor<16x8x32xf32>) -> tensor<2x3xf32> {
  %0 = tensor.extract_slice %a[1, 3, 2] [8, 1, 15] [2, 1, 2] : tensor<16x8x32xf32> to tensor<8x15xf32>
  %1 = tensor.extract_slice %0[0, 1] [2, 3] [2, 3] : tensor<8x15xf32> to tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @extract_what_was_inserted
// CHECK-NEXT: func.return %s : tensor<4xf32>
func.func @extract_what_was_inserted(%s: tensor<4xf32>, %d: tensor<9xf32>) -> tensor<4xf32> {
  %0 = tensor.insert_slice %s into %d[1] [4] [2] : tensor<4xf32> into tensor<9xf32>
  %1 = tensor.extract_slice %0[1] [4] [2] : tensor<9xf32> to tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @extract_part_of_what_was_inserted
// CHECK-NEXT: %0 = tensor.extract_slice %s[1] [2] [2] : tensor<4xf32> to tensor<2xf32>
// CHECK-NEXT: func.return %0
func.func @extract_part_of_what_was_inserted(%s: tensor<4xf32>, %d: tensor<9xf32>) -> tensor<2xf32> {
  %0 = tensor.insert_slice %s into %d[1] [4] [2] : tensor<4xf32> into tensor<9xf32>
  %1 = tensor.extract_slice %0[3] [2] [4] : tensor<9xf32> to tensor<2xf32>
  return %1 : tensor<2xf32>
}

// The even elements are read, the odd ones were written.

// CHECK-LABEL: func.func @extract_between_what_was_inserted
// CHECK-NEXT: %0 = tensor.extract_slice %d[0] [5] [2] : tensor<9xf32> to tensor<5xf32>
// CHECK-NEXT: func.return %0
func.func @extract_between_what_was_inserted(%s: tensor<4xf32>, %d: tensor<9xf32>) -> tensor<5xf32> {
  %0 = tensor.insert_slice %s into %d[1] [4] [2] : tensor<4xf32> into tensor<9xf32>
  %1 = tensor.extract_slice %0[0] [5] [2] : tensor<9xf32> to tensor<5xf32>
  return %1 : tensor<5xf32>
}

// CHECK-LABEL: func.func @extract_inside_padding
// CHECK-NEXT: %0 = tensor.extract_slice %a[1] [2] [1] : tensor<4xf32> to tensor<2xf32>
// CHECK-NEXT: func.return %0
func.func @extract_inside_padding(%a: tensor<4xf32>) -> tensor<2xf32> {
  %c = arith.constant 1.0 : f32
  %0 = tensor.pad %a low[3] high[3] {
  ^bb0(%i: index):
    tensor.yield %c : f32
  } : tensor<4xf32> to tensor<10xf32>
  %1 = tensor.extract_slice %0[4] [2] [1] : tensor<10xf32> to tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @extract_of_splat
// CHECK-NEXT: %0 = arith.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK-NEXT: func.return %0
func.func @extract_of_splat() -> tensor<2xf32> {
  %0 = arith.constant dense<1.0> : tensor<32x8xf32>
  %1 = tensor.extract_slice %0[0, 3] [2, 1] [4, 1] : tensor<32x8xf32> to tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @extract_of_fill
// CHECK: [[EMPTY:%.+]] = tensor.empty(%n) : tensor<?xf32>
// CHECK-NEXT: [[FILL:%.+]] = linalg.fill ins(%x : f32) outs([[EMPTY]] : tensor<?xf32>) -> tensor<?xf32>
// CHECK-NEXT: func.return [[FILL]]
func.func @extract_of_fill(%x: f32, %d: tensor<32xf32>, %n: index) -> tensor<?xf32> {
  %0 = linalg.fill ins(%x : f32) outs(%d : tensor<32xf32>) -> tensor<32xf32>
  %1 = tensor.extract_slice %0[0] [%n] [1] : tensor<32xf32> to tensor<?xf32>
  return %1 : tensor<?xf32>
}

// CHECK-LABEL: func.func @insert_nothing
// CHECK-NEXT: func.return %d : tensor<9xf32>
func.func @insert_nothing(%s: tensor<0xf32>, %d: tensor<9xf32>) -> tensor<9xf32> {
  %0 = tensor.insert_slice %s into %d[1] [0] [1] : tensor<0xf32> into tensor<9xf32>
  return %0 : tensor<9xf32>
}

// CHECK-LABEL: func.func @insert_zeros_into_zeros
// CHECK: [[ZEROS:%.+]] = arith.constant dense<0.000000e+00> : tensor<9xf32>
// CHECK: func.return [[ZEROS]]
func.func @insert_zeros_into_zeros() -> tensor<9xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<9xf32>
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = tensor.insert_slice %1 into %zeros[1] [4] [2] : tensor<4xf32> into tensor<9xf32>
  return %2 : tensor<9xf32>
}

// CHECK-LABEL: func.func @insert_back
// CHECK-NEXT: func.return %d : tensor<9xf32>
func.func @insert_back(%d: tensor<9xf32>, %i: index) -> tensor<9xf32> {
  %0 = tensor.extract_slice %d[%i] [1] [1] : tensor<9xf32> to tensor<f32>
  %1 = tensor.insert_slice %0 into %d[%i] [1] [1] : tensor<f32> into tensor<9xf32>
  return %1 : tensor<9xf32>
}

// CHECK-LABEL: func.func @insert_over_insert
// CHECK-NEXT: %0 = tensor.insert_slice %s into %d[0] [5] [2] : tensor<5xf32> into tensor<9xf32>
// CHECK-NEXT: func.return %0
func.func @insert_over_insert(%s: tensor<5xf32>, %t: tensor<2xf32>, %d: tensor<9xf32>) -> tensor<9xf32> {
  %0 = tensor.insert_slice %t into %d[2] [2] [4] : tensor<2xf32> into tensor<9xf32>
  %1 = tensor.insert_slice %s into %0[0] [5] [2] : tensor<5xf32> into tensor<9xf32>
  return %1 : tensor<9xf32>
}

// -----

// Not rewritten because the sizes differ, the offset is not zero, or the type changes.

// CHECK-LABEL: func.func @not_all
// CHECK-COUNT-3: tensor.extract_slice
func.func @not_all(%a: tensor<4xf32>, %n: index, %b: tensor<?xf32>) -> (tensor<3xf32>, tensor<?xf32>, tensor<4xf32>) {
  %0 = tensor.extract_slice %a[1] [3] [1] : tensor<4xf32> to tensor<3xf32>
  %1 = tensor.extract_slice %a[0] [%n] [1] : tensor<4xf32> to tensor<?xf32>
  %2 = tensor.extract_slice %b[0] [4] [1] : tensor<?xf32> to tensor<4xf32>
  return %0, %1, %2 : tensor<3xf32>, tensor<?xf32>, tensor<4xf32>
}

// -----

// Not rewritten because an offset is dynamic.

// CHECK-LABEL: func.func @extract_at_dynamic_offset
// CHECK-COUNT-2: tensor.extract_slice
func.func @extract_at_dynamic_offset(%a: tensor<16xf32>, %i: index) -> tensor<2xf32> {
  %0 = tensor.extract_slice %a[%i] [8] [1] : tensor<16xf32> to tensor<8xf32>
  %1 = tensor.extract_slice %0[1] [2] [1] : tensor<8xf32> to tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// Not rewritten because the slice reads both what was inserted and what was there.

// CHECK-LABEL: func.func @extract_across
// CHECK-NEXT: tensor.insert_slice
// CHECK-NEXT: tensor.extract_slice
func.func @extract_across(%s: tensor<4xf32>, %d: tensor<9xf32>) -> tensor<3xf32> {
  %0 = tensor.insert_slice %s into %d[1] [4] [1] : tensor<4xf32> into tensor<9xf32>
  %1 = tensor.extract_slice %0[3] [3] [1] : tensor<9xf32> to tensor<3xf32>
  return %1 : tensor<3xf32>
}

// -----

// Not rewritten because -0.0 is not 0.0.

// CHECK-LABEL: func.func @insert_another_zero
// CHECK: tensor.insert_slice
func.func @insert_another_zero() -> tensor<9xf32> {
  %0 = arith.constant dense<-0.0> : tensor<4xf32>
  %1 = arith.constant dense<0.0> : tensor<9xf32>
  %2 = tensor.insert_slice %0 into %1[1] [4] [2] : tensor<4xf32> into tensor<9xf32>
  return %2 : tensor<9xf32>
}

// -----

// Not rewritten because the second insertion leaves an element of the first.

// CHECK-LABEL: func.func @insert_beside_insert
// CHECK-COUNT-2: tensor.insert_slice
func.func @insert_beside_insert(%s: tensor<4xf32>, %t: tensor<2xf32>, %d: tensor<9xf32>) -> tensor<9xf32> {
  %0 = tensor.insert_slice %t into %d[3] [2] [1] : tensor<2xf32> into tensor<9xf32>
  %1 = tensor.insert_slice %s into %0[0] [4] [1] : tensor<4xf32> into tensor<9xf32>
  return %1 : tensor<9xf32>
}

// -----

// Not rewritten because it is put back somewhere else.

// CHECK-LABEL: func.func @insert_elsewhere
// CHECK: tensor.insert_slice
func.func @insert_elsewhere(%d: tensor<9xf32>) -> tensor<9xf32> {
  %0 = tensor.extract_slice %d[0] [4] [2] : tensor<9xf32> to tensor<4xf32>
  %1 = tensor.insert_slice %0 into %d[1] [4] [2] : tensor<4xf32> into tensor<9xf32>
  return %1 : tensor<9xf32>
}
