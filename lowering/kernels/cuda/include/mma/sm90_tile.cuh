// Products of tiles in shared memory by a warpgroup (sm_90a).
#pragma once

#include "pipeline/state.cuh"
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

// The mainloop of a tile: products of the stages of a pipeline into d, those of one under way while
// those of the next are issued.
template <int kStages>
struct Mainloop {
  Consumer<kStages>& stages;
  int held = 0;  // the stage whose products are under way
  bool is_first = true;

  __device__ __forceinline__ explicit Mainloop(Consumer<kStages>& of) : stages(of) {}

  // multiply(stage, is_first) issues the products of the next stage; released() follows when the
  // one before has been given back.
  template <class Accumulators, class Multiply, class Released>
  __device__ __forceinline__ void step(Accumulators& d, Multiply&& multiply, Released&& released) {
    stages.wait();
    issue(d, [&] { multiply(stages.at.stage, is_first); });
    if (!is_first) stages.release(held);
    if (!is_first) released();
    held = stages.at.stage;
    is_first = false;
    stages.at.advance();
  }
  template <class Accumulators, class Multiply>
  __device__ __forceinline__ void step(Accumulators& d, Multiply&& multiply) {
    step(d, multiply, [] {});
  }

  // All products are done, and the last stage has been given back.
  template <class Accumulators>
  __device__ __forceinline__ void finish(Accumulators& d) const {
    hopper::wgmma_wait<0>();
    hopper::hold(d);
    stages.release(held);
  }
};

}  // namespace convir::mma
