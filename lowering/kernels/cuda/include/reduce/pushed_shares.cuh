// Puts the splits of a tile together where the blocks of one cluster have them: each block owns a
// slice of the tile, and all blocks send their accumulators of it into its shared memory. So nobody
// waits for answers on the way, nor for neighbours in the end. A slice is every so many chunks of
// vectors, so that what blocks send at the same time goes to all of them, not to one after the
// other.
#pragma once

#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/st_async.cuh"
#include "schedule/partition.cuh"

namespace convir::partition {

// For `kThreads` threads that hold kAccumulators accumulators each. Vectors of a tile are numbered
// as in `ReduceScatter`. All threads of all blocks begin with hopper::cluster_arrive_relaxed(), and
// then either push() and add(), or stand_by() and add(). Accumulators count their bytes at a
// barrier of the block that they go to: a barrier of the cluster would wait until all memory has
// seen what a thread wrote, which takes longer than the accumulators.
template <int kThreads, int kAccumulators, int kCluster>
struct PushedShares {
  static constexpr int kChunk = 16;  // neighbours that have one owner
  static constexpr int kChunks = kThreads * kAccumulators / 4 / kChunk;
  static constexpr int kShare = (kChunks + kCluster - 1) / kCluster * kChunk;
  static constexpr int kBytes = kCluster * kShare * 16;

  const float4* memory;  // kBytes of shared memory for nothing else
  unsigned address;      // of the same
  unsigned barrier;      // of one arrival, and for nothing else

  // Split p is block p of the cluster; `thread` is 0 to kThreads - 1.
  template <class Accumulators>
  __device__ __forceinline__ void push(int split, int thread, Accumulators&& sum) const {
    expect(split, thread);
    send<0, kAccumulators>(split, thread, sum);
  }
  __device__ __forceinline__ void expect(int split, int thread) const {
    hopper::cluster_wait();  // all blocks have begun
    if (thread == 0) arrive_expecting(barrier, kCluster * 16 * vectors_of(split));
  }
  template <int kBegin, int kEnd, class Accumulators>
  __device__ __forceinline__ void send(int split, int thread, Accumulators&& sum) const {
#pragma unroll
    for (int i = kBegin; i < kEnd; i += 4) {
      const int v = i / 4 * kThreads + thread, chunk = v / kChunk;
      const int at = split * kShare + chunk / kCluster * kChunk + v % kChunk;
      hopper::send_to(address + at * 16, chunk % kCluster,
                      make_float4(sum(i), sum(i + 1), sum(i + 2), sum(i + 3)), barrier);
    }
  }

  // What threads without accumulators do meanwhile: barriers count all threads of a cluster.
  static __device__ __forceinline__ void stand_by() {
    __syncwarp();
    hopper::cluster_wait();
  }

  static __device__ __forceinline__ int vectors_of(int split) {
    return (kChunks - split + kCluster - 1) / kCluster * kChunk;
  }

  // Adds the block's slice when all have sent theirs, by kAll threads; store(v, accumulators)
  // stores vector v of the tile.
  template <int kAll, class Store>
  __device__ __forceinline__ void add(int split, int thread, Store&& store) const {
    wait_barrier(barrier, 0);
    add_splits<kAll, kCluster>(
        kCluster, 0, vectors_of(split), thread,
        [&](int from, int at) { return memory[from * kShare + at]; },
        [&](int at, const float4& accumulators) {
          store((at / kChunk * kCluster + split) * kChunk + at % kChunk, accumulators);
        });
  }
};

}  // namespace convir::partition
