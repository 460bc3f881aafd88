// C[out(x), n] = sum over taps and input channels of A[row(x, tap), d] * B[weight(tap), d, n],
// zero-filled outputs of C included, in one persistent launch (sm_90a): a producer warp drives TMA,
// two warpgroups multiply, and the producer's idle neighbours fill the zero-filled outputs.
//
// Problem (generated):
//   Input                    the type of A and B: of 16 bits, or float, which is multiplied as TF32
// Epilogue, Operands       from accumulators to what is stored, and what is stored in zero-filled
// outputs
//   kInChannels, kOutChannels         of one tap
//   kSpatial                 axes of A that an im2col map slides over; 0 if A is a plain matrix
//   kFilterByInChannel          whether input channels, not columns, of B have stride 1
//   kChannelStride, kPlaneWidth, kPlaneLines   of C, see `epilogue/plane_store.cuh`
//   kPieces, kPieceChannels   parts of the columns that belong to different output pixels; piece(i)
//   kPhases, kTaps, kTileGroups, phase(i), tap(i), tile_group(i)
//   kOrdered, turn(i)          tiles of a block at most, and the table of all; 0 without one
//   kCellZeroFills, cell_zero_fill(i), kZeroFills, zero_fill(i)
//   kFusedZeroFills, kRowPixels  pixels of zeros behind every row, within rows of so many pixels
//   kPieceChunks             16-byte chunks of a piece of a zero-filled output
//   kSharedBytes             dynamic shared memory of a block
#pragma once

#include "arith/sizes.cuh"
#include "epilogue/plane_store.cuh"
#include "epilogue/wgmma_store.cuh"
#include "mma/sm90_tile.cuh"
#include "pipeline/warp_specialized.cuh"
#include "ptx/cluster.cuh"
#include "ptx/counter.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mma_sync.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "reduce/split_shares.cuh"
#include "schedule/wgmma_schedule.cuh"
#include "sm90_implicit_gemm/tile_rows.cuh"

namespace convir::wgmma {

constexpr int kConsumers = 2;    // warpgroups that multiply
constexpr int kThreads = (1 + kConsumers) * kWarpgroupThreads;
constexpr int kFillBarrier = kConsumers + 1;  // of the warps that fill zero-filled outputs
constexpr int kSplitBarrier = kFillBarrier + 1;  // of a warpgroup, and of the next one behind it

// How the two warpgroups share tiles: half of the rows of every tile each, or every other tile
// each, so that one stores while the other multiplies.
enum MainloopSchedule : int { kCooperative = 0, kPingPong = 1 };

// kProducts: 3 of TF32 for each of f32, or 1.
template <int kBlockM_, int kBlockN_, int kStages_, MainloopSchedule kSchedule_, int kStoreChannels_,
          int kSplits_ = 1, int kProducts_ = 1>
struct Config {
  static constexpr int kBlockM = kBlockM_, kBlockN = kBlockN_, kStages = kStages_;
  static constexpr bool kIsPingPong = kSchedule_ == kPingPong;
  static constexpr int kStoreChannels = kStoreChannels_;  // staged at a time
  static constexpr int kSplits = kSplits_;  // of the steps of a tile, each a block's
  static constexpr int kProducts = kProducts_;
  // Of a tile, per warpgroup that multiplies it.
  static constexpr int kSharing = kIsPingPong ? 1 : kConsumers;
  static constexpr int kWarpgroupTiles = kBlockM / kSharing / 64;  // of 64 rows
  static_assert(kBlockM % (kSharing * 64) == 0 && kBlockM <= 256);
  static_assert(kBlockN % 16 == 0 && kBlockN <= 256);
  static_assert(kBlockN % kStoreChannels == 0 && kStoreChannels % 16 == 0);
};

template <class Problem, class Config>
struct Kernel {
  using Input = typename Problem::Input;
  using Epilogue = typename Problem::Epilogue;
  using Output = typename Epilogue::Stored;
  using Pointers = typename Epilogue::Pointers;

