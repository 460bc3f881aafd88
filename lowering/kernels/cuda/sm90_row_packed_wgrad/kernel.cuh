// Backward weight on Hopper where windows move by single output pixels, with taps that are one row
// apart stacked along the columns of one wgmma:
//
//   dW[r, s][d, n] = sum over (y, x) of X[y, x, d] * dY[y - row(r), x - col(s), n]
//
// A block keeps, for 64 or 128 input channels d, the accumulators of kTapRows x kTapCols taps and
// kOutChannels columns n in registers. X arrives by TMA and is multiplied as it lies. Rows of dY
// are planes of 8 columns in shared memory, and rows follow each other as planes do: so the columns
// of kTapRows taps stand at equal distances, those of the last row first, and are one wgmma. Taps
// of a row are other start addresses. So an element of X is read once from memory for all taps.
//
// Pipelines: uniform (every warp copies and multiplies), or roles: kLoadWarps warps copy dY, whose
// rows may be of any length, and the others multiply. One thread asks for X. Partitions:
// schedule/partition.cuh and reduce/cluster_reduction.cuh. `P` and `C` are structs of constants,
// which lowering/kernels/cuda/sm90_row_packed_wgrad/launch.py writes.
#pragma once

#include "pipeline/multistage.cuh"
#include "pipeline/warp_specialized.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "sm90_row_packed_wgrad/accumulators.cuh"
#include "sm90_row_packed_wgrad/finish.cuh"
#include "sm90_row_packed_wgrad/load.cuh"
#include "sm90_row_packed_wgrad/row_ring.cuh"

namespace convir::row_packed_wgrad {

constexpr int kMostUnrolled = 16;  // slabs of a group in a step, where both operands are in memory

template <class P, class C, class S>
struct Block {
  using L = Layout<P, C>;
  static constexpr int kConsumerWarps = L::kConsumerThreads / 32;
  // Who arrives at a full stage, beside the thread that asks for X.
  static constexpr int kCopying = !L::kHasRoles ? 0
                                  : C::kIsBulk  ? C::kLoadWarps * kWarpArrivals
                                                : L::kLoadThreads;

  using Tiles = partition::Tiles<S>;
  using Work = partition::Work;
  using Producer = convir::Producer<C::kStages>;
  using Consumer = convir::Consumer<C::kStages>;

  unsigned stages;
  char* memory;  // of the stages, and of their accumulators
  Pipeline<C::kStages> pipeline;
  Drain drain;
  unsigned arrived;

  __device__ __forceinline__ explicit Block(char* shared)
      : stages(hopper::to_atom(static_cast<int>(shared_address(shared)))),
        memory(shared + (stages - shared_address(shared))),
        pipeline(stages + L::kBarriersAt),
        drain{pipeline.full + pipeline.kBytes},
        arrived(drain.barrier + 8) {}

  // Makes the barriers. Who asks for rows makes those that it needs itself, and asks for the first
  // ones before it meets the others: ask_rows(place, work).
  template <class AskRows>
  __device__ __forceinline__ void begin(AskRows&& ask_rows) const {
    if (threadIdx.x == 0) {
      pipeline.init(1 + kCopying, kConsumerWarps * kWarpArrivals);
      init_barrier(drain.barrier, kConsumerWarps * kWarpArrivals);
      if constexpr (L::kIsClustered) init_barrier(arrived + 8 * C::kWaiting, 1);
      fence_barrier_init();
    }
    if (C::kIsBulk && BulkRows<P, C>::is_asking(threadIdx.x)) {
      for (int i = 0; i < C::kWaiting; ++i) init_barrier(arrived + 8 * i, 1);
      fence_barrier_init();
      partition::Work work{};
      typename S::Walk(unit()).next(work);
      ask_rows(Place<P, C>(work.tile), work);
    }
    __syncthreads();
    if constexpr (L::kIsClustered) hopper::cluster_arrive_relaxed();
  }

  // The splits of a tile are one cluster where they are put together in it.
  static __device__ __forceinline__ int unit() {
    if constexpr (!L::kIsClustered) return blockIdx.x;
    return blockIdx.x % C::kSplits * (gridDim.x / C::kSplits) + blockIdx.x / C::kSplits;
  }

  __device__ __forceinline__ void load(const Filler<P, C>& filler) const {
    Drain drained = drain;
    produce(Tiles{unit()}, pipeline, [&](const Work& work, Producer& fill) {
      const Place<P, C> place(work.tile);
      drained.wait();
      for (int i = work.begin; i < work.end; ++i) {
        const Step<P, C> step(i);
        fill([&](int slot, unsigned full) {
          const unsigned stage = stages + slot * L::kStageBytes;
          filler.ask_x(place, step, stage, full);
          filler.fill_y(place, step, stage + L::kXBytes);
          arrive_after_copies(full);
        });
      }
    });
  }

