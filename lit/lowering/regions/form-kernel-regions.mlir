// RUN: convir-opt %s -p form-kernel-regions | filecheck %s
// What becomes one launch.

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// What is not a contraction takes the producers that only it reads: slices, pads, other generics.
// CHECK-LABEL: func.func @cluster
// CHECK:       kernel.region {
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    tensor.extract_slice
// CHECK-NEXT:    tensor.pad
// CHECK:         arith.addf
// CHECK-NEXT:    kernel.yield
// CHECK-NOT:   kernel.region
func.func @cluster(%x: tensor<9xf32>, %y: tensor<6xf32>) -> tensor<6xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = arith.mulf %x, %x : tensor<9xf32>
  %1 = tensor.extract_slice %0[1] [4] [2] : tensor<9xf32> to tensor<4xf32>
  %2 = tensor.pad %1 low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<4xf32> to tensor<6xf32>
  %3 = arith.addf %2, %y : tensor<6xf32>
  return %3 : tensor<6xf32>
}

// A sum reads each element of its input once, but another pass over it must not repeat the square.
// CHECK-LABEL: func.func @producer_of_a_sum
// CHECK:       kernel.region {
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    kernel.yield
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.generic
// CHECK:         kernel.yield
func.func @producer_of_a_sum(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %0 = arith.mulf %x, %x : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x8xf32>) outs(%zeros : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %2 = arith.addf %acc, %a : f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A reshape at a region's border is another name of the same memory; one between its ops is inside.
// CHECK-LABEL: func.func @reshapes
// CHECK-NEXT:  tensor.collapse_shape
// CHECK-NEXT:  kernel.region {
// CHECK-NEXT:    arith.negf
// CHECK-NEXT:    tensor.expand_shape
// CHECK-NEXT:    math.absf
// CHECK-NEXT:    kernel.yield
// CHECK-NEXT:  } -> tensor<8x3xf32>
// CHECK-NEXT:  tensor.collapse_shape
// CHECK-NEXT:  func.return
func.func @reshapes(%x: tensor<4x6xf32>) -> tensor<24xf32> {
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %1 = arith.negf %0 : tensor<24xf32>
  %2 = tensor.expand_shape %1 [[0, 1]] output_shape [8, 3] : tensor<24xf32> into tensor<8x3xf32>
  %3 = math.absf %2 : tensor<8x3xf32>
  %4 = tensor.collapse_shape %3 [[0, 1]] : tensor<8x3xf32> into tensor<24xf32>
  return %4 : tensor<24xf32>
}

// A scalar that is returned is a tensor of one element that a kernel computes.
// CHECK-LABEL: func.func @returned_scalar
// CHECK:       kernel.region {
// CHECK-NEXT:    tensor.from_elements
// CHECK-NEXT:    kernel.yield
// CHECK-NEXT:  } -> tensor<f32>
// CHECK-NEXT:  tensor.extract
func.func @returned_scalar(%x: tensor<4xf32>, %i: index) -> f32 {
  %0 = tensor.extract %x[%i] : tensor<4xf32>
  return %0 : f32
}

// There is nothing to launch: fills and arguments are left to the runtime.
// CHECK-LABEL: func.func @nothing_to_compute
// CHECK-NOT:   kernel.region
func.func @nothing_to_compute(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  return %x, %ones : tensor<4xf32>, tensor<4xf32>
}

// What nobody reads is in no kernel: it is erased, and what only it read.
// CHECK-LABEL: func.func @unread
// CHECK-NEXT:    kernel.region {
// CHECK-NEXT:      arith.addf
// CHECK-NEXT:      kernel.yield
// CHECK-NOT:   matmul
// CHECK:       return
func.func @unread(%x: tensor<4x4xf32>, %y: tensor<8x8xf32>) -> tensor<4x4xf32> {
  %0 = linalg.matmul ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%x : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = arith.negf %0 : tensor<4x4xf32>
  %2 = tensor.insert_slice %1 into %y[0, 0] [4, 4] [2, 2] : tensor<4x4xf32> into tensor<8x8xf32>
  %3 = arith.addf %x, %x : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
