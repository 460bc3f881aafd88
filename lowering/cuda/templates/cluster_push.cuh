// Puts the parts of a tile together where the blocks of one cluster have them: each block owns a
// slice of the tile, and all blocks send their sums of it into its shared memory. So nobody waits
// for answers on the way, nor for neighbours in the end.
#pragma once

#include "hopper/cluster.cuh"
#include "hopper/mbarrier.cuh"
#include "partition.cuh"

namespace convir::partition {

// For `kThreads` threads that hold kSums sums each. Vectors of a tile are numbered as in `Slices`.
// All threads of all blocks begin with hopper::cluster_arrive_relaxed(), and then either push() and
// add(), or stand_by() and add(). Sums count their bytes at a barrier of the block that they go to: a
// barrier of the cluster would wait until all memory has seen what a thread wrote, which takes longer
// than the sums.
template <int kThreads, int kSums, int kCluster>
struct PushedSlices {
  static constexpr int kVectors = kThreads * kSums / 4;
  static constexpr int kSlice = (kVectors + kCluster - 1) / kCluster;
  static constexpr int kBytes = kCluster * kSlice * 16;

  const float4* memory;  // kBytes of shared memory for nothing else
  unsigned address;      // of the same
  unsigned barrier;      // of one arrival, and for nothing else

  // Part p is block p of the cluster; `thread` is 0 to kThreads - 1.
  template <class Sums>
  __device__ __forceinline__ void push(int part, int thread, Sums&& sum) const {
    hopper::cluster_wait();  // all blocks have begun
    if (thread == 0) hopper::arrive_expecting(barrier, kCluster * 16 * (end_of(part) - part * kSlice));
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      const int v = i / 4 * kThreads + thread, owner = v / kSlice;
      hopper::send_to(address + (part * kSlice + v - owner * kSlice) * 16, owner,
                      make_float4(sum(i), sum(i + 1), sum(i + 2), sum(i + 3)), barrier);
    }
  }

  // What threads without sums do meanwhile: barriers count all threads of a cluster.
  static __device__ __forceinline__ void stand_by() {
    __syncwarp();
    hopper::cluster_wait();
  }

  static __device__ __forceinline__ int end_of(int part) {
    return (part + 1) * kSlice < kVectors ? (part + 1) * kSlice : kVectors;
  }

  // Adds the block's slice when all have sent theirs, by kAll threads; store(v, sums) stores vector v
  // of the tile.
  template <int kAll, class Store>
  __device__ __forceinline__ void add(int part, int thread, Store&& store) const {
    hopper::wait(barrier, 0);
    const int begin = part * kSlice, end = end_of(part);
    add_parts<kAll, kCluster>(
        kCluster, begin, end, thread,
        [&](int from, int v) { return memory[from * kSlice + v - begin]; }, store);
  }
};

}  // namespace convir::partition
