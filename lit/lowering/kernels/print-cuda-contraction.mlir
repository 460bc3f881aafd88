// RUN: convir-opt %s -p '' -t cuda --split-input-file | filecheck %s
// A contraction is one instance of a template; what follows it is a functor before the store.

// The rounding to f16, the bias of a column, relu and the residual stay in their order, with their
// roundings; the bias moves along columns, the residual lies where the result does.
// CHECK:       // @main_0
// CHECK-NEXT:  // sm80_implicit_gemm [[CONFIG:.*]]
// CHECK-NEXT:  // sm80_implicit_gemm [[CONFIG]]
// CHECK-NEXT:  #include "sm80_implicit_gemm/kernel.cuh"
// CHECK:       struct Problem {
// CHECK:         static constexpr convir::implicit_gemm::Rows<kAxes> kEpilogue[][2] = {{[{][{][{]}}0, {0, 0, 0}}, {0, {3780, 540, 60}}}};
// CHECK:         static constexpr long long kEpilogueColumn[] = {1, 1};
// CHECK:       struct Epilogue {
// CHECK-NEXT:    using Stored = __half;
// CHECK-NEXT:    static constexpr int kOperands = 2;
// CHECK-NEXT:    struct Pointers { const float* __restrict__ e0; const __half* __restrict__ e1; };
// CHECK:           const __half [[H:v.*]] = convir::narrow<__half>(convir::widen(x));
// CHECK:           const float [[W:v.*]] = convir::narrow<float>(convir::widen([[H]]));
// CHECK-NEXT:      const float [[S:v.*]] = convir::narrow<float>(convir::widen([[W]]) + convir::widen(p.e0[at[0]]));
// CHECK-NEXT:      const float [[R:v.*]] = {{.*}}convir::maximum({{.*}}[[S]]{{.*}});
// CHECK-NEXT:      const __half [[T:v.*]] = convir::narrow<__half>(convir::widen([[R]]));
// CHECK-NEXT:      const __half [[Y:v.*]] = convir::narrow<__half>(convir::widen([[T]]) + convir::widen(p.e1[at[1]]));
// CHECK-NEXT:      const auto y = [[Y]];
// CHECK:       extern "C" __global__ void
// CHECK-NEXT:  multiply(const Problem::A* a, const Problem::Other* b, Epilogue::Stored* out, const float* e0, const __half* e1) {
func.func @main(%x: tensor<2x9x9x32xf16>, %w: tensor<3x3x32x60xf16>, %bias: tensor<60xf32>, %residual: tensor<2x7x9x60xf16>) -> tensor<2x7x9x60xf16> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x7x9x60xf32>
  %f16 = tensor.empty() : tensor<2x7x9x60xf16>
  %half = arith.constant 0.0 : f16
  %padded = tensor.pad %x low[0, 0, 1, 0] high[0, 0, 1, 0] {
  ^bb0(%n: index, %p: index, %q: index, %k: index):
    tensor.yield %half : f16
  } : tensor<2x9x9x32xf16> to tensor<2x9x11x32xf16>
  %0 = linalg.generic {indexing_maps = [
      affine_map<(n,p,q,k,r,s,c) -> (n,p+r,q+s,c)>, affine_map<(n,p,q,k,r,s,c) -> (r,s,c,k)>,
      affine_map<(n,p,q,k,r,s,c) -> (n,p,q,k)>],
      iterator_types = ["parallel","parallel","parallel","parallel",
                        "reduction","reduction","reduction"]}
      ins(%padded, %w : tensor<2x9x11x32xf16>, tensor<3x3x32x60xf16>) outs(%zeros : tensor<2x7x9x60xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %1 = arith.extf %a : f16 to f32
    %2 = arith.extf %b : f16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %o, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2x7x9x60xf32>
  %5 = arith.truncf %0 : tensor<2x7x9x60xf32> to tensor<2x7x9x60xf16>
  %6 = linalg.generic {indexing_maps = [
      affine_map<(n,p,q,k) -> (n,p,q,k)>, affine_map<(n,p,q,k) -> (k)>, affine_map<(n,p,q,k) -> (n,p,q,k)>],
      iterator_types = ["parallel","parallel","parallel","parallel"]}
      ins(%5, %bias : tensor<2x7x9x60xf16>, tensor<60xf32>) outs(%f16 : tensor<2x7x9x60xf16>) {
  ^bb0(%a: f16, %b: f32, %o: f16):
    %7 = arith.extf %a : f16 to f32
    %8 = arith.addf %7, %b : f32
    %9 = arith.maximumf %8, %zero : f32
    %10 = arith.truncf %9 : f32 to f16
    linalg.yield %10 : f16
  } -> tensor<2x7x9x60xf16>
  %11 = arith.addf %6, %residual : tensor<2x7x9x60xf16>
  func.return %11 : tensor<2x7x9x60xf16>
}

// -----

// A sum that an argument begins is read before the store; holes take what follows of a zero.
// CHECK:       // @main_0
// CHECK:       // sm80_implicit_gemm
// CHECK:         static constexpr int kPhases = 2;
// CHECK:       static __device__ __forceinline__ Stored apply(float x
// CHECK-NEXT:    const float v0 = convir::narrow<float>(convir::widen(x) + convir::widen(convir::from_bits<float>(0x3f800000ull)));
// CHECK:       static __device__ __forceinline__ Stored zero_fill(
// CHECK-NEXT:    const float v0 = convir::narrow<float>(convir::widen(convir::from_bits<float>(0x0ull)) + convir::widen(convir::from_bits<float>(0x3f800000ull)));
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<16x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<8x4xf32>
  %holes = arith.constant dense<0.0> : tensor<16x4xf32>
  %ones = arith.constant dense<1.0> : tensor<16x4xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>) outs(%zeros : tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = tensor.insert_slice %0 into %holes[1, 0] [8, 4] [2, 1] : tensor<8x4xf32> into tensor<16x4xf32>
  %2 = arith.addf %1, %ones : tensor<16x4xf32>
  func.return %2 : tensor<16x4xf32>
}

// -----

// CHECK:       // @main_0
// CHECK:       // sm80_implicit_gemm
// CHECK:         kEpilogue[][1] = {{[{][{][{]}}0, {4}}}};
// CHECK:       static __device__ __forceinline__ Stored apply(float x
// CHECK-NEXT:    const float v0 = convir::narrow<float>(convir::widen(x) + convir::widen(p.e0[at[0]]));
// CHECK-NEXT:    const auto y = v0;
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %init: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>) outs(%init : tensor<8x4xf32>) -> tensor<8x4xf32>
  func.return %0 : tensor<8x4xf32>
}
