// Puts the splits of a tile together where the blocks of one cluster have them: each block owns a
// slice of the accumulators of each of its warpgroups, and the others write their accumulators of
// it into its shared memory, which counts bytes. So nobody asks, and nobody waits for more than
// what it adds.
#pragma once

#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/st_async.cuh"
#include "schedule/partition.cuh"

namespace convir::partition {

// For kGroups warpgroups, whose threads hold kAccumulators accumulators each; split p of a tile is
// block p of the cluster. Accumulators 4 i to 4 i + 3 of all threads of a warpgroup are column i; a
// part adds adjacent columns, kMost at most.
template <int kGroups, int kAccumulators, int kSplits>
struct PushedAccumulators {
  static constexpr int kThreads = 128;  // of a warpgroup
  static constexpr int kOutChannels = kAccumulators / 4;
  static constexpr int kMost = (kOutChannels + kSplits - 1) / kSplits;
  static constexpr int kGroupBytes = kSplits * kMost * kThreads * 16;
  static constexpr int kBytes = kGroups * kGroupBytes;

  const float4* memory;  // kBytes of shared memory that nothing else uses when accumulators are written
  unsigned address;      // of the same
  unsigned barriers;     // of 8 bytes for each warpgroup, for nothing else
  int group;

  // The first column of a part; and the part that has a column.
  static __device__ __forceinline__ constexpr int begin_of(int split) {
    return kOutChannels * split / kSplits;
  }
  static __device__ __forceinline__ constexpr int split_of(int column) {
    return (kSplits * (column + 1) - 1) / kOutChannels;
  }

  // One thread, before all threads of the cluster meet for the first time.
  static __device__ __forceinline__ void begin(unsigned barriers, int split) {
    const int out_channels = begin_of(split + 1) - begin_of(split);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      init_barrier(barriers + group * 8, 1);
      arrive_expecting(barriers + group * 8, (kSplits - 1) * out_channels * kThreads * 16);
    }
  }

  // The threads of a warpgroup; store(i, accumulators) stores a thread's accumulators of column i.
  template <class Accumulators, class Store>
  __device__ __forceinline__ void operator()(int split, Accumulators&& sum, Store&& store) const {
    const int thread = threadIdx.x % kThreads;
    const unsigned arrived = barriers + group * 8;
    const unsigned slots = address + group * kGroupBytes + (split * kMost * kThreads + thread) * 16;
#pragma unroll
    for (int i = 0; i < kOutChannels; ++i) {
      const int owner = split_of(i);
      hopper::store_async(slots + (i - begin_of(owner)) * kThreads * 16, arrived, owner, split,
                          make_float4(sum(4 * i), sum(4 * i + 1), sum(4 * i + 2), sum(4 * i + 3)));
    }
    // What a thread adds, the same thread of each block has written.
    hopper::wait_for_stores(arrived);
    const float4* from = memory + group * (kGroupBytes / 16) + thread;
    const int first = begin_of(split), count = begin_of(split + 1) - first;
    // All accumulators before the first store: their latencies pass together.
    float4 total[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int at = (i < count ? i : 0) * kThreads;
      total[i] = from[at];
#pragma unroll
      for (int p = 1; p < kSplits; ++p) add_to(total[i], from[p * kMost * kThreads + at]);
    }
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (i < count) store(first + i, total[i]);
    }
  }
};

}  // namespace convir::partition
