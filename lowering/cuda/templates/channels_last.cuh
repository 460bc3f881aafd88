// A copy of an operand whose channels are neighbours: reads run along the first of its dimensions,
// writes along the last, through a tile in shared memory. `Problem` is a struct of constants that
// lowering/cuda/contraction/channels_last.py writes.
#pragma once

#include "scalars.cuh"

namespace convir {

constexpr int kCopyPositions = 64, kCopyChannels = 32, kCopyThreads = 256;

template <class P>
__device__ __forceinline__ long long copied_from(long long position) {
  long long offset = 0;
#pragma unroll
  for (int axis = P::kAxes - 1; axis >= 0; --axis) {
    const long long at = axis == 0 ? position : position % P::kSize[axis];
    position /= axis == 0 ? 1 : P::kSize[axis];
    offset += P::kStride[axis] * at;
  }
  return offset;
}

template <class P>
__device__ __forceinline__ void copy_channels_last(const typename P::Element* from,
                                                   typename P::Element* to) {
  __shared__ typename P::Element tile[kCopyChannels][kCopyPositions + 2];
  const long long position = static_cast<long long>(blockIdx.x) * kCopyPositions;
  const int channel = blockIdx.y * kCopyChannels;
  const int lane = threadIdx.x % kCopyPositions;
  if (position + lane < P::kPositions) {
    const auto* row = from + copied_from<P>(position + lane);
#pragma unroll
    for (int c = 0; c < kCopyChannels; c += kCopyThreads / kCopyPositions) {
      const int at = c + threadIdx.x / kCopyPositions;
      if (channel + at < P::kChannels) tile[at][lane] = row[P::kChannelStride * (channel + at)];
    }
  }
  __syncthreads();
  if constexpr (P::kChannels <= kCopyChannels) {
    // All channels of all positions are one run.
    const long long left = P::kPositions - position;
    const int run = P::kChannels * (left < kCopyPositions ? static_cast<int>(left) : kCopyPositions);
    for (int e = threadIdx.x; e < run; e += kCopyThreads) {
      to[position * P::kChannels + e] = tile[e % P::kChannels][e / P::kChannels];
    }
  } else {
    const int column = threadIdx.x % kCopyChannels;
    if (channel + column >= P::kChannels) return;
#pragma unroll
    for (int p = 0; p < kCopyPositions; p += kCopyThreads / kCopyChannels) {
      const int at = p + threadIdx.x / kCopyChannels;
      if (position + at < P::kPositions) {
        to[(position + at) * P::kChannels + channel + column] = tile[column][at];
      }
    }
  }
}

}  // namespace convir
