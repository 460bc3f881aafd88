// Puts the parts of a tile together where the blocks of one cluster have them: each block owns a
// slice of the sums of each of its warpgroups, and the others write their sums of it into its shared
// memory, which counts bytes. So nobody asks, and nobody waits for more than what it adds.
#pragma once

#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/st_async.cuh"
#include "schedule/partition.cuh"

namespace convir::partition {

// For kGroups warpgroups, whose threads hold kSums sums each; part p of a tile is block p of the
// cluster. Sums 4 i to 4 i + 3 of all threads of a warpgroup are column i; a part adds neighbouring
// columns, kMost at most.
template <int kGroups, int kSums, int kParts>
struct PushedSums {
  static constexpr int kThreads = 128;  // of a warpgroup
  static constexpr int kColumns = kSums / 4;
  static constexpr int kMost = (kColumns + kParts - 1) / kParts;
  static constexpr int kGroupBytes = kParts * kMost * kThreads * 16;
  static constexpr int kBytes = kGroups * kGroupBytes;

  const float4* memory;  // kBytes of shared memory that nothing else uses when sums are written
  unsigned address;      // of the same
  unsigned barriers;     // of 8 bytes for each warpgroup, for nothing else
  int group;

  // The first column of a part; and the part that has a column.
  static __device__ __forceinline__ constexpr int begin_of(int part) {
    return kColumns * part / kParts;
  }
  static __device__ __forceinline__ constexpr int part_of(int column) {
    return (kParts * (column + 1) - 1) / kColumns;
  }

  // One thread, before all threads of the cluster meet for the first time.
  static __device__ __forceinline__ void begin(unsigned barriers, int part) {
    const int columns = begin_of(part + 1) - begin_of(part);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      init_barrier(barriers + group * 8, 1);
      arrive_expecting(barriers + group * 8, (kParts - 1) * columns * kThreads * 16);
    }
  }

  // The threads of a warpgroup; store(i, sums) stores a thread's sums of column i.
  template <class Sums, class Store>
  __device__ __forceinline__ void operator()(int part, Sums&& sum, Store&& store) const {
    const int thread = threadIdx.x % kThreads;
    const unsigned arrived = barriers + group * 8;
    const unsigned slots = address + group * kGroupBytes + (part * kMost * kThreads + thread) * 16;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int owner = part_of(i);
      hopper::store_async(slots + (i - begin_of(owner)) * kThreads * 16, arrived, owner, part,
                          make_float4(sum(4 * i), sum(4 * i + 1), sum(4 * i + 2), sum(4 * i + 3)));
    }
    // What a thread adds, the same thread of each block has written.
    hopper::wait_for_stores(arrived);
    const float4* from = memory + group * (kGroupBytes / 16) + thread;
    const int first = begin_of(part), count = begin_of(part + 1) - first;
    // All sums before the first store: their latencies pass together.
    float4 total[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int at = (i < count ? i : 0) * kThreads;
      total[i] = from[at];
#pragma unroll
      for (int p = 1; p < kParts; ++p) add_to(total[i], from[p * kMost * kThreads + at]);
    }
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (i < count) store(first + i, total[i]);
    }
  }
};

}  // namespace convir::partition