  static constexpr hopper::Major kMajorB =
      Problem::kFilterByInChannel ? hopper::kMajorK : hopper::kMajorMN;
  static constexpr int kBlockM = Config::kBlockM, kBlockN = Config::kBlockN;
  static constexpr int kStages = Config::kStages;
  static constexpr int kRowBytes = hopper::kSwizzleBytes;
  static constexpr int kBlockK = kRowBytes / static_cast<int>(sizeof(Input));
  static constexpr int kBytesA = kBlockM * kRowBytes;
  // Copies of B: blocks of 64 columns, or all columns.
  static constexpr int kCopiesB = kMajorB == hopper::kMajorMN ? (kBlockN + 63) / 64 : 1;
  static constexpr int kCopyColumnsB = kMajorB == hopper::kMajorMN ? 64 : kBlockN;
  static constexpr int kCopyBytesB =
      (kMajorB == hopper::kMajorMN ? kBlockK : kBlockN) * kRowBytes;
  static constexpr int kBytesB = kCopiesB * kCopyBytesB;
  // Of three products B is there twice: rounded, and what is left of it.
  static constexpr int kHalvesB = Config::kProducts == 3 ? 2 : 1;
  static constexpr int kStageBytes = kBytesA + kHalvesB * kBytesB;
  using WarpStaging = Staging<Config::kStoreChannels, sizeof(Output)>;
  static constexpr int kStagingBytes = WarpStaging::kBytes * kConsumers * 4;
  static constexpr int kZeroBytes = Problem::kOutChannels * 2 < 2048 ? Problem::kOutChannels * 2 : 2048;
  static constexpr int kSharedBytes = hopper::kAtomBytes + kStages * kStageBytes + kStagingBytes +
                                      kZeroBytes + 2 * kStages * 8 + 16;
  static_assert(Problem::kPieces == 1 || Problem::kPieceChannels % Config::kStoreChannels == 0);
  static_assert(Problem::kFusedZeroFills == 0 ||
                Config::kStoreChannels >= Problem::kOutChannels);

  static constexpr int kChunksK = (Problem::kInChannels + kBlockK - 1) / kBlockK;
  static constexpr int kNTiles = (Problem::kOutChannels + kBlockN - 1) / kBlockN;

  static constexpr int kSplits = Config::kSplits;
  static_assert(kSplits == 1 ||
                Problem::kZeroFills + Problem::kCellZeroFills + Problem::kFusedZeroFills == 0);

  using Tiles = wgmma::Tiles<Problem, kBlockM, kNTiles, kSplits>;

  Tiles tiles;
  unsigned stages, staging, zeros;
  Pipeline<kStages> pipeline;
  unsigned progress;  // how many stages were loaded

  __device__ Kernel(char* memory, int images)
      : tiles{images},
        stages(hopper::to_atom(shared_address(memory))),
        staging(stages + kStages * kStageBytes),
        zeros(staging + kStagingBytes),
        pipeline(zeros + kZeroBytes),
        progress(zeros + kZeroBytes + pipeline.kBytes) {}

  // One thread, of the first warp.
  __device__ void init_barriers() const {
    pipeline.init(1, Config::kSharing * 4 * kWarpArrivals);
    hopper::counter_init(progress);
    fence_barrier_init();
  }

  // All threads: barriers may be used after it. The first warp, which initialises those of its own
  // block, goes on before the others are there.
  __device__ void start() const {
    if (threadIdx.x < 32) {
      named_arrive(0, kThreads);
    } else {
      named_sync(0, kThreads);
    }
  }

  static __device__ int m_of(const Tile& tile) { return tile.m * kBlockM; }

  // The first of a tile's steps that is of split `split`.
  static __device__ __forceinline__ int first_step(const Phase& phase, int split) {
    return phase.taps * kChunksK * split / kSplits;
  }
  // Steps of a tile that are the block's.
  static __device__ __forceinline__ int steps_of(const Phase& phase) {
    if constexpr (kSplits == 1) return phase.taps * kChunksK;
    return first_step(phase, Tiles::split() + 1) - first_step(phase, Tiles::split());
  }
  // body(tap, chunk) of each of them.
  template <class Body>
  static __device__ __forceinline__ void for_each_step(const Phase& phase, Body&& body) {
    if constexpr (kSplits == 1) {
      for (int i = 0; i < phase.taps; ++i) {
        for (int chunk = 0; chunk < kChunksK; ++chunk) body(i, chunk);
      }
    } else {
      const int first = first_step(phase, Tiles::split()), steps = steps_of(phase);
      int i = first / kChunksK, chunk = first % kChunksK;
      for (int step = 0; step < steps; ++step) {
        body(i, chunk);
        const bool is_last = ++chunk == kChunksK;
        i += is_last;
        if (is_last) chunk = 0;
      }
    }
  }

  template <class... Maps>
  static __device__ __forceinline__ const hopper::TensorMap* pick(int i,
                                                                  const hopper::TensorMap& first,
                                                                  const Maps&... rest) {
    if constexpr (sizeof...(rest) == 0) {
      return &first;
    } else {
      return i == 0 ? &first : pick(i - 1, rest...);
    }
  }

