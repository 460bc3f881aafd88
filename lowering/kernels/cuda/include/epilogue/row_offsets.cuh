// Where a row of an implicit GEMM is stored, and where its epilogue reads.
#pragma once

#include "load/contraction_addresses.cuh"

namespace convir {
namespace implicit_gemm {

// The element of the result in a row of the product, and of each operand of the epilogue.
template <class P, class E>
struct RowOffsets {
  static constexpr int kOperands = E::kOperands;
  long long out;
  long long of[kOperands > 0 ? kOperands : 1];

  __device__ __forceinline__ void find(int phase, int group, int row) {
    if constexpr (P::kComputesB) {
      out = tap<P>(phase, row).weight + P::kBGroup * group;
#pragma unroll
      for (int i = 0; i < kOperands; ++i) of[i] = out;
    } else {
      out = out_offset<P, long long>(phase, row) + P::kCGroup * group;
#pragma unroll
      for (int i = 0; i < kOperands; ++i) {
        of[i] = epilogue_row<P>(phase, i, row) + P::kEpilogueGroup[i] * group;
      }
    }
  }
};

}  // namespace implicit_gemm
}  // namespace convir