  // The same where rows of dY arrive as they lie. Those of a block's first kTogether steps are
  // taken apart in one go, as nothing can be multiplied meanwhile.
  __device__ __forceinline__ void load(const Filler<P, C>& filler,
                                       const BulkRows<P, C>& rows) const {
    PipelineState<C::kWaiting> taken;
    Drain drained = drain;
    produce(Tiles{unit()}, pipeline, [&](const Work& work, Producer& fill) {
      const Place<P, C> place(work.tile);
      const auto ask_x = [&](int step, int slot) {
        filler.ask_x(place, Step<P, C>(step), stages + slot * L::kStageBytes,
                     pipeline.full + 8 * slot);
      };
      int i = work.begin;
      const bool is_first = drained.tiles == 0;
      drained.wait();
      if (!is_first) {
        for (int k = 0; k < C::kWaiting; ++k) {
          ask(rows, place, i + k, work.end, (taken.stage + k) % C::kWaiting);
        }
      } else if constexpr (C::kTogether > 1) {
        const int prologue = min(work.end - i, C::kTogether);
        for (int k = 0; k < prologue; ++k) ask_x(i + k, k);
        fill_y<C::kTogether>(rows, place, i, prologue, work.end, fill.at, taken);
        i += prologue;
      }
      for (; i < work.end; ++i) {
        fill.wait();
        ask_x(i, fill.at.stage);
        fill_y<1>(rows, place, i, 1, work.end, fill.at, taken);
      }
    });
  }
  // Takes rows of some steps apart whose stages follow each other, and asks for those that come
  // where these were.
  template <int kMost>
  __device__ __forceinline__ void fill_y(const BulkRows<P, C>& rows, const Place<P, C>& place,
                                         int begin, int steps, int end, PipelineState<C::kStages>& ring,
                                         PipelineState<C::kWaiting>& taken) const {
    for (int k = 0; k < steps; ++k) wait_barrier(arrived + 8 * (taken.stage + k), taken.phase);
    rows.template take_apart<kMost>(place, begin, steps, staging(taken.stage),
                                    stages + ring.stage * L::kStageBytes);
    hopper::fence_proxy();  // wgmma reads what was written
    __syncwarp();
    for (int k = 0; k < steps; ++k) arrive_for_warp(pipeline.full + 8 * (ring.stage + k));
    ring.advance(steps);
    if (begin + C::kWaiting < end) {
      named_sync(kLoadBarrier, L::kLoadThreads);  // all warps have read them
      for (int k = 0; k < steps; ++k) {
        ask(rows, place, begin + k + C::kWaiting, end, taken.stage + k);
      }
    }
    taken.advance(steps);
  }
  __device__ __forceinline__ void ask(const BulkRows<P, C>& rows, const Place<P, C>& place, int step,
                                      int end, int slot) const {
    if (step < end) rows.ask(place, Step<P, C>(step), staging(slot), arrived + 8 * slot);
  }
  __device__ __forceinline__ unsigned staging(int slot) const {
    return stages + L::kStagesBytes + slot * L::kWaitingBytes;
  }

  template <class Epilogue>
  __device__ __forceinline__ void multiply(typename Epilogue::Stored* out, float* workspace,
                                           unsigned* flags, int thread) const {
    if constexpr (Halves<P, C>::kAreUsed) {
      Consumer full(pipeline);
      Work work;  // of a cluster's block the only one
      typename S::Walk(unit()).next(work);
      Accumulators<P, C> accumulators;
      accumulators.clear();
      Halves<P, C>::multiply(*this, accumulators, work.split, full, thread);
      return add_pushed<Epilogue>(Place<P, C>(work.tile), work, out);
    }
    const auto multiply_tile = [&](const Work& work, Accumulators<P, C>& accumulators,
                                   Consumer& full) {
      const Place<P, C> place(work.tile);
      accumulators.clear();
      const int group = thread / kWarpgroupThreads;
      in_runs<P, C, S>(work, group, [&](int begin, int end, RingGroup<P, C>& rows) {
        reduce(accumulators, place, begin, end, full, rows, group);
      });
      return true;
    };
    consume<Accumulators<P, C>>(
        Tiles{unit()}, pipeline, multiply_tile,
        [&](const Work& work, const Accumulators<P, C>& accumulators) {
          const Place<P, C> place(work.tile);
          finish<Epilogue>(accumulators, place, work, out, workspace, flags, thread);
          hopper::fence_proxy();
          drain.arrive();
        });
  }

