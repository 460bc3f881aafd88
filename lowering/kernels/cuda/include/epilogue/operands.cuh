// Where an epilogue finds the elements of its operands: at the result's own offset, or at its
// channel.
//
// Operands (generated, lowering/kernels/cuda/epilogue_operands.py):
//   kCount               how many there are
//   kFollowsResult[i]    operand i has an element for every element of the result, at its offset
//   kOffset[i], kChannel[i]   else it has one for every channel, or one for all
//   Pair, pair(pointers, element, channel)   their elements for two adjacent channels, from an
//                        even one; `pointers()` of a pair are what an epilogue reads at 0 and 1
#pragma once

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
template <class T>
__device__ __forceinline__ void load_apart(T (&to)[2], const T* from, int stride) {
  to[0] = __ldg(from);
  to[1] = __ldg(from + stride);
}
template <class T>
__device__ __forceinline__ void load_contiguous(T (&to)[2], const T* from) {
  if constexpr (sizeof(T) == 2) {
    const unsigned word = __ldg(reinterpret_cast<const unsigned*>(from));
    memcpy(to, &word, sizeof(word));
  } else if constexpr (sizeof(T) == 4) {
    const uint2 words = __ldg(reinterpret_cast<const uint2*>(from));
    memcpy(to, &words, sizeof(words));
  } else {
    load_apart(to, from, 1);
  }
}
// What is stored for two accumulators, or in two elements of a zero-filled output, from channel
// `channel` of `element` on.
template <class Epilogue, class Operands>
__device__ __forceinline__ void finish_pair(typename Epilogue::Stored (&to)[2], float low,
                                            float high, const typename Epilogue::Pointers& operands,
                                            long long element, int channel, bool is_zero_fill) {
  constexpr int kCount = Operands::kCount > 0 ? Operands::kCount : 1;
  const auto pair = Operands::pair(operands, element, channel);
  const typename Epilogue::Pointers pointers = pair.pointers();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    long long at[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) at[j] = i;
    to[i] = is_zero_fill ? Epilogue::zero_fill(pointers, at)
                    : Epilogue::apply(i == 0 ? low : high, pointers, at);
  }
}

}  // namespace convir
