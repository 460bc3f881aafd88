// Consumer warpgroups that have input channels of their own finish apart; see
// sm90_row_packed_wgrad/kernel.cuh.
//
// Groups that finish together leave the tensor cores idle while they publish. So the second one
// waits before its last steps until the first has multiplied all of its own: then each has the
// tensor cores alone for as long, and one publishes while the other multiplies.
#pragma once

#include "ptx/named_barrier.cuh"
#include "sm90_row_packed_wgrad/row_ring.cuh"

namespace convir::row_packed_wgrad {

constexpr int kStaggerBarrier = 4;  // behind those of two groups, and of the producer warps

template <class P, class C, class S>
struct Apart {
  using L = Layout<P, C>;
  static constexpr bool kFinish =
      C::kReduction == consumer_warpgroups::kReduceScatter && C::kConsumerWarpgroups == 2 && !L::kShareAccumulators;
  static constexpr bool kStaggers = kFinish && L::kHasRoles;
  static constexpr int kLastSlabs = 16;  // multiplied while accumulators of as many columns are published
  static constexpr int kMostLag = C::kStages - (C::kIsRing ? 1 : 0);  // steps that are there at once
  static constexpr int kWanted = L::kSlabs < kLastSlabs ? kLastSlabs / L::kSlabs : 1;
  static constexpr int kLag = kWanted < kMostLag ? kWanted : kMostLag;

  int turn;  // the step before which the second group waits

  __device__ __forceinline__ explicit Apart(const partition::Work& work)
      : turn(max(work.begin, work.end - kLag)) {}

  // Where a run of steps from `begin` on ends: those before a turn, and those behind it.
  __device__ __forceinline__ int end(int begin, int end) const {
    return kStaggers && begin < turn ? min(end, turn) : end;
  }
  __device__ __forceinline__ void wait(int step, int group) const {
    if constexpr (kStaggers) {
      named_sync_if(group == 1 && step == turn, kStaggerBarrier, L::kConsumerThreads);
    }
  }
  __device__ __forceinline__ void is_done(int group) const {
    if constexpr (kStaggers) {
      named_arrive_if(group == 0, kStaggerBarrier, L::kConsumerThreads);
    }
  }

  // Each group meets those of other splits with shares and counters of its own; `store` as in
  // consumer_warpgroups::finish.
  template <class Accumulators, class Store>
  static __device__ __forceinline__ void finish(const partition::Work& work, const Accumulators& accumulators,
                                                float* workspace, unsigned* flags, int thread,
                                                const Store& store) {
    constexpr int kAccumulators = 4 * L::kTiles8;
    constexpr long long kOfGroup = static_cast<long long>(S::kUnits) * kWarpgroupThreads * kAccumulators;
    const int group = thread / kWarpgroupThreads;
    const partition::ReduceScatter<kWarpgroupThreads, kAccumulators, consumer_warpgroups::kBarrier, S::kSplitsOfTile> shares{
        workspace + group * kOfGroup, flags + group * L::kTiles * partition::kCounterWords,
        thread % kWarpgroupThreads, group};
    shares(
        work, [&](int i) { return accumulators(i / 4)[i % 4]; },
        [&](int v, const float4& total) {
          store(v / kWarpgroupThreads, group * kWarpgroupThreads + v % kWarpgroupThreads,
                {total.x, total.y, total.z, total.w});
        });
  }
};

// reduce(begin, end, group of rows) for the steps of a part, in runs behind which products are
// drained: those before a turn, and those of an image whose rows stay in a ring.
template <class P, class C, class S, class Reduce>
__device__ __forceinline__ void in_runs(const partition::Work& work, int group, Reduce&& reduce) {
  RingGroup<P, C> rows;
  if constexpr (C::kIsRing || Apart<P, C, S>::kStaggers) {
    const Apart<P, C, S> apart(work);
    for (int begin = work.begin, end; begin < work.end; begin = end) {
      end = apart.end(begin, C::kIsRing ? min(work.end, image_end<P, C>(begin)) : work.end);
      apart.wait(begin, group);
      reduce(begin, end, rows);
      rows.advance(starts_image<P, C>(end));
    }
    apart.is_done(group);
  } else {
    reduce(work.begin, work.end, rows);
  }
}

}  // namespace convir::row_packed_wgrad