  // Every warp copies, then multiplies.
  template <class Epilogue>
  __device__ __forceinline__ void copy_and_multiply(const Filler<P, C>& filler,
                                                    typename Epilogue::Stored* out,
                                                    float* workspace, unsigned* flags) const {
    const int thread = threadIdx.x;
    PipelineState<C::kStages> writing;
    const auto multiply_tile = [&](const Work& work, Accumulators<P, C>& accumulators,
                                   Consumer& full) {
      const Place<P, C> place(work.tile);
      accumulators.clear();
      const Taps taps(place);
      const int group = thread / kWarpgroupThreads;
      const unsigned tile_m = L::kShareAccumulators ? 0 : group * L::kXChannelsBytes;
      int turn = L::kSlabGroups > 1 ? group : 0;
      multistage<C::kStages, 1>(
          work.end - work.begin,
          [&](int next, int) {
            const Step<P, C> step(work.begin + next);
            const unsigned stage = stages + writing.stage * L::kStageBytes;
            filler.ask_x(place, step, stage, pipeline.full + 8 * writing.stage);
            filler.fill_y(place, step, stage + L::kXBytes);
            writing.advance();
          },
          [&] {
            full.wait();
            hopper::fence_proxy();  // cp.async wrote what wgmma reads
          },
          [&](int, int) {
            const unsigned stage = stages + full.at.stage * L::kStageBytes;
            const Operands<P, C> operands(stage + tile_m, stage + L::kXBytes);
            for (int slab = turn; slab < L::kSlabs; slab += L::kSlabGroups) {
              accumulators.multiply(operands, slab, taps.shift);
            }
            hopper::wgmma_wait<0>();
            accumulators.hold();
            if constexpr (L::kSlabs % L::kSlabGroups != 0) turn ^= 1;
            full.at.advance();
          },
          [](int, int) {});
      return true;
    };
    consume<Accumulators<P, C>>(
        Tiles{unit()}, pipeline, multiply_tile,
        [&](const Work& work, const Accumulators<P, C>& accumulators) {
          const Place<P, C> place(work.tile);
          finish<Epilogue>(accumulators, place, work, out, workspace, flags, thread);
          hopper::fence_proxy();
          __syncthreads();
        });
  }

  template <class Epilogue>
  __device__ __forceinline__ void finish(const Accumulators<P, C>& accumulators, const Place<P, C>& place,
                                         const partition::Work& work,
                                         typename Epilogue::Stored* out, float* workspace,
                                         unsigned* flags, int thread) const {
    const auto store_four = [&](int tile8, int of, const float(&four)[4]) {
      store<P, C, Epilogue>(out, place, tile8, of, four);
    };
    if constexpr (Apart<P, C, S>::kFinish) {
      return Apart<P, C, S>::finish(work, accumulators, workspace, flags, thread, store_four);
    }
    L::Groups::sync();  // nobody reads the pipeline any more
    typename L::Kept kept(accumulators, memory, thread);
    if constexpr (C::kReduction == consumer_warpgroups::kLinear || C::kReduction == consumer_warpgroups::kTree) {
      L::Groups::sync();  // the exchanged accumulators have been read
    }
    if constexpr (L::kIsClustered) {
      pushed().begin(work.split, thread);
      pushed().send(work.split, thread, [&](int i) { return kept.of[i / 4][i % 4]; });
      add_pushed<Epilogue>(place, work, out);
    } else {
      consumer_warpgroups::finish<C::kReduction, S::kSplitsOfTile>(work, kept, memory, workspace, flags,
                                                          thread, store_four);
    }
  }

  // The accumulators that the blocks of a cluster write to each other.
  __device__ __forceinline__ typename L::Pushed pushed() const {
    return {reinterpret_cast<const float4*>(memory + L::kPushedAt), stages + L::kPushedAt,
            arrived + 8 * C::kWaiting};
  }
  template <class Epilogue>
  __device__ __forceinline__ void add_pushed(const Place<P, C>& place, const partition::Work& work,
                                             typename Epilogue::Stored* out) const {
    pushed().template add<L::kThreads>(work.split, threadIdx.x, [&](int v, const float4& accumulators) {
      const int tile8 = L::Groups::block_of(v);
      if (tile8 >= L::kTiles8) return;
      store<P, C, Epilogue>(out, place, tile8, L::Groups::thread_of(v),
                            {accumulators.x, accumulators.y, accumulators.z, accumulators.w});
    });
  }
  // What producer warps do when splits are added: they add with the others.
  template <class Epilogue>
  __device__ __forceinline__ void help_adding(typename Epilogue::Stored* out) const {
    __syncwarp();
    hopper::cluster_wait();  // barriers count all threads of a cluster
    partition::Work work;
    typename S::Walk walk(unit());
    walk.next(work);
    add_pushed<Epilogue>(Place<P, C>(work.tile), work, out);
  }

  // Where the taps of a row begin.
  struct Taps {
    int shift[C::kTapCols];

