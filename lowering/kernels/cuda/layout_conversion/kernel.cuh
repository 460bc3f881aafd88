// Copies of an operand between planes and channels that are contiguous, through a tile in shared
// memory: both sides are read and written in runs, as wide as their alignment allows. `Problem` is
// a struct of constants that lowering/kernels/cuda/layout_conversion/copies.py writes.
#pragma once

#include "load/vectors.cuh"

namespace convir {

constexpr int kCopyThreads = 256;
// One word more or less between rows: columns of a tile lie in different banks.
template <class P>
constexpr int kPitch = P::kTilePixels + (P::kBytes < 4 ? 4 / P::kBytes : 1);

template <class P>
using Copied = typename Word<P::kBytes>::Type;

template <class P>
using Tile = Copied<P>[P::kTileChannels][kPitch<P>];

template <class P>
__device__ __forceinline__ long long place_in_planes(long long position) {
  using Index = typename P::Index;
  Index rest = static_cast<Index>(position);
  long long offset = 0;
#pragma unroll
  for (int axis = P::kAxes - 1; axis >= 0; --axis) {
    const Index size = static_cast<Index>(P::kSize[axis]);
    const Index at = axis == 0 ? rest : rest % size;
    rest = axis == 0 ? 0 : rest / size;
    offset += P::kStride[axis] * at;
  }
  return offset;
}

// Calls `move(channel in the tile, position in the tile, element of the planes)` for runs of
// output pixels.
template <class P, class Move>
__device__ __forceinline__ void for_planes(long long position, int channel, const Move &move) {
  constexpr int kRuns = P::kTilePixels / P::kPlaneWidth, kAll = P::kTileChannels * kRuns;
#pragma unroll
  for (int first = 0; first < kAll; first += kCopyThreads) {
    const int i = first + threadIdx.x, c = i / kRuns, p = i % kRuns * P::kPlaneWidth;
    if (i < kAll && position + p < P::kPixels && channel + c < P::kChannels) {
      move(c, p, place_in_planes<P>(position + p) + P::kChannelStride * (channel + c));
    }
  }
}

// The same for runs of channels, and the element of the copy.
template <class P, class Move>
__device__ __forceinline__ void for_pixels(long long position, int channel, const Move &move) {
  constexpr int kRuns = P::kTileChannels / P::kChannelWidth, kAll = P::kTilePixels * kRuns;
#pragma unroll
  for (int first = 0; first < kAll; first += kCopyThreads) {
    const int i = first + threadIdx.x, p = i / kRuns, c = i % kRuns * P::kChannelWidth;
    if (i < kAll && position + p < P::kPixels && channel + c < P::kChannels) {
      move(c, p, (position + p) * P::kChannels + channel + c);
    }
  }
}

template <class P>
__device__ __forceinline__ void copy_channels_last(const Copied<P> *__restrict__ from,
                                                   Copied<P> *__restrict__ to) {
  __shared__ Tile<P> tile;
  const long long position = static_cast<long long>(blockIdx.x) * P::kTilePixels;
  const int channel = blockIdx.y * P::kTileChannels;
  for_planes<P>(position, channel, [&](int c, int p, long long at) {
    const auto run = load<P::kPlaneWidth>(from + at);
#pragma unroll
    for (int lane = 0; lane < P::kPlaneWidth; ++lane) tile[c][p + lane] = run[lane];
  });
  __syncthreads();
  for_pixels<P>(position, channel, [&](int c, int p, long long at) {
    Vector<Copied<P>, P::kChannelWidth> run;
#pragma unroll
    for (int lane = 0; lane < P::kChannelWidth; ++lane) run[lane] = tile[c + lane][p];
    store(to + at, run);
  });
}

template <class P>
__device__ __forceinline__ void copy_channels_first(const Copied<P> *__restrict__ from,
                                                    Copied<P> *__restrict__ to) {
  __shared__ Tile<P> tile;
  const long long position = static_cast<long long>(blockIdx.x) * P::kTilePixels;
  const int channel = blockIdx.y * P::kTileChannels;
  for_pixels<P>(position, channel, [&](int c, int p, long long at) {
    const auto run = load<P::kChannelWidth>(from + at);
#pragma unroll
    for (int lane = 0; lane < P::kChannelWidth; ++lane) tile[c + lane][p] = run[lane];
  });
  __syncthreads();
  for_planes<P>(position, channel, [&](int c, int p, long long at) {
    Vector<Copied<P>, P::kPlaneWidth> run;
#pragma unroll
    for (int lane = 0; lane < P::kPlaneWidth; ++lane) run[lane] = tile[c][p + lane];
    store(to + at, run);
  });
}

}  // namespace convir
