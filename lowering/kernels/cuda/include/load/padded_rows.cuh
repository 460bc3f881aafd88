// Rows of pixels in shared memory with their padding, as TMA brings them.
#pragma once

#include "arith/sizes.cuh"

namespace convir {

// Where windows reach into padding on both sides, up to kMostShared zeros behind a row are also those
// before the next; rows are kPitch pixels.
template <typename P, int kMostShared>
struct PaddedRows {
  static constexpr int kBefore = larger(0, -P::col_origin);
  static constexpr int kBehind =
      larger(0, P::col_origin + P::cols + P::window_cols - 1 - P::a_cols);
  static constexpr int kShared = smaller(kMostShared, smaller(kBefore, kBehind));
  static constexpr int kPitch = P::cols + P::window_cols - 1 - kShared;
};

// Where a chunk of 16 bytes of a pixel of kPixelBytes lies, which begins at `pixel`: chunks are
// exchanged so that those of neighbours lie in different banks.
template <int kPixelBytes>
__device__ __forceinline__ unsigned swizzled(unsigned pixel, int chunk) {
  return pixel + ((chunk ^ (pixel >> 7 & (kPixelBytes / 16 - 1))) << 4);
}

}  // namespace convir
