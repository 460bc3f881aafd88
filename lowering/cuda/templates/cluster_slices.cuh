// Puts the parts of a tile together where the blocks of one cluster have them: each block leaves its
// sums in its shared memory, and adds one slice of the tile over all blocks in ascending order. No
// global memory is written but the result.
#pragma once

#include "hopper/cluster.cuh"

namespace convir::partition {

// For `kThreads` threads that hold kSums sums each; barrier kBarrier of the block is theirs. Vectors
// of a tile are numbered as in `Slices`.
template <int kThreads, int kSums, int kParts, int kBarrier>
struct ClusterSlices {
  static constexpr int kVectors = kThreads * kSums / 4;
  static constexpr int kBytes = kVectors * 16;

  float4* memory;    // kBytes of shared memory that nothing else uses any more
  unsigned address;  // of the same
  int thread;        // 0 to kThreads - 1

  // store(v, sums) stores vector v of the tile.
  template <class Sums, class Store>
  __device__ __forceinline__ void operator()(int part, Sums&& sum, Store&& store) const {
    hopper::named_sync(kBarrier, kThreads);
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      memory[i / 4 * kThreads + thread] = make_float4(sum(i), sum(i + 1), sum(i + 2), sum(i + 3));
    }
    hopper::cluster_sync();
    const int end = kVectors * (part + 1) / kParts;
    for (int v = kVectors * part / kParts + thread; v < end; v += kThreads) {
      float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
      for (int rank = 0; rank < kParts; ++rank) {
        const float4 x = hopper::load_from(address + v * 16, rank);
        total.x += x.x;
        total.y += x.y;
        total.z += x.z;
        total.w += x.w;
      }
      store(v, total);
    }
    hopper::cluster_sync();
  }

  // What the other threads of the block do meanwhile: barriers count all threads of a cluster.
  static __device__ __forceinline__ void stand_by() {
    hopper::cluster_sync();
    hopper::cluster_sync();
  }
};

}  // namespace convir::partition
