// What a direct convolution stores for a sum: the epilogue of one element, or of two neighbours.
#pragma once

#include "epilogue/operands.cuh"
#include "epilogue/vector_store.cuh"
#include "load/direct_phase.cuh"

namespace convir {

// Where results go, and the operands of the epilogue.
template <typename P>
struct Target {
  typename P::Element* c;
  typename P::Epilogue::Pointers operands;
};

// The rows of C, pixels lane / 4 and 8 further of 16, that a lane has accumulators of: `element` is
// where they begin, `valid` has a bit for every output there is. Lanes know those of pixel
// lane % 16. They are not found where nobody reads them.
template <bool kAreRead = true>
struct AccumulatorRows {
  unsigned element[2], valid[2];

  __device__ __forceinline__ AccumulatorRows(unsigned lane_element, unsigned lane_valid) {
    if constexpr (!kAreRead) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      element[half] = __shfl_sync(~0u, lane_element, threadIdx.x % 32 / 4 + 8 * half);
      valid[half] = __shfl_sync(~0u, lane_valid, threadIdx.x % 32 / 4 + 8 * half);
    }
  }
};

// Two neighbours as they lie in memory.
template <typename T>
__device__ __forceinline__ unsigned word_of(const T (&both)[2]) {
  unsigned word;
  memcpy(&word, both, sizeof(word));
  return word;
}

// What is stored for a sum, where the epilogue has no operands.
template <typename P>
__device__ __forceinline__ typename P::Element result(float sum) {
  return P::Epilogue::apply(sum, {}, nullptr);
}
// What is stored for a sum at an element of C, which is of channel `channel`.
template <typename P>
__device__ __forceinline__ typename P::Element result(float sum, const Target<P>& target,
                                                      long long element, int channel,
                                                      bool is_zero_fill = false) {
  const OperandPlaces<typename P::Operands> places(element, channel);
  if (has_zero_fills<P>() && is_zero_fill) return P::Epilogue::zero_fill(target.operands, places.at);
  return P::Epilogue::apply(sum, target.operands, places.at);
}
// The same for neighbours, 16 bits each, into words; `element` and `channel` are multiples of their
// number.
template <typename P, int kWords>
__device__ __forceinline__ void results(unsigned (&words)[kWords], const float (&sums)[2 * kWords],
                                        const Target<P>& target, long long element, int channel,
                                        bool is_zero_fill = false) {
  if constexpr (P::rounds_only) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = pack<typename P::Element>(sums[2 * i], sums[2 * i + 1]);
    }
  } else {
    typename P::Element stored[2 * kWords];
    const auto run = P::Operands::template run<2 * kWords>(target.operands, element, channel);
    finish_run<typename P::Epilogue>(stored, sums, run, has_zero_fills<P>() && is_zero_fill);
    memcpy(words, stored, sizeof(words));
  }
}
// The same for two; `low` has the lower address.
template <typename P>
__device__ __forceinline__ unsigned results(float low, float high, const Target<P>& target,
                                            long long element, int channel,
                                            bool is_zero_fill = false) {
  unsigned word[1];
  const float sums[2] = {low, high};
  results<P>(word, sums, target, element, channel, is_zero_fill);
  return word[0];
}

}  // namespace convir
