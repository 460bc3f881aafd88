// Results of split f32 that are not finite, computed again by multiply-adds in IEEE arithmetic.
//
// An element of f32 that is infinite, NaN, or rounds to infinity in TF32 makes every sum that it
// belongs to infinite or NaN, though not always what IEEE arithmetic gives: inf * (high + low) is
// inf - inf where low is negative.
#pragma once

#include "load/contraction_addresses.cuh"

namespace convir {
namespace implicit_gemm {

// One element of the product over [begin, end) of the reduction; stops at NaN, which stays.
template <class P>
__device__ __forceinline__ float ieee_sum(const float* a, const float* b, int phase, int row,
                                          int column, int begin, int end) {
  const ASource<P, 1> rows{phase, a};
  const OtherSource<P, 1> out_channels{phase, b};
  const auto of_row = rows.fixed(row);
  const auto of_column = out_channels.fixed(column);
  float sum = 0.0f;
#pragma unroll 1
  for (int k = begin; k < end && !isnan(sum); ++k) {
    bool a_inside, b_inside;
    const float* x = rows.find(of_row, rows.walk(k).at(0), a_inside);
    const float* y = out_channels.find(of_column, out_channels.walk(k).at(0), b_inside);
    sum = fmaf(a_inside ? *x : 0.0f, b_inside ? *y : 0.0f, sum);
  }
  return sum;
}

// Whether any of some accumulators is infinite or NaN.
template <int kRows, int kCols, int kEach>
__device__ __forceinline__ bool has_not_finite(const float (&accumulators)[kRows][kCols][kEach]) {
  float zero = 0.0f;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) zero = fmaf(accumulators[i][j][k], 0.0f, zero);
    }
  }
  return isnan(zero);
}

}  // namespace implicit_gemm
}  // namespace convir
