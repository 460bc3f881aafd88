// RUN: convir-opt %s -p fuse-epilogue | filecheck %s
// RUN: convir-opt %s -p fuse-epilogue --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// What a contraction stores through.

#id = affine_map<(i, j) -> (i, j)>
#swapped = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>

// A contraction takes the elementwise op that reads each of its elements once.
// REMARK: linalg.matmul rewritten: it is stored through arith.negf
// CHECK-LABEL: func.func @epilogue
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.matmul
// CHECK-NEXT:    arith.negf
// CHECK-NEXT:    kernel.yield
// CHECK-NOT:   kernel.region
func.func @epilogue(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = arith.negf %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// Two contractions that an addition joins: it is the epilogue of the first, and reads the second.
// REMARK: linalg.matmul rewritten: it is stored through arith.addf
// REMARK: linalg.matmul not rewritten: arith.addf follows another contraction, and reads this one's result
// CHECK-LABEL: func.func @residual
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.matmul ins(%x, %v
// CHECK-NEXT:    kernel.yield
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.matmul ins(%x, %w
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    kernel.yield
func.func @residual(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %v: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.matmul ins(%x, %v : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = arith.addf %0, %1 : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// Two readers: the product is computed once, and read from memory.
// REMARK: linalg.matmul not rewritten: its result is read 2 times
// CHECK-LABEL: func.func @two_readers
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.matmul
// CHECK-NEXT:    kernel.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  arith.negf
func.func @two_readers(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = arith.negf %0 : tensor<4x6xf32>
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}

// All phases of one backward data convolution are one launch.
// REMARK: linalg.matmul rewritten: it is stored through 2 tensor.insert_slice
// REMARK: linalg.matmul rewritten: it is stored through tensor.insert_slice
// CHECK-LABEL: func.func @phases
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.matmul
// CHECK-NEXT:    linalg.matmul
// CHECK-NEXT:    tensor.insert_slice
// CHECK-NEXT:    tensor.insert_slice
// CHECK-NEXT:    kernel.yield
// CHECK-NOT:   kernel.region
func.func @phases(%x: tensor<4x8xf32>, %w0: tensor<8x6xf32>, %w1: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<8x6xf32>
  %init = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w0 : tensor<4x8xf32>, tensor<8x6xf32>) outs(%init : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.matmul ins(%x, %w1 : tensor<4x8xf32>, tensor<8x6xf32>) outs(%init : tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = tensor.insert_slice %0 into %zeros[0, 0] [4, 6] [2, 1] : tensor<4x6xf32> into tensor<8x6xf32>
  %3 = tensor.insert_slice %1 into %2[1, 0] [4, 6] [2, 1] : tensor<4x6xf32> into tensor<8x6xf32>
  return %3 : tensor<8x6xf32>
}

// A permuted tile is not stored: the transposition stays outside.
// REMARK: linalg.matmul not rewritten: linalg.generic rearranges its result
// CHECK-LABEL: func.func @rearranged
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.matmul
// CHECK-NEXT:    kernel.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  linalg.generic
func.func @rearranged(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<6x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %e = tensor.empty() : tensor<6x4xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.generic {indexing_maps = [#swapped, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x6xf32>) outs(%e : tensor<6x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}

// A reshape between a contraction and its epilogue comes along; one at the border stays outside.
// REMARK: linalg.matmul rewritten: it is stored through arith.negf
// CHECK-LABEL: func.func @reshaped
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.matmul
// CHECK-NEXT:    tensor.collapse_shape
// CHECK-NEXT:    arith.negf
// CHECK-NEXT:    kernel.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  tensor.expand_shape
func.func @reshaped(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<6x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %2 = arith.negf %1 : tensor<24xf32>
  %3 = tensor.expand_shape %2 [[0, 1]] output_shape [6, 4] : tensor<24xf32> into tensor<6x4xf32>
  return %3 : tensor<6x4xf32>
}

// What multiplies the product again is a contraction of its own.
// REMARK: linalg.matmul not rewritten: linalg.matmul reads its result many times
// CHECK-LABEL: func.func @chain
// CHECK:       kernel.region
// CHECK:       kernel.region
func.func @chain(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %v: tensor<6x6xf32>) -> tensor<4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.matmul ins(%0, %v : tensor<4x6xf32>, tensor<6x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// A reader whose own result nobody reads keeps nothing from joining.
// CHECK-LABEL: func.func @unread_reader
// CHECK-NEXT:    %{{.*}} = arith.constant
// CHECK-NEXT:    kernel.region {
// CHECK-NEXT:      linalg.matmul
// CHECK-NEXT:      arith.negf
// CHECK-NEXT:      kernel.yield
func.func @unread_reader(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = arith.addf %0, %0 : tensor<4x6xf32>
  %2 = arith.negf %0 : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// A pool reads any constant around its windows.
// CHECK-LABEL: func.func @padded_pool
// CHECK:       kernel.region {
// CHECK:         tensor.pad
// CHECK:         linalg.generic
// CHECK-NEXT:    ^
// CHECK-NEXT:      arith.maximumf
// CHECK:         kernel.yield
// CHECK-NOT:   kernel.region
func.func @padded_pool(%x: tensor<9xf32>) -> tensor<5xf32> {
  %least = arith.constant 0xff800000 : f32
  %window = tensor.empty() : tensor<3xf32>
  %first = arith.constant dense<0xff800000> : tensor<5xf32>
  %0 = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %least : f32
  } : tensor<9xf32> to tensor<11xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i * 2 + j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%0, %window : tensor<11xf32>, tensor<3xf32>) outs(%first : tensor<5xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<5xf32>
  return %1 : tensor<5xf32>
}

// A contraction does not: its kernels have zeros beside their operands.
// CHECK-LABEL: func.func @padded_by_ones
// CHECK:       tensor.pad
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.generic
func.func @padded_by_ones(%x: tensor<9xf32>, %w: tensor<3xf32>) -> tensor<5xf32> {
  %one = arith.constant 1.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<5xf32>
  %0 = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %one : f32
  } : tensor<9xf32> to tensor<11xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i * 2 + j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%0, %w : tensor<11xf32>, tensor<3xf32>) outs(%zeros : tensor<5xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %m, %c : f32
    linalg.yield %s : f32
  } -> tensor<5xf32>
  return %1 : tensor<5xf32>
}
