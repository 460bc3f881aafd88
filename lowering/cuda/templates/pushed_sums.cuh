// Puts the parts of a tile together where the blocks of one cluster have them: each block owns a
// slice of the sums of each of its warpgroups, and the others write their sums of it into its shared
// memory, which counts bytes. So nobody asks, and nobody waits for more than what it adds.
#pragma once

#include "hopper/async_stores.cuh"
#include "hopper/cluster.cuh"
#include "hopper/mbarrier.cuh"
#include "partition.cuh"

namespace convir::partition {

// For kGroups warpgroups, whose threads hold kSums sums each; part p of a tile is block p of the
// cluster. Vectors of a warpgroup are numbered as in `Slices`.
template <int kGroups, int kSums, int kParts>
struct PushedSums {
  static constexpr int kThreads = 128;  // of a warpgroup
  static constexpr int kVectors = kThreads * kSums / 4;
  static constexpr int kSlice = (kVectors + kParts - 1) / kParts;
  static constexpr int kRounds = (kSlice + kThreads - 1) / kThreads;
  static constexpr int kGroupBytes = kParts * kSlice * 16;
  static constexpr int kBytes = kGroups * kGroupBytes;

  const float4* memory;  // kBytes of shared memory that nothing else uses when sums are written
  unsigned address;      // of the same
  unsigned barriers;     // of 8 bytes for each warpgroup, for nothing else
  int group;

  // The first vector that a part stores, and how many; its threads store every kThreads-th.
  static __device__ __forceinline__ int begin_of(int part) { return part * kSlice; }
  static __device__ __forceinline__ int slice_of(int part) {
    const int rest = kVectors - begin_of(part);
    return rest < 0 ? 0 : rest < kSlice ? rest : kSlice;
  }
  // One thread, before all threads of the cluster meet for the first time.
  static __device__ __forceinline__ void begin(unsigned barriers, int part) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      hopper::barrier_init(barriers + group * 8, 1);
      hopper::arrive_expecting(barriers + group * 8, (kParts - 1) * slice_of(part) * 16);
    }
  }

  // The threads of a warpgroup; store(v, sums) stores vector v of it.
  template <int kBarrier, class Sums, class Store>
  __device__ __forceinline__ void operator()(int part, Sums&& sum, Store&& store) const {
    const int thread = threadIdx.x % kThreads;
    const unsigned arrived = barriers + group * 8;
    const unsigned slots = address + group * kGroupBytes;
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      const int v = i / 4 * kThreads + thread, owner = v / kSlice;
      hopper::store_async(slots + (part * kSlice + v - owner * kSlice) * 16, arrived, owner, part,
                          make_float4(sum(i), sum(i + 1), sum(i + 2), sum(i + 3)));
    }
    hopper::named_sync(kBarrier + group, kThreads);
    hopper::wait_for_stores(arrived);
    const float4* from = memory + group * kParts * kSlice + thread;
    const int count = slice_of(part);
    // All sums before the first store: their latencies pass together.
    float4 total[kRounds];
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int v = i * kThreads + thread < count ? i * kThreads : -thread;
      total[i] = from[v];
#pragma unroll
      for (int p = 1; p < kParts; ++p) add_to(total[i], from[p * kSlice + v]);
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int v = i * kThreads + thread;
      if (v < count) store(part * kSlice + v, total[i]);
    }
  }
};

}  // namespace convir::partition
