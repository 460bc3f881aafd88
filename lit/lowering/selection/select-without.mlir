// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{device=cuda without=template}' | filecheck %s
// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' | filecheck %s --check-prefix=ALL
// RUN: not convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{device=cuda without=scatter}' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// Without templates a contraction is a library call; the rounding behind it belongs to that call.

// UNKNOWN: error: 'scatter' is not an implementation for cuda

#id = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: func.func @rounded_and_stored
// CHECK:         kernel.region configs {cuda = "gemm"} {
// CHECK-NEXT:      linalg.generic
// CHECK:           linalg.generic
// CHECK:             arith.truncf
// CHECK:         kernel.region configs {cuda = "loops"} {
// CHECK-NEXT:      tensor.insert_slice
// ALL-LABEL:   func.func @rounded_and_stored
// ALL:           kernel.region configs {cuda = "sm90_implicit_gemm
// ALL:             tensor.insert_slice
func.func @rounded_and_stored(%x: tensor<64x64xf16>, %w: tensor<64x64xf16>) -> tensor<128x64xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<64x64xf16>, tensor<64x64xf16>) outs(%zeros : tensor<64x64xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %p = arith.extf %a : f16 to f32
    %q = arith.extf %b : f16 to f32
    %r = arith.mulf %p, %q : f32
    %s = arith.addf %o, %r : f32
    linalg.yield %s : f32
  } -> tensor<64x64xf32>
  %f = tensor.empty() : tensor<64x64xf16>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<64x64xf32>) outs(%f : tensor<64x64xf16>) {
  ^bb0(%a: f32, %o: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<64x64xf16>
  %holes = arith.constant dense<0.0> : tensor<128x64xf16>
  %2 = tensor.insert_slice %1 into %holes[0, 0] [64, 64] [2, 1] : tensor<64x64xf16> into tensor<128x64xf16>
  return %2 : tensor<128x64xf16>
}

// What is not a matrix product becomes loops.
// CHECK-LABEL: func.func @windows
// CHECK:         kernel.region configs {cuda = "loops"} {
// ALL-LABEL:   func.func @windows
// ALL:           kernel.region configs {cuda = "sm80_implicit_gemm
func.func @windows(%x: tensor<66x4xf32>, %w: tensor<3x4x4xf32>) -> tensor<64x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<64x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(p, n, t, k) -> (p + t, k)>, affine_map<(p, n, t, k) -> (t, k, n)>,
      affine_map<(p, n, t, k) -> (p, n)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<66x4xf32>, tensor<3x4x4xf32>) outs(%zeros : tensor<64x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    %s = arith.addf %o, %r : f32
    linalg.yield %s : f32
  } -> tensor<64x4xf32>
  return %0 : tensor<64x4xf32>
}
