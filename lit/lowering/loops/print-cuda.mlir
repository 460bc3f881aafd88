// RUN: convir-opt %s -p '' -t cuda | filecheck %s
// RUN: convir-opt %s -p '' --compile-to=planned --device=cuda | convir-opt -t cuda | filecheck %s
// RUN: convir-opt %s -p '' -t cuda | filecheck %s --check-prefix=NOGEMM
// RUN: not convir-opt %s -t cuda --compile-to=rt 2>&1 | filecheck %s --check-prefix=USAGE
// The CUDA C++ of every kernel, from tensors and from rt programs.

// Four elements a thread. Which of them are holes is known.
// CHECK:       // @main_0
// CHECK-NEXT:  // 4 elements a thread, 16 bytes
// CHECK-NEXT:  #include "arith/scalars.cuh"
// CHECK-NEXT:  #include "load/vectors.cuh"
// CHECK:       extern "C" __global__ void loops(const float *__restrict__ [[X:p0]], float *__restrict__ [[Y:p1]], const long long size) {
// CHECK:         const int range = size;
// CHECK:         const float [[ZERO:v[0-9]+]] = convir::from_bits<float>(0x0ull);
// CHECK:         if (const int [[I:i[0-9]+]] = (int)blockIdx.x * 128 + (int)threadIdx.x; [[I]] < range) {
// CHECK:           convir::Vector<float, 2> [[PAIR:v[0-9]+]] = convir::load<2>([[X]] + {{.*}});
// CHECK:           [[V:v[0-9]+]][0] = [[PAIR]][0];
// CHECK-NEXT:      [[V]][1] = [[ZERO]];
// CHECK-NEXT:      [[V]][2] = [[PAIR]][1];
// CHECK-NEXT:      [[V]][3] = [[ZERO]];
// CHECK-NEXT:      convir::store([[Y]] + {{.*}}, [[V]]);
// NOGEMM-NOT:  @main_1
// USAGE: convir-opt: error: -t cuda prints the code of kernels, not a stage
func.func @main(%x: tensor<6xf32>, %a: tensor<100352x256xf64>, %b: tensor<256x64xf64>) -> (tensor<12xf32>, tensor<100352x64xf64>) {
  %zeros = arith.constant dense<0.0> : tensor<12xf32>
  %init = arith.constant dense<0.0> : tensor<100352x64xf64>
  %0 = tensor.insert_slice %x into %zeros[0] [6] [2] : tensor<6xf32> into tensor<12xf32>
  // The product is a library's, which has no text.
  %1 = linalg.matmul ins(%a, %b : tensor<100352x256xf64>, tensor<256x64xf64>) outs(%init : tensor<100352x64xf64>) -> tensor<100352x64xf64>
  return %0, %1 : tensor<12xf32>, tensor<100352x64xf64>
}
