// The accumulators of a tile whose output pixels several groups of four warps share: added up over
// the groups through shared memory, put together over the splits of the tile, and handed to whoever
// stores them.
//
// A group's thread has blocks of four accumulators: those of two rows and two of 8 columns, as
// m16n8k16 has them for the 16 rows of its warp.
#pragma once

#include "arith/sizes.cuh"
#include "ptx/named_barrier.cuh"
#include "schedule/partition.cuh"

namespace convir::consumer_warpgroups {

constexpr int kBarrier = 1;  // of all groups together

// How the splits of a tile become one.
enum Reduction { kLinear, kTree, kReduceScatter, kWithinCluster };

// kBlocks of four accumulators of a thread, for kGroups groups; kShare: groups have splits of the
// same accumulators.
template <int kGroups, int kBlocks, bool kShare = true>
struct Layout {
  static constexpr int kThreads = kGroups * kWarpgroupThreads;
  static constexpr int kSharing = kShare ? kGroups : 1;
  static constexpr int kKept = (kBlocks + kSharing - 1) / kSharing;  // blocks, when groups have added up
  static constexpr int kExchangeBytes = kKept * kThreads * 16;

  static __device__ __forceinline__ void sync() { named_sync(kBarrier, kThreads); }
  // Which block vector v of a tile is, in the numbering of schedule/partition.cuh; not below
  // kBlocks if none.
  static __device__ __forceinline__ int block_of(int v) {
    return (kShare ? v % kThreads / kWarpgroupThreads * kKept : 0) + v / kThreads;
  }
  // The thread whose block that is: of a group if groups share accumulators, else of all.
  static __device__ __forceinline__ int thread_of(int v) {
    return v % (kShare ? kWarpgroupThreads : kThreads);
  }
};

// The accumulators that a thread keeps when the groups have added theirs up. kIsShifted: the second
// group's stand half a block further, so what it calls column c of 8 columns is column c - 4 of the
// first one, and half of its first block is of the block before.
template <int kGroups, int kBlocks, bool kShare = true, bool kIsShifted = false>
struct Kept {
  using L = Layout<kGroups, kBlocks, kShare>;
  static_assert(L::kSharing == 1 || L::kSharing == 2, "two groups exchange halves");
  float of[L::kKept][4];

  // `accumulators(i)` is block i of the thread. Nobody may use `shared` any more.
  template <class Accumulators>
  __device__ __forceinline__ Kept(const Accumulators& accumulators, char* shared, int thread) {
    if constexpr (L::kSharing == 1) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) copy(of[i], accumulators(i));
    } else {
      float4* to = reinterpret_cast<float4*>(shared) + thread % kWarpgroupThreads;
      if (thread < kWarpgroupThreads) {
        keep<0, L::kKept>(accumulators, to, to + L::kKept * kWarpgroupThreads);
      } else {
        keep<L::kKept, 0>(accumulators, to + L::kKept * kWarpgroupThreads, to);
      }
    }
  }

  static __device__ __forceinline__ void copy(float (&to)[4], const float (&from)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) to[k] = from[k];
  }

  // Whether a lane's columns are those of the block before, as the first group calls them.
  static __device__ __forceinline__ bool is_given(int lane) { return lane % 4 < 2; }

  // Keeps kKept blocks from kOwn on, and gives away those from kOther on.
  template <int kOwn, int kOther, class Accumulators>
  __device__ __forceinline__ void keep(const Accumulators& accumulators, float4* to, const float4* from) {
    // The second group writes and reads where the first one does.
    constexpr bool kMoves = kIsShifted && kOther == 0;
    const bool is_before = kMoves && is_given(threadIdx.x);
    if constexpr (kMoves) {
      const int moved = (is_before ? 2 - kWarpgroupThreads : -2);
      to += moved;
      from += moved;
    }
#pragma unroll
    for (int i = 0; i < L::kKept + kMoves; ++i) {
      if (kOther + i >= kBlocks) continue;
      if (kMoves && (i == 0 && is_before || i == L::kKept && !is_before)) continue;
      const float(&given)[4] = accumulators(kOther + i);
      to[i * kWarpgroupThreads] = make_float4(given[0], given[1], given[2], given[3]);
    }
    L::sync();
#pragma unroll
    for (int i = 0; i < L::kKept; ++i) {
      if (kOwn + i < kBlocks) {
        copy(of[i], accumulators(kOwn + i));
        if (kMoves && i == 0 && is_before) continue;
        const float4 other = from[i * kWarpgroupThreads];
        of[i][0] += other.x;
        of[i][1] += other.y;
        of[i][2] += other.z;
        of[i][3] += other.w;
      } else {
        of[i][0] = of[i][1] = of[i][2] = of[i][3] = 0.0f;
      }
    }
  }
};

// Puts a tile's splits together in global memory; `store(block, thread, accumulators)` stores one
// block of a thread, of a group if groups share accumulators. Nobody may use `shared` any more. A
// loop over accumulators needs the addresses of four at a time, not of all, so they pass through
// shared memory, each thread's own. kSplits is their number, 0 if it is known when the kernel runs.
template <Reduction kReduction, int kSplits, int kGroups, int kBlocks, bool kShare, bool kIsShifted,
          class Store>
__device__ __forceinline__ void finish(const partition::Work& work,
                                       Kept<kGroups, kBlocks, kShare, kIsShifted>& kept,
                                       char* shared, float* workspace, unsigned* flags, int thread,
                                       const Store& store) {
  using L = Layout<kGroups, kBlocks, kShare>;
  const auto sum = [&](int i) -> float& { return kept.of[i / 4][i % 4]; };
  const auto store_vector = [&](int v, const float4& total) {
    const int block = L::block_of(v);
    if (block < kBlocks) {
      store(block, L::thread_of(v), {total.x, total.y, total.z, total.w});
    }
  };
  if constexpr (kReduction == kReduceScatter) {
    const partition::ReduceScatter<L::kThreads, 4 * L::kKept, kBarrier, kSplits> shares{workspace, flags,
                                                                                thread};
    shares(work, sum, store_vector);
  } else {
    const partition::FixUp<L::kThreads, 4 * L::kKept, kReduction == kTree, kBarrier> fix_up{
        workspace, flags, thread};
    if (!fix_up(work, sum)) return;
    float4* own = reinterpret_cast<float4*>(shared) + thread;
#pragma unroll
    for (int i = 0; i < L::kKept; ++i) {
      const float(&from)[4] = kept.of[i];
      own[i * L::kThreads] = make_float4(from[0], from[1], from[2], from[3]);
    }
#pragma unroll 1
    for (int i = 0; i < L::kKept; ++i) store_vector(i * L::kThreads + thread, own[i * L::kThreads]);
  }
}

}  // namespace convir::consumer_warpgroups
