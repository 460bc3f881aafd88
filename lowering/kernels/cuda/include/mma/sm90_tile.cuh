// Products of tiles in shared memory by a warpgroup (sm_90a).
#pragma once

#include "ptx/wgmma.cuh"

namespace convir::mma {

// d[i] += a[i] * b, or = a[i] * b if nothing is there yet: kSteps instructions of tiles in the
// 128-byte swizzle. a[i] are 64 rows each, and lie kTileBytes apart.
template <class Element, int kN, hopper::Major kMajorA, hopper::Major kMajorB, int kBlockK,
          int kTileBytes, int kSteps, int kTiles>
__device__ __forceinline__ void multiply(float (&d)[kTiles][kN / 2], unsigned a, unsigned b,
                                         bool is_first) {
  const auto from_a = hopper::tile_descriptor<kMajorA, kBlockK>(a);
  const auto from_b = hopper::tile_descriptor<kMajorB, kBlockK>(b);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      hopper::Wgmma<Element, kN, kMajorA, kMajorB>::run(
          d[i], from_a + (i * kTileBytes / 16 + step * hopper::kDescriptorStep<kMajorA>),
          from_b + step * hopper::kDescriptorStep<kMajorB>, step > 0 || !is_first);
    }
  }
}

// The products that multiply() issues into d, under way when all those before them are done: what
// those have read may be written again.
template <class Accumulators, class Multiply>
__device__ __forceinline__ void issue(Accumulators& d, Multiply&& multiply) {
  hopper::hold(d);
  hopper::wgmma_fence();
  multiply();
  hopper::wgmma_commit();
  hopper::hold(d);
  hopper::wgmma_wait<1>();
}

// All products into d are done.
template <class Accumulators>
__device__ __forceinline__ void drain(Accumulators& d) {
  hopper::wgmma_wait<0>();
  hopper::hold(d);
}

}  // namespace convir::mma