  // One thread: fills the stages of a tile.
  template <class... Maps>
  __device__ __forceinline__ void load(const Tile& tile, Producer<kStages>& produce,
                                       const hopper::TensorMap& b, const Maps&... a) const {
    const Phase& phase = Problem::phase(tile.phase);
    const hopper::TensorMap* map = pick(phase.map, a...);
    const int m = m_of(tile), n = tile.n * kBlockN;
    int at[5] = {0, m, 0, 0, 0};
    if constexpr (Problem::kSpatial > 0) {
      window_at<Problem::kSpatial>(m, phase.sizes, phase.steps, phase.corner, at);
    }
    for_each_step(phase, [&](int i, int chunk) {
      const Tap& tap = Problem::tap(phase.first_tap + i);
      produce([&](int stage, unsigned barrier) {
        const unsigned to = stages + stage * kStageBytes;
        arrive_expecting(barrier, kStageBytes);
        at[0] = chunk * kBlockK;
        if constexpr (Problem::kSpatial > 0) {
          hopper::load_im2col<Problem::kSpatial>(to, map, barrier, at, tap.offset);
        } else {
          hopper::load_2d(to, map, barrier, at[0], m);
        }
        load_b(to + kBytesA, &b, barrier, n, tap.weight, at[0]);
        hopper::counter_advance(progress);
      });
    });
  }

  __device__ __forceinline__ void load_b(unsigned to, const hopper::TensorMap* map,
                                         unsigned barrier, int n, int weight, int k) const {
    if constexpr (kHalvesB > 1) {
      static_assert(kMajorB == hopper::kMajorK);
#pragma unroll
      for (int half = 0; half < kHalvesB; ++half) {
        hopper::load_4d(to + half * kBytesB, map, barrier, k, weight, n, half);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCopiesB; ++i) {
        const unsigned target = to + i * kCopyBytesB;
        const int first = n + i * kCopyColumnsB;
        const int x = kMajorB == hopper::kMajorMN ? first : k;
        const int z = kMajorB == hopper::kMajorMN ? k : first;
        hopper::load_3d(target, map, barrier, x, weight, z);
      }
    }
  }

  // A few warps: zeros for zero-filled outputs, while others load and multiply.
  __device__ __forceinline__ void fill(Output* c, int warp, int warps) const {
    int before = 0;
    if constexpr (Problem::kCellZeroFills > 0 && Problem::kFusedZeroFills == 0) {
      for (int i = warp * 32 + threadIdx.x % 32; i < kZeroBytes / kChunkBytes; i += warps * 32)
        store_shared(zeros + i * kChunkBytes, four_words(zero_fill_pair<Problem>()));
      hopper::fence_proxy();
      named_sync(kFillBarrier, warps * 32);
      tiles.for_each([&](const Tile& tile) {
        const Phase& phase = Problem::phase(tile.phase);
        const int iterations = phase.taps * kChunksK;
        fill_cells<Problem, kBlockM, kNTiles, kZeroBytes>(
            c, phase, tiles.images, m_of(tile), tile.n, zeros, progress, before, iterations, warp, warps);
        before += iterations;
      });
      hopper::wait_stores_read();
    }
    if constexpr (Problem::kZeroFills > 0) {
      int iterations = 0;
      tiles.for_each([&](const Tile& tile) {
        iterations += Problem::phase(tile.phase).taps * kChunksK;
      });
      store_zero_fills<Problem>(c, tiles.images, progress, iterations, warp, warps);
    }
  }

  using Accumulators = float[Config::kWarpgroupTiles][kBlockN / 2];
  using TileRows = wgmma::TileRows<Problem, Config>;

