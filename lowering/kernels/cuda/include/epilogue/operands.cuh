// Where an epilogue finds the elements of its operands: at the result's own offset, or at its
// channel.
//
// Operands (generated, lowering/kernels/cuda/epilogue_operands.py):
//   kCount               how many there are
//   kFollowsResult[i]    operand i has an element for every element of the result, at its offset
//   kOffset[i], kChannel[i]   else it has one for every channel, or one for all
//   Run<n>, run<n>(pointers, element, channel)   their elements for n adjacent channels, 2, 4 or 8
//                        from a multiple of n on; an epilogue reads at `pointers()` of a run
//   kRow, row(pointers)  an operand of 16 bits that follows a result of 16 bits whose channels are
//                        neighbours, which kernels may load a row at a time; -1 if there is none.
//                        `put_row(bits)` of a run replaces its elements
#pragma once

#include "load/vectors.cuh"

namespace convir {

template <class Operands>
struct OperandPlaces {
  long long at[Operands::kCount > 0 ? Operands::kCount : 1];

  // `element` of the result, which is of channel `channel`.
  __device__ __forceinline__ OperandPlaces(long long element, int channel) {
#pragma unroll
    for (int i = 0; i < Operands::kCount; ++i) {
      at[i] = Operands::kFollowsResult[i] ? element
                                          : Operands::kOffset[i] + Operands::kChannel[i] * channel;
    }
  }
};

// Loads of what no thread of the kernel writes before it is read: they may be moved past stores.
template <class T, int kCount>
__device__ __forceinline__ void load_apart(T (&to)[kCount], const T* from, int stride) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = __ldg(from + i * stride);
}
template <class T, int kCount>
__device__ __forceinline__ void load_contiguous(T (&to)[kCount], const T* from) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  constexpr int kAtOnce = kBytes < 16 ? kBytes : 16;
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    using Bits = typename Word<kAtOnce>::Type;
#pragma unroll
    for (int i = 0; i < kBytes / kAtOnce; ++i) {
      const Bits bits = __ldg(reinterpret_cast<const Bits*>(from) + i);
      memcpy(to + i * (kAtOnce / static_cast<int>(sizeof(T))), &bits, sizeof(bits));
    }
  } else {
    load_apart(to, from, 1);
  }
}
// Elements of an operand that has one for every channel, or one for all.
template <long long kOffset, long long kStride, class T, int kCount>
__device__ __forceinline__ void load_channels(T (&to)[kCount], const T* from, int channel) {
  if constexpr (kStride == 1 && kOffset % kCount == 0) {
    load_contiguous(to, from + (kOffset + channel));
  } else {
    load_apart(to, from + (kOffset + kStride * channel), kStride);
  }
}
// What is stored for accumulators, or in as many elements of a zero-filled output, given their run of
// operands.
template <class Epilogue, int kRun, class Run>
__device__ __forceinline__ void finish_run(typename Epilogue::Stored (&to)[kRun],
                                           const float (&sums)[kRun], const Run& run,
                                           bool is_zero_fill) {
  const typename Epilogue::Pointers pointers = run.pointers();
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    long long at[Run::kCount > 0 ? Run::kCount : 1];
#pragma unroll
    for (int j = 0; j < (Run::kCount > 0 ? Run::kCount : 1); ++j) at[j] = i;
    to[i] = is_zero_fill ? Epilogue::zero_fill(pointers, at)
                         : Epilogue::apply(sums[i], pointers, at);
  }
}

}  // namespace convir
