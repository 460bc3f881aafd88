// Accumulators that leave while others are multiplied; see sm90_row_packed_wgrad/kernel.cuh.
//
// `Apart`: consumer warpgroups that have input channels of their own finish apart. Groups that
// finish together leave the tensor cores idle while they publish. So the second one waits before its
// last steps until the first has multiplied all of its own: then each has the tensor cores alone for
// as long, and one publishes while the other multiplies.
//
// `Halves`: splits that are put together in a cluster, and whose steps have a stage each. Half of
// the columns is multiplied after the other, so that accumulators of the first half are on their way
// to other blocks meanwhile. Not for the last steps of more: ptxas lets products wait for each other
// that share accumulators with wider ones.
#pragma once

#include "pipeline/state.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/wgmma.cuh"
#include "sm90_row_packed_wgrad/row_ring.cuh"
#include "sm90_row_packed_wgrad/tile.cuh"

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
    const int group = thread / kWarpgroupThreads;
    using ReduceScatter = partition::ReduceScatter<kWarpgroupThreads, kAccumulators,
                                                   consumer_warpgroups::kBarrier, S::kSplitsOfTile>;
    const auto shares = ReduceScatter::template of_group<S::kUnits, L::kTiles>(
        workspace, flags, thread % kWarpgroupThreads, group);
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

template <class P, class C>
struct Halves {
  using L = Layout<P, C>;
  static constexpr int kFirst8 = (L::kStack8 + 1) / 2, kOthers8 = L::kStack8 - kFirst8;
  static constexpr int kMostProducts = 32;
  static constexpr int kSteps = C::kSplitSteps;  // of every split; 0 if they differ
  static constexpr int kProducts = kSteps * L::kSlabs;
  static constexpr bool kAreUsed = L::kIsClustered && C::kTapCols == 1 && C::kConsumerWarpgroups == 1 &&
                                   C::kIsBulk && !C::kHasRegisters && kOthers8 > 0 &&
                                   kSteps <= C::kStages && 1 < kProducts &&
                                   kProducts <= kMostProducts;

  // Multiplies all steps of a part, and sends its accumulators. Products wait in a short queue, so
  // accumulators are sent between them, a few at a time.
  template <class Block, class Accumulators>
  static __device__ __forceinline__ void multiply(const Block& block, Accumulators& accumulators, int split,
                                                  Consumer<C::kStages>& full, int thread) {
    const auto pushed = block.pushed();
    const auto sum = [&](int i) { return accumulators(i / 4)[i % 4]; };
    pushed.begin(split, thread);
    unsigned at[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      at[i] = block.stages + full.at.stage * L::kStageBytes;
      full.wait();
      hopper::wgmma_fence();
#pragma unroll
      for (int slab = 0; slab < L::kSlabs; ++slab) product<0, kFirst8>(accumulators, at[i], slab);
      full.at.advance();
    }
    hopper::wgmma_commit();
    product<kFirst8, kOthers8>(accumulators, at[0], 0);
    hopper::wgmma_commit();
    hopper::wgmma_wait<1>();
    hold<0, kFirst8>(accumulators);
    send_between<1>(pushed, accumulators, at, split, thread, sum);
    hopper::wgmma_commit();
    hopper::wgmma_wait<0>();
    hold<kFirst8, kOthers8>(accumulators);
    pushed.template send<kFirst8, L::kStack8>(split, thread, sum);
  }

  // Products of the second half from `kFrom` on, each with its share of the first half's
  // accumulators.
  template <int kFrom, class Pushed, class Accumulators, class Sum>
  static __device__ __forceinline__ void send_between(const Pushed& pushed, Accumulators& accumulators,
                                                      const unsigned* at, int split, int thread,
                                                      Sum&& sum) {
    if constexpr (kFrom < kProducts) {
      product<kFirst8, kOthers8>(accumulators, at[kFrom / L::kSlabs], kFrom % L::kSlabs);
      constexpr int kOf = kProducts - 1;
      pushed.template send<(kFrom - 1) * kFirst8 / kOf, kFrom * kFirst8 / kOf>(split, thread, sum);
      send_between<kFrom + 1>(pushed, accumulators, at, split, thread, sum);
    }
  }

  // Adds a slab's products for columns 8 kBegin8 to 8 (kBegin8 + kCount8).
  template <int kBegin8, int kCount8, class Accumulators>
  static __device__ __forceinline__ void product(Accumulators& accumulators, unsigned stage, int slab) {
    const typename Accumulators::Operands of(stage, stage + L::kXBytes);
    hopper::Wgmma<typename P::E, 8 * kCount8, hopper::kMajorMN, hopper::kMajorMN>::run(
        accumulators.accumulators[0][kBegin8],
        hopper::moved(of.from_x, Accumulators::x_of(slab)),
        hopper::moved(of.from_y, Accumulators::y_of(slab) + kBegin8 * L::kPlaneBytes));
  }
  template <int kBegin8, int kCount8, class Accumulators>
  static __device__ __forceinline__ void hold(Accumulators& accumulators) {
#pragma unroll
    for (int i = kBegin8; i < kBegin8 + kCount8; ++i) hopper::hold(accumulators.accumulators[0][i]);
  }
};

}  // namespace convir::row_packed_wgrad
