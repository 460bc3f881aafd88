// RUN: convir-opt %s -p 'batch-gemms{costs="%h200-costs"},form-kernel-regions,select-kernels{device=cuda without=template},outline-kernels,convert-to-rt{device=cuda}' | filecheck %s
// RUN: convir-opt %s -p 'batch-gemms,form-kernel-regions,select-kernels,outline-kernels,convert-to-rt' | filecheck %s --check-prefix=HOST

// A stack of matrices times one shared matrix. Its rows lie behind each other: one product of all.
// CHECK-LABEL: func.func @rows
// CHECK:       rt.gemm {m = 512 : i64, n = 16 : i64, k = 144 : i64, batch = 1 : i64, lda = 144 : i64, ldb = 16 : i64, ldc = 16 : i64,
// CHECK-NOT:   rt.gemm
// HOST-LABEL:  func.func @rows
// HOST-COUNT-1: rt.launch
func.func @rows(%x: tensor<8x64x144xf32>, %w: tensor<144x16xf32>) -> tensor<8x64x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64x16xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<8x64x16xf32>) -> tensor<8x64x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8x64x144xf32>, tensor<144x16xf32>) outs(%i : tensor<8x64x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x64x16xf32>
  return %y : tensor<8x64x16xf32>
}

// The shared matrix on the left: one call for all, in which its stride is 0.
// CHECK-LABEL: func.func @columns
// CHECK:       rt.gemm {m = 16 : i64, n = 64 : i64, k = 144 : i64, batch = 8 : i64, lda = 144 : i64, ldb = 64 : i64, ldc = 64 : i64, stride_a = 0 : i64, stride_b = 9216 : i64, stride_c = 1024 : i64}
// CHECK-NOT:   rt.gemm
// HOST-LABEL:  func.func @columns
// HOST-COUNT-1: rt.launch
func.func @columns(%x: tensor<8x144x64xf32>, %w: tensor<16x144xf32>) -> tensor<8x16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16x64xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16x64xf32>) -> tensor<8x16x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (m, k)>, affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %x : tensor<16x144xf32>, tensor<8x144x64xf32>) outs(%i : tensor<8x16x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x16x64xf32>
  return %y : tensor<8x16x64xf32>
}
