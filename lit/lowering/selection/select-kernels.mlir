// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' --remarks 2>&1 | filecheck %s --check-prefixes=CHECK,CUDA
// RUN: convir-opt %s -p fuse-epilogue,form-kernel-regions,select-kernels --remarks 2>&1 | filecheck %s --check-prefixes=CHECK,HOST
// Who computes a region, and why.

// A template stores the product and what follows in one launch; on the host that is a kernel of its own.
// CUDA:        select-kernels.mlir:{{[0-9]+}}:8: remark: [select-kernels] {{[a-z_.]+}} implemented: sm80_implicit_gemm {{.*}} for cuda (tensor<64x64xf32>): it computes all of the kernel; predicted {{[0-9.]+}} µs; not gemm: it is not a linalg structured op
// HOST:        remark: [select-kernels] {{[a-z_.]+}} implemented: implicit-gemm for host (tensor<64x64xf32>): it computes all of the kernel; predicted {{[0-9.]+}} µs, loops {{[0-9.]+}} µs; not planar: {{.*}}; not gemm: it is not a linalg structured op
// CUDA-NEXT:   remark: [select-kernels] {{[a-z_.]+}} implemented: sm80_implicit_gemm {{.*}} for cuda (tensor<4x6xf32>): it computes all of the kernel; predicted {{[0-9.]+}} µs, gemm {{[0-9.]+}} µs; not few_output_channels:
// CUDA-NEXT:   remark: [select-kernels] {{[a-z_.]+}} implemented: loops for cuda (tensor<64x64xi32>): not gemm: it accumulates in i32; not template: it multiplies other integers than bytes
// HOST:        remark: [select-kernels] {{[a-z_.]+}} implemented: loops for host (tensor<64x64xi32>): it computes all of the kernel; predicted {{[0-9.]+}} µs; not planar: {{.*}}; not implicit-gemm: {{.*}}; not gemm: the host's BLAS has no i32
// CUDA:        remark: [select-kernels] {{[a-z_.]+}} implemented: loops for cuda (tensor<4xf32>): it holds no contraction
// HOST:        remark: [select-kernels] {{[a-z_.]+}} implemented: loops for host (tensor<4xf32>): it computes all of the kernel; predicted {{[0-9.]+}} µs; not planar
// CHECK-LABEL: func.func @epilogue
// CUDA:        kernel.region configs {cuda = "sm80_implicit_gemm {{[0-9]+x[0-9]+x[0-9]+}} stages={{[0-9]+}} threads={{[0-9]+x[0-9]+}}"} {
// CUDA-NEXT:     linalg.matmul
// CUDA-NEXT:     arith.negf
func.func @epilogue(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<64x64xf32>

  %0 = linalg.matmul ins(%x, %w : tensor<64x64xf32>, tensor<64x64xf32>) outs(%zeros : tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = arith.negf %0 : tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}

// CHECK-LABEL: func.func @too_small
// CUDA:        kernel.region configs {cuda = "sm80_implicit_gemm {{.*}}"} {
func.func @too_small(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @integers
// CHECK:       kernel.region configs {{{.*}} = "loops"} {
func.func @integers(%x: tensor<64x64xi32>, %w: tensor<64x64xi32>) -> tensor<64x64xi32> {
  %zeros = arith.constant dense<0> : tensor<64x64xi32>
  %0 = linalg.matmul ins(%x, %w : tensor<64x64xi32>, tensor<64x64xi32>) outs(%zeros : tensor<64x64xi32>) -> tensor<64x64xi32>
  return %0 : tensor<64x64xi32>
}

// CHECK-LABEL: func.func @no_contraction
// CHECK:       kernel.region configs {{{.*}} = "loops"} {
func.func @no_contraction(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A config that is there already is a decision; that of the other device is kept.
// CHECK-LABEL: func.func @chosen_by_hand
// CUDA:        kernel.region configs {cuda = "mine", host = "theirs"} {
// HOST:        kernel.region configs {cuda = "mine", host = "theirs"} {
func.func @chosen_by_hand(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.region configs {cuda = "mine", host = "theirs"} {
    %0 = arith.negf %x : tensor<4xf32>
    kernel.yield %0 : tensor<4xf32>
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
