// Puts the splits of a tile together where each thread stores what it has accumulated itself, a few
// of its vectors at a time: every split publishes all of its accumulators, waits for all others, and
// then has the totals of its share of the vectors, in registers, thread by thread as they were. So
// what stores a whole tile's accumulators stores a share of them too, its epilogue included. All
// blocks of a tile run at the same time (a cooperative launch); splits are added in ascending order.
//
// A vector is four accumulators of a thread. A slot of the workspace is a split's, of the kThreads
// threads of one of kGroups groups that share the rows of a tile.
#pragma once

#include "arith/sizes.cuh"
#include "schedule/partition.cuh"

namespace convir::partition {

template <int kThreads, int kAccumulators, int kSplits, int kGroups, int kBarrier>
struct SplitShares {
  static_assert(kAccumulators % 4 == 0, "accumulators are written in vectors of four");
  static constexpr int kVectors = kAccumulators / 4;
  static constexpr int kAtOnce = 128;  // loaded accumulators that a thread waits for at a time

  float4* slots;  // of the tile: vector 0 of the thread in split 0
  long long step;  // vectors between a split's slot and the next one's
  unsigned* counter;
  int thread, group;

  // `tiles` are those of the launch; `thread` is that of a group.
  __device__ __forceinline__ SplitShares(float* workspace, unsigned* counters, int tile, int tiles,
                                         int of_thread, int of_group)
      : slots(reinterpret_cast<float4*>(workspace) +
              static_cast<long long>(tile * kGroups + of_group) * (kVectors * kThreads) + of_thread),
        step(static_cast<long long>(tiles) * kGroups * (kVectors * kThreads)),
        counter(counters + (tile * kGroups + of_group) * kCounterWords),
        thread(of_thread),
        group(of_group) {}

  // store(share) stores one of kShares, equal numbers of adjacent vectors, of which this block has
  // its part; `sum(i)` is accumulator i of the thread.
  template <int kShares, class Accumulators, class Store>
  __device__ __forceinline__ void finish(int split, Accumulators&& sum, Store&& store) const {
    float4* const own = slots + split * step;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      __stcg(own + i * kThreads,
             make_float4(sum(4 * i), sum(4 * i + 1), sum(4 * i + 2), sum(4 * i + 3)));
    }
    const Meeting<kThreads, kBarrier, kSplits> meeting = {slots, step, kSplits, counter, thread, group};
    meeting.when_all_are_there([&] {
      const int end = kShares * (split + 1) / kSplits;
#pragma unroll 1
      for (int share = kShares * split / kSplits; share < end; ++share) store(share);
    });
  }

  // The totals of kCount accumulators of the thread, from vector `first` on.
  template <int kCount>
  __device__ __forceinline__ void add(float (&total)[kCount], int first) const {
    constexpr int kOf = kCount / 4, kRound = smaller(kSplits, larger(1, kAtOnce / kCount));
    static_assert(kCount % 4 == 0);
#pragma unroll
    for (int i = 0; i < kCount; ++i) total[i] = 0.0f;
#pragma unroll 1
    for (int begin = 0; begin < kSplits; begin += kRound) {
      float4 x[kRound][kOf];
#pragma unroll
      for (int split = 0; split < kRound; ++split) {
#pragma unroll
        for (int i = 0; i < kOf; ++i) {
          if (begin + split < kSplits) {
            x[split][i] = __ldcg(slots + (begin + split) * step + (first + i) * kThreads);
          }
        }
      }
#pragma unroll
      for (int split = 0; split < kRound; ++split) {
        if (begin + split >= kSplits) continue;
#pragma unroll
        for (int i = 0; i < kOf; ++i) {
          total[4 * i] += x[split][i].x;
          total[4 * i + 1] += x[split][i].y;
          total[4 * i + 2] += x[split][i].z;
          total[4 * i + 3] += x[split][i].w;
        }
      }
    }
  }
};

}  // namespace convir::partition
