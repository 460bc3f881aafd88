// Copies of an operand between planes that begin anywhere (an odd number of pixels, say) and channels
// that are contiguous: every access to planes is an aligned vector, out of which a thread shifts
// its run of pixels.
#pragma once

#include "layout_conversion/kernel.cuh"

namespace convir {

// Where a thread's patch lies if planes begin anywhere: rows of pixels that are contiguous, the
// innermost dimension, are cut into runs of kPlaneWidth. The lanes of a warp are kLanes of channels
// by some of runs.
template <class P>
struct RunPlace {
  static constexpr int kWarpRuns = 32 / P::kLanes;
  static constexpr int kTiles = divide_up(P::kChannels, P::kLanes * P::kPatchChannels);

  // Pixels of a row, and the first one of the run; a run behind the last pixel may be asked for.
  long long size, first;
  // Elements in front of the row: of channel 0 in the planes, and in the copy.
  long long plane, copy;
  int channel;
  bool exists;

  // `runs_beside`: of a row, past those that its pixels fill.
  __device__ __forceinline__ RunPlace(long long block, long long pixels, int runs_beside) {
    using Index = typename P::Index;
    if constexpr (P::kAxes == 1) {
      size = pixels;
    } else {
      size = P::kSize[P::kAxes - 2];
    }
    const Index runs = static_cast<Index>(size + P::kPlaneWidth - 1) / P::kPlaneWidth + runs_beside;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Index unit = static_cast<Index>(block / kTiles) * (kCopyThreads / 32 * kWarpRuns) +
                       warp * kWarpRuns + lane / P::kLanes;
    Index row = unit / runs;
    first = static_cast<long long>(unit % runs) * P::kPlaneWidth;
    channel = (static_cast<int>(block % kTiles) * P::kLanes + lane % P::kLanes) * P::kPatchChannels;
    exists = row * size < pixels && channel < P::kChannels;
    copy = row * size * P::kChannels;
    plane = 0;
#pragma unroll
    for (int axis = P::kAxes - 2; axis > 0; --axis) {
      const Index extent = P::kSize[axis - 1];
      plane += P::kStride[axis] * (row % extent);
      row /= extent;
    }
    if constexpr (P::kAxes > 1) plane += P::kStride[0] * row;
  }
};

constexpr int kVectorWords = 4;

// The words from byte `bytes` of two vectors on, up to a vector's bytes: kBytes are those of an
// element.
template <int kBytes>
__device__ __forceinline__ void shift_down(unsigned (&words)[2 * kVectorWords], int bytes) {
#pragma unroll
  for (int step = 16; step >= 4; step /= 2) {
#pragma unroll
    for (int i = 0; i < 2 * kVectorWords; ++i) {
      const unsigned next = i + step / 4 < 2 * kVectorWords ? words[i + step / 4] : 0;
      if (step >= kBytes) words[i] = bytes & step ? next : words[i];
    }
  }
  if constexpr (kBytes == 2) {
#pragma unroll
    for (int i = 0; i < 2 * kVectorWords; ++i) {
      const unsigned next = i + 1 < 2 * kVectorWords ? words[i + 1] : 0;
      words[i] = bytes & 2 ? words[i] >> 16 | next << 16 : words[i];
    }
  }
}

// Elements by which what a pointer points to lies behind a multiple of a vector's bytes.
template <class T>
__device__ __forceinline__ int behind_vector(const T* pointer) {
  return static_cast<int>(reinterpret_cast<unsigned long long>(pointer) % 16 / sizeof(T));
}

// A thread reads the one or two aligned vectors that hold its run of a channel.
template <class P>
__device__ __forceinline__ void copy_runs_channels_last(long long block,
                                                        const Copied<P>* __restrict__ from,
                                                        Copied<P>* __restrict__ to,
                                                        long long pixels) {
  using T = Copied<P>;
  constexpr int kWidth = P::kPlaneWidth;
  const RunPlace<P> at(block, pixels, 0);
  if (!at.exists) return;
  const long long left = at.size - at.first;
  const int count = left < kWidth ? static_cast<int>(left) : kWidth;
  T patch[kWidth * P::kPatchChannels];
#pragma unroll
  for (int c = 0; c < P::kPatchChannels; ++c) {
    const T* run = from + at.plane + P::kChannelStride * (at.channel + c) + at.first;
    const int behind = behind_vector(run);
    unsigned words[2 * kVectorWords] = {};
    const auto low = load<kVectorWords>(reinterpret_cast<const unsigned*>(run - behind));
    Vector<unsigned, kVectorWords> high = {};
    if (behind + count > kWidth) {
      high = load<kVectorWords>(reinterpret_cast<const unsigned*>(run - behind + kWidth));
    }
#pragma unroll
    for (int i = 0; i < kVectorWords; ++i) words[i] = low[i], words[kVectorWords + i] = high[i];
    shift_down<P::kBytes>(words, behind * P::kBytes);
    T pixels_of_channel[2 * kWidth];
    memcpy(pixels_of_channel, words, sizeof(words));
#pragma unroll
    for (int p = 0; p < kWidth; ++p) patch[p * P::kPatchChannels + c] = pixels_of_channel[p];
  }
  T* pixel = to + at.copy + at.first * P::kChannels + at.channel;
#pragma unroll
  for (int p = 0; p < kWidth; ++p) {
    Vector<T, P::kPatchChannels> run;
#pragma unroll
    for (int c = 0; c < P::kPatchChannels; ++c) run[c] = patch[p * P::kPatchChannels + c];
    if (p < count) store(pixel + p * P::kChannels, run);
  }
}

// A thread writes an aligned vector of each of its channels. It begins up to kWidth - 1 pixels in
// front of the run, so that the run before is read as well.
template <class P>
__device__ __forceinline__ void copy_runs_channels_first(long long block,
                                                         const Copied<P>* __restrict__ from,
                                                         Copied<P>* __restrict__ to,
                                                         long long pixels) {
  using T = Copied<P>;
  constexpr int kWidth = P::kPlaneWidth;
  const RunPlace<P> at(block, pixels, 1);
  if (!at.exists) return;
  T patch[P::kPatchChannels][2 * kWidth];
  const T* read = from + at.copy + at.channel;
#pragma unroll
  for (int p = 0; p < 2 * kWidth; ++p) {
    const long long pixel = at.first - kWidth + p;
    Vector<T, P::kPatchChannels> channels = {};
    if (pixel >= 0 && pixel < at.size) {
      channels = load<P::kPatchChannels>(read + pixel * P::kChannels);
    }
#pragma unroll
    for (int c = 0; c < P::kPatchChannels; ++c) patch[c][p] = channels[c];
  }
#pragma unroll
  for (int c = 0; c < P::kPatchChannels; ++c) {
    T* row = to + at.plane + P::kChannelStride * (at.channel + c);
    const int behind = behind_vector(row);
    unsigned words[2 * kVectorWords];
    memcpy(words, patch[c], sizeof(words));
    shift_down<P::kBytes>(words, (kWidth - behind) * P::kBytes);
    const long long begin = at.first - behind;
    if (begin >= 0 && begin + kWidth <= at.size) {
      Vector<unsigned, kVectorWords> whole;
#pragma unroll
      for (int i = 0; i < kVectorWords; ++i) whole[i] = words[i];
      store(reinterpret_cast<unsigned*>(row + begin), whole);
    } else {
      T elements[2 * kWidth];
      memcpy(elements, words, sizeof(words));
#pragma unroll
      for (int p = 0; p < kWidth; ++p) {
        if (begin + p >= 0 && begin + p < at.size) row[begin + p] = elements[p];
      }
    }
  }
}

}  // namespace convir
