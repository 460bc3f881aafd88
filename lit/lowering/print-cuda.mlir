// RUN: convir-opt %s -p '' -t cuda | filecheck %s
// RUN: convir-opt %s -p '' --compile-to=planned --device=cuda | convir-opt -t cuda | filecheck %s
// RUN: convir-opt %s -p '' -t cuda | filecheck %s --check-prefix=NOGEMM
// RUN: not convir-opt %s -t cuda --compile-to=rt 2>&1 | filecheck %s --check-prefix=USAGE
// The CUDA C++ of every kernel, from tensors and from rt programs.

// One thread an element; the range is the grid's to stride over.
// CHECK:       // @main_0
// CHECK-NEXT:  #include "scalars.cuh"
// CHECK:       extern "C" __global__ void main_0(const float *__restrict__ [[X:.*]], float *__restrict__ [[Y:.*]]) {
// CHECK:         for (int [[I:.*]] = (int)blockIdx.x * blockDim.x + threadIdx.x; [[I]] < 12; [[I]] += gridDim.x * blockDim.x) {
// CHECK:           if (
// CHECK:             [[X]][
// CHECK:           [[Y]][
// NOGEMM-NOT:  main_1
// USAGE: convir-opt: error: -t cuda prints the code of kernels, not a stage
func.func @main(%x: tensor<6xf32>, %a: tensor<64x64xf32>) -> (tensor<12xf32>, tensor<64x64xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<12xf32>
  %init = arith.constant dense<0.0> : tensor<64x64xf32>
  %0 = tensor.insert_slice %x into %zeros[0] [6] [2] : tensor<6xf32> into tensor<12xf32>
  // The product is a library's, which has no text.
  %1 = linalg.matmul ins(%a, %a : tensor<64x64xf32>, tensor<64x64xf32>) outs(%init : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0, %1 : tensor<12xf32>, tensor<64x64xf32>
}
