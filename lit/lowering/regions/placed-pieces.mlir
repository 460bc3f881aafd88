// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels,outline-kernels,convert-to-rt' --split-input-file | filecheck %s
// Pieces that fill a result are computed where they belong.

// CHECK-LABEL: func.func @halves
// CHECK:       rt.view %{{.*}}[0] : memref<8x16xf32> to memref<4x16xf32>
// CHECK:       rt.view %{{.*}}[256] : memref<8x16xf32> to memref<4x16xf32>
// CHECK:       rt.launch
// CHECK:       rt.launch
// CHECK-NOT:   rt.launch
// CHECK:       func.return
func.func @halves(%x: tensor<4x16xf32>, %y: tensor<4x16xf32>) -> tensor<8x16xf32> {
  %e = tensor.empty() : tensor<8x16xf32>
  %a = arith.negf %x : tensor<4x16xf32>
  %b = math.absf %y : tensor<4x16xf32>
  %0 = tensor.insert_slice %a into %e[0, 0] [4, 16] [1, 1] : tensor<4x16xf32> into tensor<8x16xf32>
  %1 = tensor.insert_slice %b into %0[4, 0] [4, 16] [1, 1] : tensor<4x16xf32> into tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// -----

// Not so: columns of a row-major matrix are no piece of memory.
// CHECK-LABEL: func.func @columns
// CHECK-NOT:   rt.view
// CHECK:       func.return
func.func @columns(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x16xf32> {
  %e = tensor.empty() : tensor<8x16xf32>
  %a = arith.negf %x : tensor<8x8xf32>
  %b = math.absf %y : tensor<8x8xf32>
  %0 = tensor.insert_slice %a into %e[0, 0] [8, 8] [1, 1] : tensor<8x8xf32> into tensor<8x16xf32>
  %1 = tensor.insert_slice %b into %0[0, 8] [8, 8] [1, 1] : tensor<8x8xf32> into tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// -----

// Nor where a piece is read elsewhere too.
// CHECK-LABEL: func.func @read_twice
// CHECK-NOT:   rt.view
// CHECK:       func.return
func.func @read_twice(%x: tensor<4x16xf32>, %y: tensor<4x16xf32>) -> (tensor<8x16xf32>, tensor<4x16xf32>) {
  %e = tensor.empty() : tensor<8x16xf32>
  %a = arith.negf %x : tensor<4x16xf32>
  %b = math.absf %y : tensor<4x16xf32>
  %0 = tensor.insert_slice %a into %e[0, 0] [4, 16] [1, 1] : tensor<4x16xf32> into tensor<8x16xf32>
  %1 = tensor.insert_slice %b into %0[4, 0] [4, 16] [1, 1] : tensor<4x16xf32> into tensor<8x16xf32>
  return %1, %a : tensor<8x16xf32>, tensor<4x16xf32>
}

// -----

// Pieces that are reshaped before they are put together lie where they belong all the same.
// CHECK-LABEL: func.func @reshaped
// CHECK-DAG:   rt.view %{{.*}}[0] : memref<8x16xf32> to memref<4x4x4xf32>
// CHECK-DAG:   rt.view %{{.*}}[256] : memref<8x16xf32> to memref<4x4x4xf32>
// CHECK:       rt.launch
// CHECK:       rt.launch
// CHECK-NOT:   rt.launch
// CHECK:       func.return
func.func @reshaped(%x: tensor<4x4x4xf32>, %y: tensor<4x4x4xf32>) -> tensor<8x16xf32> {
  %e = tensor.empty() : tensor<8x16xf32>
  %a = arith.negf %x : tensor<4x4x4xf32>
  %b = math.absf %y : tensor<4x4x4xf32>
  %c = tensor.collapse_shape %a [[0], [1, 2]] : tensor<4x4x4xf32> into tensor<4x16xf32>
  %d = tensor.collapse_shape %b [[0], [1, 2]] : tensor<4x4x4xf32> into tensor<4x16xf32>
  %0 = tensor.insert_slice %c into %e[0, 0] [4, 16] [1, 1] : tensor<4x16xf32> into tensor<8x16xf32>
  %1 = tensor.insert_slice %d into %0[4, 0] [4, 16] [1, 1] : tensor<4x16xf32> into tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