  // Two warpgroups: multiply the stages of their tiles, and store.
  __device__ __forceinline__ void consume(int consumer, Output* c, const Pointers& operands,
                                          float* workspace, unsigned* counters,
                                          const hopper::TensorMap* planes) const {
    const int warp = threadIdx.x % kWarpgroupThreads / 32;
    const int first_row = Config::kIsPingPong ? 0 : consumer * Config::kWarpgroupTiles * 64;
    bool is_mine = !Config::kIsPingPong || consumer == 0;
    if (Config::kIsPingPong && consumer == 1) pass_pingpong(consumer);
    TileRows rows;
    const auto multiply = [&](const Tile& tile, Accumulators& d, Consumer<kStages>& full) {
      const Phase& phase = Problem::phase(tile.phase);
      if (!is_mine) {
        full.at.advance(steps_of(phase));
        is_mine = true;
        return false;
      }
      is_mine = !Config::kIsPingPong;
      if constexpr (TileRows::kAreLoaded) {
        rows.begin(phase, tiles.images, m_of(tile) + first_row + warp * kWarpRows, tile.n * kBlockN,
                   operands);
      }
      // Stages are waited for in their order, as a barrier tells only this round from the last.
      if constexpr (Config::kIsPingPong) named_sync(1 + consumer, kConsumers * kWarpgroupThreads);
      mma::Mainloop<kStages> mainloop(full);
      // Loops that the compiler knows more of than of one over all steps.
      const int steps = kSplits == 1 ? kChunksK : steps_of(phase);
#pragma unroll 1
      for (int i = 0; i < (kSplits == 1 ? phase.taps : 1); ++i) {
        for (int step = 0; step < steps; ++step) {
          // All of a chunk even if its input channels end before: a branch here makes the compiler
          // wait for every wgmma.
          mainloop.step(d, [&](int stage, bool is_first) {
            const unsigned a = stages + stage * kStageBytes + first_row * kRowBytes;
            const unsigned b = stages + stage * kStageBytes + kBytesA;
            mma::multiply<Input, kBlockN, hopper::kMajorK, kMajorB, kBlockK, 64 * kRowBytes,
                          kRowBytes / hopper::kStepBytes>(d, a, b, is_first);
          });
        }
      }
      if constexpr (Config::kIsPingPong) pass_pingpong(consumer);
      mainloop.finish(d);
      return true;
    };
    const auto store_tile = [&](const Tile& tile, const Accumulators& d) {
      const Phase& phase = Problem::phase(tile.phase);
      if constexpr (kSplits > 1) {
        store_share(phase, d, m_of(tile) + first_row + warp * kWarpRows, tile.n * kBlockN,
                    staging + (consumer * 4 + warp) * WarpStaging::kBytes, c, operands, planes,
                    Shares(workspace, counters, Tiles::number(), Tiles::count(),
                           threadIdx.x % kWarpgroupThreads, consumer));
      } else {
        static_for<Config::kWarpgroupTiles>([&](auto j) {
          store<j.value>(phase, tiles.images, d[j.value],
                         m_of(tile) + first_row + j.value * 64 + warp * kWarpRows, tile.n * kBlockN,
                         staging + (consumer * 4 + warp) * WarpStaging::kBytes, c, operands, planes,
                         rows);
        });
      }
    };
    convir::consume<Accumulators>(tiles, pipeline, multiply, store_tile);
    finish_boxes<Problem>();
  }

  // The other warpgroup may multiply its tile.
  static __device__ __forceinline__ void pass_pingpong(int consumer) {
    named_arrive(kConsumers - consumer, kConsumers * kWarpgroupThreads);
  }

  // Rows j * 64 of a warpgroup's tile. Boxes of C are stored by the map `planes`, if threads store
  // none.
  template <int j>
  static __device__ __forceinline__ void store(const Phase& phase, int images,
                                               const float (&d)[kBlockN / 2], int m, int n,
                                               unsigned to, Output* c, const Pointers& operands,
                                               const hopper::TensorMap* planes, TileRows& rows) {
    constexpr int kStored = Config::kStoreChannels;
    if constexpr (TileRows::kAreLoaded) {
      Finish<Problem, LaneColumns<Problem>> finish{operands, rows.row[j]};
      static_for<TileRows::kOfRow>([&](auto part) {
        rows.template put<j * TileRows::kOfRow + part.value>(to, operands);
        store_columns<true>(d, part.value * kStored, m, n, finish, rows.row[j], to, c, planes);
      });
    } else {
      const auto row = row_at<Problem>(phase, images, m + threadIdx.x % kWarpRows);
      Finish<Problem, LaneColumns<Problem>> finish{operands, row};
#pragma unroll
      for (int first = 0; first < kBlockN; first += kStored) {
        store_columns<false>(d, first, m, n, finish, row, to, c, planes);
      }
    }
  }

  // Columns n + first and those behind it; d begins with column n. With kHasRows rows of an operand
  // are staged.
  template <bool kHasRows, int kValues, class Finisher>
  static __device__ __forceinline__ void store_columns(const float (&d)[kValues], int first, int m,
                                                       int n, Finisher& finish,
                                                       const Row<Problem>& row, unsigned to,
                                                       Output* c, const hopper::TensorMap* planes) {
    constexpr int kOutChannels = Config::kStoreChannels;
    const StoredColumns<Problem, kOutChannels> columns(n, first);
    const int channel = columns.channel, out_channels = columns.out_channels;
    Output* at = c + columns.shift;
    finish.find.begin(columns.shift, channel, out_channels);
    constexpr int kLines = staged_lines<Problem>();
    if constexpr (Problem::kPlaneLines > 0) {
      const int pixels = Problem::phase(0).pixels;
      store_boxes([&] { stage<kOutChannels, Finisher::kTogether, kLines>(to, d, first, finish); },
                  [&] { hopper::store_3d(planes, to, m % pixels, channel, m / pixels); });
    } else {
      stage<kOutChannels, Finisher::kTogether, kLines, kHasRows>(to, d, first, finish);
      if constexpr (kLines > 0) {
        store_planes<Problem, kOutChannels>(at, to, row, out_channels);
      } else {
        store_rows<Problem, kOutChannels>(at, to, row, out_channels);
      }
    }
  }

