// Operands whose pixels are contiguous: a step is one box of a line of pixels, 128 bytes of each
// channel, and lies in shared memory as rows of k. Lines are as long as pixels of both operands
// are contiguous and no tap reaches across; the axes around them, and the images, have steps of
// their own.
#pragma once

#include "arith/coordinates.cuh"
#include "ptx/tma.cuh"
#include "sm90_wgrad/store.cuh"

namespace convir::wgrad {

template <class Problem, int kBlockK>
struct Planes {
  static constexpr int kOuter = Problem::kOuter;

  // Along the line, the axes around it, and the images: output pixels.
  int at[kMaxSpatial + 1];

  __device__ __forceinline__ void move_to(int step) {
    split_number<kOuter + 2, false>(
        step, [](int axis) { return Problem::line_steps(axis); },
        [&](int axis, int x) { at[axis] = axis == 0 ? x * kBlockK : x; });
  }

  // The number of the first output pixel, where lines are whole images.
  __device__ __forceinline__ int position() const {
    static_assert(Problem::kPlanesA || kOuter == 0);
    return at[1] * Problem::kImagePixels + at[0];
  }

  __device__ __forceinline__ void load_c(unsigned to, const hopper::TensorMap& map,
                                         unsigned barrier, int channel) const {
    load(to, map, barrier, channel, at);
  }

  // At the pixels of A that a tap has there.
  __device__ __forceinline__ void load_a(unsigned to, const hopper::TensorMap& map,
                                         unsigned barrier, int channel,
                                         const int (&offset)[kMaxSpatial]) const {
    int of_a[kMaxSpatial + 1];
#pragma unroll
    for (int axis = 0; axis <= kOuter; ++axis) {
      of_a[axis] = at[axis] * Problem::step(axis) + Problem::corner(axis) + offset[axis];
    }
    of_a[kOuter + 1] = at[kOuter + 1];
    load(to, map, barrier, channel, of_a);
  }

 private:
  static __device__ __forceinline__ void load(unsigned to, const hopper::TensorMap& map,
                                              unsigned barrier, int channel,
                                              const int (&x)[kMaxSpatial + 1]) {
    constexpr bool kOnce = Problem::kReadsOnce;
    if constexpr (kOuter == 0) {
      hopper::load_3d<kOnce>(to, &map, barrier, x[0], channel, x[1]);
    } else if constexpr (kOuter == 1) {
      hopper::load_4d<kOnce>(to, &map, barrier, x[0], channel, x[1], x[2]);
    } else {
      static_assert(kOuter == 2);
      hopper::load_5d<kOnce>(to, &map, barrier, x[0], channel, x[1], x[2], x[3]);
    }
  }
};

}  // namespace convir::wgrad