    __device__ __forceinline__ explicit Taps(const Place<P, C>& place) {
#pragma unroll
      for (int s = 0; s < C::kTapCols; ++s) {
        shift[s] = place.last_col - entry(P::kTapCol, min(place.tap_col + s, P::kAllTapCols - 1));
      }
    }
  };

  // Groups have input channels of their own, or take turns of slabs; one frees a stage when it is
  // in the next.
  __device__ __forceinline__ void reduce(Accumulators<P, C>& accumulators, const Place<P, C>& place,
                                         int begin, int end, Consumer& full,
                                         RingGroup<P, C>& rows, int group) const {
    const Taps taps(place);
    int held = 0;
    const unsigned tile_m = L::kShareAccumulators ? 0 : group * L::kXChannelsBytes;
    int turn = L::kSlabGroups > 1 ? group : 0;
    for (int step = begin; step < end; ++step) {
      const unsigned stage = stages + full.at.stage * L::kStageBytes;
      if (C::kIsRing && step > begin) rows.advance(false);
      const unsigned y = C::kIsRing ? stages + L::kRingAt + rows.bytes() : stage + L::kXBytes;
      full.wait();
      if constexpr (!C::kIsBulk) hopper::fence_proxy();  // cp.async wrote what wgmma reads
      const Operands<P, C> operands(stage + tile_m, y);
      const auto staggered = [&](int slab, auto&&... a) {
        accumulators.multiply(operands, slab, taps.shift, a...);
      };
      // wgmma reads registers until the next one but one is under way; a step of one slab has no
      // others.
      [[maybe_unused]] unsigned first[4], a[2][4];
      if constexpr (C::kHasRegisters) {
        staggered(turn, first);
      } else {
        staggered(turn);
      }
      hopper::wgmma_wait<(C::kHasRegisters && L::kSlabs == L::kSlabGroups ? 0 : 1)>();
      if (step > begin) full.release(held);
      held = full.at.stage;
      if constexpr (C::kHasRegisters) {
#pragma unroll
        for (int i = 1; i < L::kSlabs / L::kSlabGroups; ++i) {
          staggered(turn + i * L::kSlabGroups, a[i % 2]);
          hopper::wgmma_wait<1>();
        }
      } else if constexpr (L::kSlabs % L::kSlabGroups == 0 && L::kSlabs <= kMostUnrolled * L::kSlabGroups) {
        // No branches: what is between two products takes longer than a short one.
#pragma unroll
        for (int i = 1; i < L::kSlabs / L::kSlabGroups; ++i) staggered(turn + i * L::kSlabGroups);
      } else {
        for (int slab = turn + L::kSlabGroups; slab < L::kSlabs; slab += L::kSlabGroups) {
          staggered(slab);
        }
        if constexpr (L::kSlabs % L::kSlabGroups != 0) turn ^= 1;
      }
      full.at.advance();
    }
    hopper::wgmma_wait<0>();
    accumulators.hold();
    full.release(held);
  }
};

template <class P, class C, class S, class Epilogue>
__device__ __forceinline__ void run(const TensorMap& x, const typename P::E* y,
                                    typename Epilogue::Stored* out, float* workspace,
                                    unsigned* flags) {
  using L = Layout<P, C>;
  using B = Block<P, C, S>;
  constexpr int kWarps = L::kThreads / 32;
  extern __shared__ char shared[];
  const B block(shared);
  if (threadIdx.x == 0) hopper::prefetch_map(&x);
  const int thread = threadIdx.x;
  const Filler<P, C> filler{&x, y, thread};
  const BulkRows<P, C> rows{reinterpret_cast<const char*>(y), thread};
  block.begin([&](const Place<P, C>& place, const partition::Work& work) {
    if constexpr (C::kIsRing) {
      ask_first(block, RingRows<P, C>{reinterpret_cast<const char*>(y), thread}, place, work);
    } else {
      for (int i = 0; i < C::kWaiting; ++i) block.ask(rows, place, work.begin + i, work.end, i);
    }
  });
  if constexpr (!L::kHasRoles) {
    block.template copy_and_multiply<Epilogue>(filler, out, workspace, flags);
  } else {
    Roles<C::kTradesRegisters, kLoadRegisters<kWarps>, kConsumerRegisters<kWarps>>::run(
        thread < L::kLoadThreads,
        [&] {
          if constexpr (C::kIsRing) {
            load_ring<P, C, S>(block, filler, {reinterpret_cast<const char*>(y), thread});
          } else if constexpr (C::kIsBulk) {
            block.load(filler, rows);
          } else {
            block.load(filler);
          }
          if constexpr (L::kIsClustered) block.template help_adding<Epilogue>(out);
        },
        [&] {
          block.template multiply<Epilogue>(out, workspace, flags, thread - L::kLoadThreads);
        });
  }
}

}  // namespace convir::row_packed_wgrad