  using Shares =
      partition::SplitShares<kWarpgroupThreads, Config::kWarpgroupTiles * kBlockN / 2, kSplits,
                             Config::kSharing, kSplitBarrier>;

  // A split of a tile: every block of the tile stores some of the columns that are staged at a
  // time, when all have their accumulators.
  __device__ __forceinline__ void store_share(const Phase& phase, const Accumulators& d, int m, int n,
                                              unsigned to, Output* c, const Pointers& operands,
                                              const hopper::TensorMap* planes,
                                              const Shares& shares) const {
    constexpr int kOutChannels = Config::kStoreChannels, kOfRow = kBlockN / kOutChannels;
    const auto sum = [&](int i) { return d[i / (kBlockN / 2)][i % (kBlockN / 2)]; };
    shares.template finish<Config::kWarpgroupTiles * kOfRow>(Tiles::split(), sum, [&](int share) {
      const int column = n + share % kOfRow * kOutChannels;
      if (column >= Problem::kOutChannels) return;
      float total[kOutChannels / 2];
      shares.add(total, share * (kOutChannels / 8));
      const int first_m = m + share / kOfRow * 64;
      const auto row = row_at<Problem>(phase, tiles.images, first_m + threadIdx.x % kWarpRows);
      Finish<Problem, LaneColumns<Problem>> finish{operands, row};
      store_columns<false>(total, 0, first_m, column, finish, row, to, c, planes);
    });
  }
};

// The body of a kernel of `kThreads` threads, whose warpgroups that multiply call
// consume(kernel, consumer).
template <class Kernel, class Problem, class Consume, class... Maps>
__device__ __forceinline__ void contract_by(int images, const hopper::TensorMap* planes,
                                            Consume&& consume,
                                            typename Problem::Epilogue::Stored* c,
                                            const hopper::TensorMap& b, const Maps&... a) {
  static_assert(Kernel::kSharedBytes == Problem::kSharedBytes);
  extern __shared__ char memory[];
  const Kernel kernel(memory, images);
  const int warpgroup = threadIdx.x / kWarpgroupThreads;
  if (threadIdx.x == 0) {
    kernel.init_barriers();
  } else if (threadIdx.x == 32) {
    hopper::prefetch_map(&b);
    (hopper::prefetch_map(&a), ...);
    if constexpr (Problem::kPlaneLines > 0) hopper::prefetch_map(planes);
  } else if (threadIdx.x >= 64 && warpgroup == 0) {
    touch_tables<Problem>(blockIdx.x, threadIdx.x - 64, kWarpgroupThreads - 64);
  }
  __syncwarp();
  kernel.start();
  hopper::wait_on_dependent_grids();
  hopper::launch_dependent_grids();
  Roles<true, kProducerRegisters, kConsumerRegisters>::run(
      warpgroup == 0,
      [&] {
        if (threadIdx.x == 0) {
          produce(kernel.tiles, kernel.pipeline, [&](const Tile& tile, auto& fill) {
            kernel.load(tile, fill, b, a...);
          });
        } else if (threadIdx.x >= 32) {
          kernel.fill(c, threadIdx.x / 32 - 1, kWarpgroupThreads / 32 - 1);
        }
      },
      [&] { consume(kernel, warpgroup - 1); });
}

// The body of a kernel of `kThreads` threads; `workspace` and `counters` are those of splits.
template <class Problem, class Config, class... Maps>
__device__ __forceinline__ void contract(typename Problem::Epilogue::Stored* c,
                                         const typename Problem::Epilogue::Pointers& operands,
                                         int images, float* workspace, unsigned* counters,
                                         const hopper::TensorMap* planes,
                                         const hopper::TensorMap& b, const Maps&... a) {
  contract_by<Kernel<Problem, Config>, Problem>(
      images, planes,
      [&](const auto& kernel, int consumer) {
        kernel.consume(consumer, c, operands, workspace, counters, planes);
      },
      c, b, a...);
}

}  // namespace convir::wgmma
