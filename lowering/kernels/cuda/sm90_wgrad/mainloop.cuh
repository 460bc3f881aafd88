// The gradient of weights on Hopper: B[n, m] = sum over output pixels of C[position, m] *
// A[position at the tap of n, channel of n], where m is a column of C (an output channel) and n
// counts the input channels (input channels) of all taps, in chunks of 64. Both operands lie in
// shared memory as TMA brings them, and are multiplied as they lie: 64 output pixels times 64
// channels (MN major), or 64 channels times 128 bytes of output pixels (K major) of an operand
// whose pixels are contiguous.
#pragma once

#include "mma/sm90_tile.cuh"
#include "pipeline/warp_specialized.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mma_sync.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "reduce/cluster_reduction.cuh"
#include "schedule/partition.cuh"
#include "sm90_wgrad/planes.cuh"
#include "sm90_wgrad/store.cuh"

namespace convir::wgrad {

using hopper::TensorMap;
using partition::Work;

constexpr int kBoxBytes = kChunk * hopper::kSwizzleBytes;
constexpr int kConsumerRegisters = 232;
// Barriers of a block, beside 0; each warpgroup has kFixUp and what follows.
constexpr int kReady = 1, kTurn = 2, kFixUp = 3;

template <class Problem, class Config>
struct Kernel {
  using Input = typename Problem::Input;
  using Output = typename Problem::Epilogue::Stored;
  using Layout = wgrad::Layout<Problem, Config>;
  using Fours = typename Layout::Fours;

  static constexpr int kBlockK = hopper::kSwizzleBytes / sizeof(Input);  // output pixels of a stage
  using Planes = wgrad::Planes<Problem, kBlockK>;
  static constexpr hopper::Major kMajorC = Problem::kPlanesC ? hopper::kMajorK : hopper::kMajorMN;
  static constexpr hopper::Major kMajorA = Problem::kPlanesA ? hopper::kMajorK : hopper::kMajorMN;
  static constexpr bool kIsSplit = Config::kIsSplit;
  static_assert(Problem::kPlanesC || !Problem::kPlanesA);

  static constexpr int kStages = Config::kStages;
  static constexpr int kBoxesM = Layout::kBoxesM, kBoxesN = Layout::kBoxesN;
  static constexpr int kStageBytes = (kBoxesM + kBoxesN * (kIsSplit ? 2 : 1)) * kBoxBytes;
  static constexpr int kN = Config::kN, kTiles = Config::kWarpgroupTiles;
  static constexpr int kAccumulators = kTiles * kN / 2;  // of a thread

  using Schedule = partition::Schedule<Config::kKind, Layout::kTiles, Problem::kSteps,
                                       Config::kBlocks, Config::kSplits, Config::kWholeAreBlocks>;
  using Walk = typename Schedule::Walk;

  static constexpr bool kIsClustered = Config::kIsClustered;
  // Of each warpgroup.
  using Pushed = partition::ClusterReduction<
      partition::OwnedByVector<kWarpgroupThreads, kAccumulators, Config::kSplits>>;
  static constexpr int kPushedBytes = Config::kConsumers * Pushed::kBytes;
  static constexpr int kExchangeBytes = kIsClustered ? kPushedBytes
                                        : kIsSplit   ? 0
                                                     : Layout::kStagingBytes;
  static constexpr int kBarriers = (kIsSplit ? 3 : 2) * kStages +
                                   (kIsClustered ? Config::kConsumers : 0);
  // Pushed accumulators lie beside the stages, or as far as there is no room in the last stages of
  // the ring, which are then not those of a part's last steps.
  static constexpr int kDrained = Config::kDrained, kKept = kStages - kDrained;
  static constexpr int kBeside = kExchangeBytes - kDrained * kStageBytes;
  static constexpr int kSharedBytes = hopper::kAtomBytes + kStages * kStageBytes + kBarriers * 8 +
                                      (kBeside > 0 ? kBeside : 0);

