// Products of tiles of f32 in shared memory by warps, as three products of TF32 (mma.sync of sm_80).
//
// x = high + low, both TF32: high is x rounded to nearest, halves away from zero, low the rest, cut
// off by tensor cores. What is left of x is at most 2^-22 |x|, and low * low at most 2^-22 of a
// product: neither is multiplied. Integer units round: a conversion to TF32 takes several times as
// long.
// Tensor cores cut off what does not fit into a sum: so they add no more than 8 products of each
// kind, the smallest first, and the FMA units add those sums, rounding to nearest.
// Infinite and NaN elements, and those that round to infinity, make a sum that is not finite.
#pragma once

#include "mma/sm80_tile.cuh"

namespace convir {

// Of the last place of TF32, as bits of f32.
constexpr unsigned kHalfOfTf32 = 1 << 12;

template <int kRegisters>
__device__ __forceinline__ void split_operands(unsigned (&high)[kRegisters],
                                               unsigned (&low)[kRegisters]) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    const float x = __uint_as_float(high[i]);
    high[i] = (high[i] + kHalfOfTf32) & ~(2 * kHalfOfTf32 - 1);
    low[i] = __float_as_uint(x - __uint_as_float(high[i]));
  }
}

// As multiply_matrices, at the precision of f32.
template <class A, class B, int kBlockK, int kRows, int kCols>
__device__ __forceinline__ void multiply_split_matrices(float (&accumulators)[kRows][kCols][4],
                                                        const char* a, const char* b, int row,
                                                        int column) {
  constexpr int kPair = kCols % 2 == 0 ? 2 : 1;
#pragma unroll
  for (int k = 0; k < kBlockK; k += kReducedAtOnce<float>) {
    unsigned a_high[kRows][4], a_low[kRows][4];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      read_rows<A>(a_high[i], a, row + i * 16, k);
      split_operands(a_high[i], a_low[i]);
    }
#pragma unroll
    for (int j = 0; j < kCols; j += kPair) {
      unsigned b_high[2 * kPair], b_low[2 * kPair];
      read_columns<B>(b_high, b, column + j * 8, k);
      split_operands(b_high, b_low);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int of = 0; of < kPair; ++of) {
          float sums[4] = {};
          multiply_add<float>(sums, a_low[i], b_high[of * 2], b_high[of * 2 + 1]);
          multiply_add<float>(sums, a_high[i], b_low[of * 2], b_low[of * 2 + 1]);
          multiply_add<float>(sums, a_high[i], b_high[of * 2], b_high[of * 2 + 1]);
#pragma unroll
          for (int each = 0; each < 4; ++each) accumulators[i][j + of][each] += sums[each];
        }
      }
    }
  }
}

}  // namespace convir
