// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{target=x86-64-v3}' --remarks 2>&1 | filecheck %s
// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{target=x86-64-v3 without=implicit-gemm}' | filecheck %s --check-prefix=WITHOUT
// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{target=x86-64-v3 without=loops}' | filecheck %s --check-prefix=NOLOOPS
// RUN: not convir-opt %s -p 'select-kernels{target=pentium}' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not convir-opt %s -p 'select-kernels{device=cuda target=x86-64-v3}' 2>&1 | filecheck %s --check-prefix=CPU
// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{device=cuda target=h200}' | filecheck %s --check-prefix=GPU
// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{device=cuda gpu="sm_90a:132:232448:NVIDIA H200"}' 2>&1 | filecheck %s --check-prefixes=OLD,GPU
// On the host the least predicted time decides, as on GPUs; families, a library and plain loops are compared.

// UNKNOWN: error: unknown CPU target 'pentium': one of x86-64, x86-64-v3, x86-64-v4, x86-64-v4-bf16, x86-64-v4-amx, host
// CPU:     error: unknown GPU target 'x86-64-v3': one of h200, {{.*}}, or ARCH:MULTIPROCESSORS:SHARED_BYTES[:NAME]
// OLD:     option 'gpu=...' is an older spelling of 'target=...'
// GPU:     kernel.region configs {cuda = "

// CHECK:     remark: [select-kernels] {{[a-z_.]+}} implemented: implicit-gemm for host (tensor<64x64xf32>): it computes all of the kernel; predicted {{[0-9.]+}} µs, gemm {{[0-9.]+}} µs; not planar
// CHECK:     remark: [select-kernels] {{[a-z_.]+}} implemented: loops for host (tensor<2x2xf32>): it computes all of the kernel; predicted {{[0-9.]+}} µs, implicit-gemm {{[0-9.]+}} µs; not planar
// CHECK:     remark: [select-kernels] {{[a-z_.]+}} implemented: implicit-gemm for host (tensor<64x64xf32>): it computes the contraction; predicted {{[0-9.]+}} µs, gemm {{[0-9.]+}} µs; not planar
// CHECK-NOT: not loops
// CHECK:     remark: [select-kernels] {{[a-z_.]+}} implemented: loops for host (tensor<64xf32>): the epilogue of a contraction; predicted {{[0-9.]+}} µs for both, loops {{[0-9.]+}} µs for all; not planar
// CHECK:     remark: [select-kernels] {{[a-z_.]+}} implemented: loops for host (tensor<2xf32>): it computes all of the kernel; predicted {{[0-9.]+}} µs; not planar

// CHECK-LABEL:   func.func @product
// CHECK:           kernel.region configs {host = "implicit-gemm"} {
// WITHOUT-LABEL: func.func @product
// WITHOUT:         kernel.region configs {host = "gemm"} {
func.func @product(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<64x64xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<64x64xf32>, tensor<64x64xf32>) outs(%zeros : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

// So little that tables and panels take longer than the sums.
// CHECK-LABEL:   func.func @small_product
// CHECK:           kernel.region configs {host = "loops"} {
// NOLOOPS-LABEL: func.func @small_product
// NOLOOPS:         kernel.region configs {host = "implicit-gemm"} {
func.func @small_product(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x2xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<2x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// What no tile stores: loops for all of it take longer than a family and loops for the rest.
// CHECK-LABEL: func.func @product_and_sums
// CHECK:         kernel.region configs {host = "implicit-gemm"} {
// CHECK-NEXT:      linalg.matmul
// CHECK:         kernel.region configs {host = "loops"} {
// CHECK-NEXT:      linalg.generic
func.func @product_and_sums(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<64x64xf32>
  %z = arith.constant dense<0.0> : tensor<64xf32>
  %sums = kernel.region {
    %0 = linalg.matmul ins(%x, %w : tensor<64x64xf32>, tensor<64x64xf32>) outs(%zeros : tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<64x64xf32>) outs(%z : tensor<64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %o : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    kernel.yield %1 : tensor<64xf32>
  } -> tensor<64xf32>
  return %sums : tensor<64xf32>
}

// The same of so little that a second launch takes longer.
// CHECK-LABEL: func.func @small_product_and_sums
// CHECK:         kernel.region configs {host = "loops"} {
// CHECK-NEXT:      linalg.matmul
// CHECK-NEXT:      linalg.generic
func.func @small_product_and_sums(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x2xf32>
  %z = arith.constant dense<0.0> : tensor<2xf32>
  %sums = kernel.region {
    %0 = linalg.matmul ins(%x, %w : tensor<2x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<2x2xf32>) -> tensor<2x2xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<2x2xf32>) outs(%z : tensor<2xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %o : f32
      linalg.yield %s : f32
    } -> tensor<2xf32>
    kernel.yield %1 : tensor<2xf32>
  } -> tensor<2xf32>
  return %sums : tensor<2xf32>
}
