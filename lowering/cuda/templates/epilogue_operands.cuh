// Where an epilogue finds the elements of its operands: at the result's own offset, or at its channel.
//
// Operands (generated, lowering/cuda/contraction/linear_operands.py):
//   kCount               how many there are
//   kFollowsResult[i]    operand i has an element for every element of the result, at its offset
//   kOffset[i], kChannel[i]   else it has one for every channel, or one for all
//   kFollows             whether an operand does
//   for_each_row(pointers, element, body)   body(operand + element) for each that does
//   Few<n>, few<n>(pointers, element, channel)   their elements for n neighbouring channels, from a
//                        multiple of n on; `pointers()` of them are what an epilogue reads at 0 to n
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
template <class Word, class T, int kCount>
__device__ __forceinline__ void load_words(T (&to)[kCount], const T* from) {
  constexpr int kWords = sizeof(to) / sizeof(Word);
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const Word word = __ldg(reinterpret_cast<const Word*>(from) + i);
    memcpy(reinterpret_cast<Word*>(to) + i, &word, sizeof(word));
  }
}
template <class T, int kCount>
__device__ __forceinline__ void load_neighbours(T (&to)[kCount], const T* from) {
  if constexpr (sizeof(to) % 16 == 0) {
    load_words<uint4>(to, from);
  } else if constexpr (sizeof(to) % 8 == 0) {
    load_words<uint2>(to, from);
  } else if constexpr (sizeof(to) % 4 == 0) {
    load_words<unsigned>(to, from);
  } else {
    load_words<unsigned short>(to, from);
  }
}
// The elements of channels: kOffset + kStride * channel, and what follows.
template <long long kOffset, long long kStride, class T, int kCount>
__device__ __forceinline__ void load_channels(T (&to)[kCount], const T* from, int channel) {
  if constexpr (kStride == 1 && kOffset % kCount == 0) {
    load_neighbours(to, from + (kOffset + channel));
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = __ldg(from + (kOffset + kStride * (channel + i)));
  }
}

// What is stored for a few sums, or in as many elements of a hole, from channel `channel` of
// `element` on.
template <class Epilogue, class Operands, int kCount>
__device__ __forceinline__ void finish(typename Epilogue::Stored (&to)[kCount],
                                       const float (&sums)[kCount],
                                       const typename Epilogue::Pointers& operands,
                                       long long element, int channel, bool is_hole) {
  const auto few = Operands::template few<kCount>(operands, element, channel);
  const typename Epilogue::Pointers pointers = few.pointers();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    long long at[Operands::kCount > 0 ? Operands::kCount : 1];
#pragma unroll
    for (int j = 0; j < Operands::kCount; ++j) at[j] = i;
    to[i] = is_hole ? Epilogue::hole(pointers, at) : Epilogue::apply(sums[i], pointers, at);
  }
}

}  // namespace convir
