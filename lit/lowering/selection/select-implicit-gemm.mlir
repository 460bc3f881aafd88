// RUN: convir-opt %s -p 'fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' --remarks 2>&1 | filecheck %s
// Contractions with dense 16-bit channels go to wgmma; the scatter behind one is its store.

// CHECK: remark: [select-kernels] {{[a-z_.]+}} implemented: sm90_implicit_gemm {{.*}}: it computes all of the kernel
// CHECK: kernel.region configs {cuda = "sm90_implicit_gemm {{[0-9]+x[0-9]+}} stages={{[0-9]+}} schedule={{[a-z]+}} store={{[0-9]+}} blocks=132"} {
// CHECK:   tensor.insert_slice
// CHECK:   kernel.yield
func.func @scatter_is_the_store(%dy: tensor<256x9x9x128xf16>, %w: tensor<128x64xf16>) -> tensor<256x18x18x64xf16> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<256x9x9x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<256x9x9x64xf32>) -> tensor<256x9x9x64xf32>
  %sums = linalg.generic {
    indexing_maps = [affine_map<(n, h, w, c, k) -> (n, h, w, k)>, affine_map<(n, h, w, c, k) -> (k, c)>, affine_map<(n, h, w, c, k) -> (n, h, w, c)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
  } ins(%dy, %w : tensor<256x9x9x128xf16>, tensor<128x64xf16>) outs(%init : tensor<256x9x9x64xf32>) {
  ^bb0(%a: f16, %b: f16, %sum: f32):
    %0 = arith.extf %a : f16 to f32
    %1 = arith.extf %b : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %sum, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<256x9x9x64xf32>
  %rounded = arith.truncf %sums : tensor<256x9x9x64xf32> to tensor<256x9x9x64xf16>
  %holes = arith.constant dense<0.0> : tensor<256x18x18x64xf16>
  %dx = tensor.insert_slice %rounded into %holes[0, 0, 0, 0] [256, 9, 9, 64] [1, 2, 2, 1] : tensor<256x9x9x64xf16> into tensor<256x18x18x64xf16>
  return %dx : tensor<256x18x18x64xf16>
}
