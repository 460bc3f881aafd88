// Copies of an operand between planes and channels that are contiguous. A thread moves a patch of
// pixels and channels: it reads vectors along one of them, exchanges rows and columns in registers,
// and writes vectors along the other. `Problem` is a struct of constants that
// lowering/kernels/cuda/layout_conversion/copies.py writes.
#pragma once

#include "arith/sizes.cuh"
#include "load/vectors.cuh"

namespace convir {

constexpr int kCopyThreads = 128;

template <class P>
using Copied = typename Word<P::kBytes>::Type;

// The element of channel 0 at a pixel of the planes.
template <class P>
__device__ __forceinline__ long long place_in_planes(typename P::Index pixel) {
  typename P::Index rest = pixel;
  long long offset = 0;
#pragma unroll
  for (int axis = P::kAxes - 1; axis > 0; --axis) {
    const typename P::Index size = P::kSize[axis - 1];
    offset += P::kStride[axis] * (rest % size);
    rest /= size;
  }
  return offset + P::kStride[0] * rest;
}

// Where a thread's patch lies. The lanes of a warp are kLanes of channels by some of pixels, the
// warps of a block follow each other along pixels.
template <class P>
struct PatchPlace {
  static constexpr int kWarpPixels = 32 / P::kLanes * P::kPlaneWidth;
  static constexpr int kBlockPixels = kCopyThreads / 32 * kWarpPixels;
  static constexpr int kTiles = divide_up(P::kChannels, P::kLanes * P::kPatchChannels);

  long long pixel;
  int channel;

  // `block` is that of the copy among the blocks of the launch.
  __device__ __forceinline__ explicit PatchPlace(long long block) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    pixel = block / kTiles * kBlockPixels + warp * kWarpPixels +
            lane / P::kLanes * P::kPlaneWidth;
    channel = (static_cast<int>(block % kTiles) * P::kLanes + lane % P::kLanes) * P::kPatchChannels;
  }

  __device__ __forceinline__ bool exists(long long pixels) const {
    return pixel < pixels && channel < P::kChannels;
  }

  // move(channel of the patch, element of the planes), for each run of kPlaneWidth pixels.
  template <class Move>
  __device__ __forceinline__ void for_planes(Move&& move) const {
    const long long place =
        place_in_planes<P>(static_cast<typename P::Index>(pixel)) + P::kChannelStride * channel;
#pragma unroll
    for (int c = 0; c < P::kPatchChannels; ++c) move(c, place + P::kChannelStride * c);
  }

  // move(element of the patch, element of the copy), for each run of kChannelWidth elements. The
  // patch's elements are in the copy's order. A run of several pixels has all of their channels.
  template <class Move>
  __device__ __forceinline__ void for_pixels(Move&& move) const {
    const long long place = pixel * P::kChannels + channel;
#pragma unroll
    for (int i = 0; i < P::kPlaneWidth * P::kPatchChannels; i += P::kChannelWidth) {
      const int p = i / P::kPatchChannels, c = i % P::kPatchChannels;
      move(i, place + p * P::kChannels + c);
    }
  }
};

template <class P>
__device__ __forceinline__ void copy_channels_last(long long block, const Copied<P>* __restrict__ from,
                                                   Copied<P>* __restrict__ to, long long pixels) {
  const PatchPlace<P> at(block);
  if (!at.exists(pixels)) return;
  Copied<P> patch[P::kPlaneWidth * P::kPatchChannels];
  at.for_planes([&](int c, long long place) {
    auto run = load<P::kPlaneWidth * P::kPlaneStep>(from + place);
#pragma unroll
    for (int p = 0; p < P::kPlaneWidth; ++p) {
      patch[p * P::kPatchChannels + c] = run[p * P::kPlaneStep];
    }
  });
  at.for_pixels([&](int first, long long place) {
    Vector<Copied<P>, P::kChannelWidth> run;
#pragma unroll
    for (int i = 0; i < P::kChannelWidth; ++i) run[i] = patch[first + i];
    store(to + place, run);
  });
}

template <class P>
__device__ __forceinline__ void copy_channels_first(long long block, const Copied<P>* __restrict__ from,
                                                    Copied<P>* __restrict__ to, long long pixels) {
  const PatchPlace<P> at(block);
  if (!at.exists(pixels)) return;
  Copied<P> patch[P::kPlaneWidth * P::kPatchChannels];
  at.for_pixels([&](int first, long long place) {
    auto run = load<P::kChannelWidth>(from + place);
#pragma unroll
    for (int i = 0; i < P::kChannelWidth; ++i) patch[first + i] = run[i];
  });
  at.for_planes([&](int c, long long place) {
    Vector<Copied<P>, P::kPlaneWidth> run;
#pragma unroll
    for (int p = 0; p < P::kPlaneWidth; ++p) run[p] = patch[p * P::kPatchChannels + c];
    store(to + place, run);
  });
}

}  // namespace convir
