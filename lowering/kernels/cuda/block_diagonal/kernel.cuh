// Weights of groups as those of one: lines of a group stand in longer lines, between zeros.
// `Problem` is a struct of constants that lowering/kernels/cuda/block_diagonal/family.py writes.
#pragma once

#include "load/vectors.cuh"

namespace convir {

template <class P>
__device__ __forceinline__ void pack_groups(const typename Word<P::kBytes>::Type *__restrict__ from,
                                             typename Word<P::kBytes>::Type *__restrict__ to) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  constexpr int kLine = P::kGroups * P::kRun;
  if (i >= P::kLines * kLine) return;
  const int line = i / kLine, column = i % kLine;
  const int group = line / (P::kLines / P::kGroups);
  const bool own = column / P::kRun == group;
  to[i] = own ? from[line * P::kRun + column % P::kRun] : typename Word<P::kBytes>::Type{};
}

}  // namespace convir
