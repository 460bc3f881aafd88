// Puts the splits of a tile together where the blocks of one cluster have them: each block leaves
// its accumulators in its shared memory, and adds one share of the tile over all blocks, its own
// first: if all began with the same one, they would wait for it. If a tile has more splits, several
// clusters have them: each block publishes its slice, and those that have the same slice meet
// (schedule/partition.cuh).
#pragma once

#include "ptx/cluster.cuh"
#include "schedule/partition.cuh"

namespace convir::partition {

// For `kThreads` threads that hold kAccumulators accumulators each; barrier kBarrier of the block
// is theirs. Vectors of a tile are numbered as in `ReduceScatter`. kCluster blocks are a cluster,
// kSplits all splits of a tile.
template <int kThreads, int kAccumulators, int kCluster, int kBarrier, int kSplits = kCluster>
struct ClusterReduceScatter {
  static constexpr int kVectors = kThreads * kAccumulators / 4;
  static constexpr int kBytes = kVectors * 16;
  static constexpr int kClusters = kSplits / kCluster;
  static_assert(kSplits % kCluster == 0);

  float4* memory;    // kBytes of shared memory that nothing else uses any more
  unsigned address;  // of the same
  int thread;        // 0 to kThreads - 1
  // For more than one cluster of a tile: a slot of kVectors for each of all clusters, and a counter
  // for each block of a tile's cluster.
  float* workspace = nullptr;
  unsigned* counters = nullptr;

  // The first vector that a part stores; its threads store every kThreads-th.
  static __device__ __forceinline__ int begin_of(int split) {
    const int own = split % kCluster, cluster = split / kCluster;
    const int begin = kVectors * own / kCluster, end = kVectors * (own + 1) / kCluster;
    return begin + (end - begin) * cluster / kClusters;
  }

  // store(v, accumulators) stores vector v of the tile. Split p is block p % kCluster of its
  // cluster.
  template <class Accumulators, class Store>
  __device__ __forceinline__ void operator()(const Work& work, Accumulators&& sum, Store&& store) const {
    hopper::named_sync(kBarrier, kThreads);
#pragma unroll
    for (int i = 0; i < kAccumulators; i += 4) {
      memory[i / 4 * kThreads + thread] = make_float4(sum(i), sum(i + 1), sum(i + 2), sum(i + 3));
    }
    hopper::cluster_sync();
    const int own = work.split % kCluster, cluster = work.split / kCluster;
    const int begin = kVectors * own / kCluster, end = kVectors * (own + 1) / kCluster;
    if constexpr (kClusters == 1) {
      add(own, begin, end, store);
      hopper::cluster_sync();
    } else {
      float4* slots = reinterpret_cast<float4*>(workspace) +
                      static_cast<long long>(work.tile) * kVectors;
      const long long step = static_cast<long long>(work.unit_step) * kVectors;
      add(own, begin, end, [&](int v, const float4& accumulators) { __stcg(slots + cluster * step + v, accumulators); });
      // A block stays until its neighbours have read its shared memory.
      hopper::cluster_arrive();
      const Meeting<kThreads, kBarrier, kClusters> meeting = {
          slots, step, kClusters, counters + (work.tile * kCluster + own) * kCounterWords, thread};
      meeting(cluster, begin, end, store);
      hopper::cluster_wait();
    }
  }

  template <class Emit>
  __device__ __forceinline__ void add(int own, int begin, int end, Emit&& emit) const {
    add_splits<kThreads, kCluster>(
        kCluster, begin, end, thread,
        [&](int i, int v) {
          const int rank = own + i < kCluster ? own + i : own + i - kCluster;
          return hopper::load_from(address + v * 16, rank);
        },
        emit);
  }

  // What the other threads of the block do meanwhile: barriers count all threads of a cluster.
  static __device__ __forceinline__ void stand_by() {
    hopper::cluster_sync();
    hopper::cluster_sync();
  }
};

}  // namespace convir::partition
