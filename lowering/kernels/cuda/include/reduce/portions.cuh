// The parts of a tile become one in two portions of every thread's sums: the first is on its way
// while the second is still multiplied. Vectors of a tile are numbered as in `Slices` (schedule/partition.cuh).
#pragma once

#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "schedule/partition.cuh"

namespace convir::partition {

// For kThreads threads with kSums sums each, the first kFirstSums of which are the first portion.
template <int kThreads, int kSums, int kFirstSums, int kParts>
struct Portions {
  static_assert(kSums % 4 == 0 && kFirstSums % 4 == 0);
  static constexpr int kVectors = kThreads * kSums / 4;  // of a tile

  static constexpr int first(int portion) { return portion == 0 ? 0 : kThreads * kFirstSums / 4; }
  static constexpr int count(int portion) {
    return kThreads * (portion == 0 ? kFirstSums : kSums - kFirstSums) / 4;
  }
  // Vectors of a portion that a part adds, but for the last part, which may have fewer.
  static constexpr int slice(int portion) { return (count(portion) + kParts - 1) / kParts; }
  static __device__ __forceinline__ int slice_of(int portion, int part) {
    const int rest = count(portion) - part * slice(portion);
    return rest < 0 ? 0 : rest < slice(portion) ? rest : slice(portion);
  }
};

// Where one cluster has all parts: a block owns a slice of each portion, and the others write their
// sums of it into its shared memory, which counts bytes. So nobody asks, and nobody waits for more
// than its own slice. Part p is block p of the cluster.
template <int kThreads, int kSums, int kFirstSums, int kParts, int kBarrier>
struct PushedPortions {
  using P = Portions<kThreads, kSums, kFirstSums, kParts>;
  static constexpr int kBytes = kParts * (P::slice(0) + P::slice(1)) * 16;

  const float4* memory;  // kBytes of shared memory for nothing else
  unsigned address;      // of the same
  unsigned barriers;     // two, for nothing else
  int thread;            // 0 to kThreads - 1

  static __device__ __forceinline__ void begin(unsigned barriers, int part) {
#pragma unroll
    for (int portion = 0; portion < 2; ++portion) {
      hopper::barrier_init(barriers + portion * 8, 1);
      hopper::arrive_expecting(barriers + portion * 8,
                               (kParts - 1) * P::slice_of(portion, part) * 16);
    }
  }

  static __device__ __forceinline__ int place(int portion, int part) {
    return portion * kParts * P::slice(0) + part * P::slice(portion);
  }

  template <int kPortion, int kCount>
  __device__ __forceinline__ void publish(const Work& work, const float (&sums)[kCount]) const {
    constexpr int kSlice = P::slice(kPortion);
    const unsigned own = address + place(kPortion, work.part) * 16;
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const int v = i / 4 * kThreads + thread, owner = v / kSlice;
      const float4 x = make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
      hopper::store_async(own + (v - owner * kSlice) * 16, barriers + kPortion * 8, owner,
                          work.part, x);
    }
  }

  template <int kPortion, class Store>
  __device__ __forceinline__ void add(const Work& work, Store&& store) const {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
    hopper::wait(barriers + kPortion * 8, 0);
    const float4* from = memory + place(kPortion, 0);
    add_parts<kThreads, kParts>(
        kParts, 0, P::slice_of(kPortion, work.part), thread,
        [&](int part, int v) { return from[part * P::slice(kPortion) + v]; },
        [&](int v, const float4& total) {
          store(P::first(kPortion) + work.part * P::slice(kPortion) + v, total);
        });
  }
};

}  // namespace convir::partition