  // Where a block has one part of one tile, and warpgroups finish it apart, the second one does its
  // last steps when the first has done all of its own: one publishes or stores while the other
  // multiplies. Products with one tap wait for copies, which are there for both at the same time.
  static constexpr bool kIsWhole = Config::kKind == partition::Kind::kDataParallel;
  static constexpr bool kIsSliced =
      !kIsClustered && Config::kKind == partition::Kind::kSplitK && Config::kReduction == kReduceScatter;
  static constexpr bool kFinishApart = (kIsWhole && Schedule::kUnits <= Config::kBlocks) ||
                                       kIsSliced || kIsClustered;
  static constexpr int kFits = (kDrained > 0 ? kKept : kStages) - 1;
  static constexpr int kLag = Problem::kMostLag < kFits ? Problem::kMostLag : kFits;  // steps
  static constexpr bool kStaggers =
      Config::kConsumers == 2 && Problem::kTaps > 1 && kFinishApart && kLag > 0;
  // Multiplications of a step, 32 bytes of output pixels each, and those of a part's last step.
  static constexpr int kOfStep = hopper::kSwizzleBytes / hopper::kStepBytes;
  static constexpr int kOfLast = Problem::kOfLast;
  static_assert(kIsWhole || kOfLast == kOfStep);

  int steps;  // of a tile
  unsigned stages, staging;
  Pipeline<kStages> pipeline;
  unsigned pushed;
  float4* stage_memory;

  __device__ Kernel(char* memory, int of_tile)
      : steps(of_tile),
        stages(hopper::to_atom(shared_address(memory))),
        staging(stages + kKept * kStageBytes),
        pipeline(stages + kStages * kStageBytes + (kBeside > 0 ? kBeside : 0)),
        pushed(pipeline.full + pipeline.kBytes),
        stage_memory(reinterpret_cast<float4*>(memory + (stages - shared_address(memory)))) {}

  // One thread; all others wait for it.
  __device__ void init_barriers() const {
    if constexpr (kIsClustered) {
#pragma unroll
      for (int group = 0; group < Config::kConsumers; ++group) {
        init_barrier(pushed + group * 8, 1);
        Pushed::expect(pushed + group * 8, hopper::cluster_rank());
      }
    }
    pipeline.init(1, Config::kConsumers * 4 * kWarpArrivals);
    fence_barrier_init();
  }

  // The units of a block are `first_unit()` and every `unit_step()` behind it. A cluster has
  // the splits of one tile.
  static __device__ __forceinline__ int first_unit() {
    if constexpr (!kIsClustered) return blockIdx.x;
    const int cluster = blockIdx.x / Config::kCluster, rank = blockIdx.x % Config::kCluster;
    return rank * Layout::kTiles + cluster;
  }
  static __device__ __forceinline__ int unit_step() {
    return kIsClustered ? Schedule::kUnits : gridDim.x;
  }

  // The stage of slot 0 of the ring: if the last stages drain first, others are those of the last
  // steps.
  __device__ __forceinline__ int first_stage() const {
    if constexpr (kDrained == 0) return 0;
    Work work;
    Walk walk = walk_of(first_unit());
    next(walk, work);
    return (kKept + kStages - (work.end - work.begin) % kStages) % kStages;
  }
  __device__ __forceinline__ unsigned stage_at(int slot, int first) const {
    if constexpr (kDrained == 0) return stages + slot * kStageBytes;
    const int stage = slot + first;
    return stages + (stage < kStages ? stage : stage - kStages) * kStageBytes;
  }

  __device__ __forceinline__ Walk walk_of(int unit) const { return Walk(unit, steps); }

  // Splits that take turns have every kSplits-th step, and count their own.
  static __device__ __forceinline__ bool next(Walk& walk, Work& work) {
    const bool is_work = walk.next(work);
    if constexpr (Problem::kInterleavesSplits) {
      work.begin = 0;
      work.end = (walk.steps - work.split + Config::kSplits - 1) / Config::kSplits;
    }
    return is_work;
  }

  // The parts of tiles of a block.
  struct Tiles {
    const Kernel& kernel;

    template <class Body>
    __device__ __forceinline__ void for_each(Body&& body) const {
      Work work;
      for (int unit = first_unit(); unit < Schedule::kUnits; unit += unit_step()) {
        for (Walk walk = kernel.walk_of(unit); next(walk, work);) body(work);
      }
    }
  };
  static __device__ __forceinline__ int step_of_tile(const Work& work, int step) {
    return Problem::kInterleavesSplits ? work.split + step * Config::kSplits : step;
  }

  // A copy's first pixel, behind its channel: of a plain matrix its row.
  static __device__ __forceinline__ void pixel_at(int position, int (&at)[5]) {
    at[1] = position;
    if constexpr (Problem::kSpatial > 0) Layout::pixel_at(position, at);
  }
  static __device__ __forceinline__ void load_pixels(unsigned to, const TensorMap& a,
                                                     unsigned barrier, const int (&at)[5],
                                                     const int (&offset)[kMaxSpatial]) {
    if constexpr (Problem::kSpatial > 0) {
      hopper::load_im2col<Problem::kSpatial>(to, &a, barrier, at, offset);
      if constexpr (kCopies > 1) {
        const int second[5] = {at[0] + kChunk / 2, at[1], at[2], at[3], at[4]};
        hopper::load_im2col<Problem::kSpatial>(to + kBoxBytes / 2, &a, barrier, second, offset);
      }
    } else {
      load_rows(to, a, barrier, at[0], at[1]);
    }
  }
  static __device__ __forceinline__ void load_rows(unsigned to, const TensorMap& map,
                                                   unsigned barrier, int channel, int position) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      hopper::load_2d<Problem::kReadsOnce>(to + i * (kBoxBytes / kCopies), &map, barrier,
                                           channel + i * (kChunk / kCopies), position);
    }
  }
  // Of a chunk of channels that are innermost: rows are 128 bytes.
  static constexpr int kCopies = kChunk * sizeof(Input) / hopper::kSwizzleBytes;

  using Accumulators = float[kTiles][kN / 2];

  // Warpgroups: multiply the stages of their splits of every tile, and store. `ask()` follows every
  // stage that is given back.
  template <class Ask>
  __device__ __forceinline__ void consume(Output* out, float* workspace, unsigned* flags,
                                          Ask&& ask) const {
    const int consumer = threadIdx.x / kWarpgroupThreads;
    convir::consume<Accumulators>(
        Tiles{*this}, pipeline,
        [&](const Work& work, Accumulators& d, Consumer<kStages>& full) {
          reduce(d, consumer, work, full, ask);
          return true;
        },
        [&](const Work& work, Accumulators& d) {
          finish(d, consumer, work, out, workspace, flags);
        });
  }

  // Of a warpgroup's columns.
  static __device__ __forceinline__ int first_box(int consumer) {
    return consumer % Config::kWarpgroupsN * (kN / kChunk);
  }

  // Lanes meet first: one of them was alone when it gave its stage back.
  static __device__ __forceinline__ void announce_drained() {
    __syncwarp();
    hopper::cluster_arrive_relaxed();
  }

  template <class Ask>
  __device__ __forceinline__ void reduce(Accumulators& d, int consumer, const Work& work,
                                         Consumer<kStages>& full, Ask&& ask) const {
    static_assert(sizeof(Input) == 2 || Problem::kPlanesA, "TF32 is K major");
    const int box_m = consumer / Config::kWarpgroupsN * kTiles;
    const int box_n = kBoxesM + first_box(consumer);
    const int first = first_stage();
    mma::Mainloop<kStages> mainloop(full);
    // The first `count` times 32 bytes of output pixels of a stage.
    const auto multiply_next = [&](auto count) {
      mainloop.step(
          d,
          [&](int slot, bool is_first) {
            const unsigned stage = stage_at(slot, first);
            mma::multiply<Input, kN, kMajorC, kMajorA, kBlockK, kBoxBytes,
                          decltype(count)::value>(d, stage + box_m * kBoxBytes,
                                                  stage + box_n * kBoxBytes, is_first);
          },
          ask);
    };
    const auto multiply_to = [&](int step, int end) {
      for (; step < end; ++step) multiply_next(Int<kOfStep>{});
    };
    const int end = work.end - (kOfLast < kOfStep);
    if constexpr (kStaggers) {
      const int turn = max(work.begin, work.end - kLag);
      multiply_to(work.begin, turn);
      if constexpr (kDrained > 0) announce_drained();
      named_sync_if(consumer == 1, kTurn, Config::kConsumerThreads);
      multiply_to(turn, end);
      if constexpr (kOfLast < kOfStep) multiply_next(Int<kOfLast>{});
      named_arrive_if(consumer == 0, kTurn, Config::kConsumerThreads);
    } else if constexpr (kDrained > 0) {
      const int drained = max(work.begin, work.end - (kKept - 1));
      multiply_to(work.begin, drained);
      announce_drained();
      multiply_to(drained, work.end);
    } else {
      multiply_to(work.begin, end);
      if constexpr (kOfLast < kOfStep) multiply_next(Int<kOfLast>{});
    }
    mainloop.finish(d);
    ask();
  }

  // Puts the splits of a tile together, and stores it.
  __device__ __forceinline__ void finish(Accumulators& d, int consumer, const Work& work,
                                         Output* of_groups, float* workspace,
                                         unsigned* flags) const {
    Output* const out = of_groups + Layout::group_of(work.tile) * Problem::kGroupStride;
    const int thread = threadIdx.x;
    const int m = Layout::chunk_m(work.tile);
    const typename Layout::Columns out_channels(work.tile);
    const auto sum = [&](int i) -> float& { return d[i / (kN / 2)][i % (kN / 2)]; };
    // Vector v of a warpgroup's accumulators, whose threads take every 128th, beginning with
    // `first`.
    const auto store_from = [&](int first) {
      const int lane = (first + thread) % kWarpgroupThreads;
      return [fours = Fours(out, m, out_channels, consumer, lane)](int v, const float4& total) {
        fours(v / kWarpgroupThreads, total);
      };
    };
    if constexpr (kIsClustered) {
      const int at = consumer * Pushed::kBytes;
      const Pushed accumulators = {stage_memory + (staging - stages + at) / 16, staging + at,
                                   pushed + consumer * 8};
      hopper::cluster_wait();
      accumulators.send(work.split, thread % kWarpgroupThreads, sum);
      accumulators.add_own(work.split, thread % kWarpgroupThreads,
                           Fours(out, m, out_channels, consumer, thread % kWarpgroupThreads));
    } else if constexpr (kIsSliced) {
      // Of split f32 not all splits are loaded at once, beside accumulators for a step.
      using ReduceScatter = partition::ReduceScatter<kWarpgroupThreads, kAccumulators, kFixUp,
                                                     kIsSplit ? 0 : Config::kSplits>;
      const auto shares = ReduceScatter::template of_group<Schedule::kUnits, Layout::kTiles>(
          workspace, flags, thread % kWarpgroupThreads, consumer);
      shares(work, sum, store_from(ReduceScatter::begin_of(work.split, Config::kSplits)));
    } else {
      constexpr bool kIsTree = Config::kReduction == kTree;
      const partition::FixUp<Config::kConsumerThreads, kAccumulators, kIsTree, kFixUp> fix_up = {workspace, flags,
                                                                               thread};
      if (!fix_up(work, sum)) return;
      if constexpr (Problem::kStoresChunks) {
        const int row = (m + consumer / Config::kWarpgroupsN * kTiles) * kChunk;
        const unsigned to = staging + thread / 32 * Layout::WarpStaging::kBytes;
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          const int first = row + i * kChunk + thread % kWarpgroupThreads / 32 * wgmma::kWarpRows;
          Layout::store_rows(out, d[i], first, out_channels, first_box(consumer), to);
        }
      } else {
        const Fours store(out, m, out_channels, consumer, thread % kWarpgroupThreads);
#pragma unroll
        for (int i = 0; i < kAccumulators; i += 4) {
          store(i / 4, make_float4(sum(i), sum(i + 1), sum(i + 2), sum(i + 3)));
        }
      }
    }
  }
};

}  // namespace convir::wgrad
