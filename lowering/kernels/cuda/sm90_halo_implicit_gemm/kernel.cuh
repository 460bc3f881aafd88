// Convolutions of several taps whose rows of A are in shared memory once (sm_90a): a box of pixels,
// the halo of a tile of output pixels, is loaded by one copy, and a tap multiplies what begins so
// many pixels further on. All of B stays in shared memory.
//
// Pixels of a box are rows of a swizzle, whose pattern is one of addresses: the box begins where the
// pattern does, so TMA writes and `wgmma` reads the same place for a pixel, whichever pixel a
// descriptor begins with. An instruction's 64 rows are eight groups of eight neighbouring pixels:
// a patch of 8x8 output pixels, one line of the box a group; or 64 pixels of the box in a line,
// of which those between two lines of output pixels are not stored.
//
// With strides, taps that lie a multiple of the stride apart read shifts of a *plane* of A: the
// pixels with one remainder, which a tensor map of their own brings as neighbours. A stage then has
// one slice of A, a box of each plane.
//
// Phases of a strided dgrad share a box too. Each has columns of the product; those of as many
// phases as an instruction has columns for are a *group*, with zeros in B where a phase has no such
// tap, and no instruction where none has.
//
// Each consumer warpgroup has a producer thread, a ring and tiles of its own, so one stores while
// others multiply.
//
// Problem (generated): Input, Epilogue, Operands, kFilterByInChannel as for
// `sm90_implicit_gemm/kernel.cuh`;
//   kInChannels, kOutChannels    of one tap
//   kChunk                       input channels of a chunk: a row of the swizzle
//   kTaps, kSlices, kParts       taps are ordered by the slice of A that they read, as many for each;
//                                matrices of a chunk arrive in parts
//   kPhases, kGroups, kPhaseColumns, kRun   phases whose columns follow each other in C
//   kChannelStride, kPlaneWidth, kPlanePairs, kPlaneLines   of C, see `epilogue/plane_store.cuh`
//   matrix(tap * kPhases + phase), used[tap][group]   matrices of B, -1 where no phase of the group
//                                has some, and one that lies outside of B where others have
//   shift[tap], pitch[tap]       pixels of the stage to a tap's first one, and between two groups of
//                                eight rows
//   kRows, kCols, kLine          of a tile; see `layout.py`
//   kBoxes, start[], pixels[]    of a stage, in pixels
//   map[slice][box], at[slice][box]   the plane of A, and its pixel that output pixel 0 begins with
//   kStageBytes, kSharedBytes    of a stage, and of a block
//   kTiles[3], sizes, strides    tiles of an image; output pixels, the batch last
//   phase_sizes[phase], offsets[phase]   of one phase
#pragma once

#include "arith/sizes.cuh"
#include "epilogue/phase_rows.cuh"
#include "epilogue/plane_store.cuh"
#include "mma/sm90_tile.cuh"
#include "pipeline/warp_specialized.cuh"
#include "ptx/cluster.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mma_sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "schedule/wgmma_schedule.cuh"

namespace convir::wgmma {

template <int kColumns_, int kBlockColumns_, int kInstructions_, int kStages_, int kConsumers_,
          int kStoreChannels_, int kRegisters_>
struct HaloConfig {
  static constexpr int kColumns = kColumns_;            // of an instruction
  static constexpr int kBlockColumns = kBlockColumns_;  // contiguous in shared memory, MN major
  static constexpr int kInstructions = kInstructions_;  // of 64 rows, that cover a tile
  static constexpr int kStages = kStages_;              // chunks in flight, for each consumer
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kStoreChannels = kStoreChannels_;  // staged at a time
  static constexpr int kRegisters = kRegisters_;          // of a consumer's thread
};

template <class Problem, class Config>
struct HaloKernel {
  using Input = typename Problem::Input;
  using Epilogue = typename Problem::Epilogue;
  using Output = typename Epilogue::Stored;
  using Pointers = typename Epilogue::Pointers;

  static constexpr int kConsumers = Config::kConsumers, kStages = Config::kStages;
  static constexpr int kThreads = (1 + kConsumers) * kWarpgroupThreads;
  static constexpr int kColumns = Config::kColumns, kInstructions = Config::kInstructions;
  static constexpr int kChunk = Problem::kChunk, kRowBytes = kChunk * 2;
  static constexpr int kChunks = divide_up(Problem::kInChannels, kChunk);
  static constexpr int kColumnTiles = divide_up(Problem::kOutChannels, kColumns);
  static constexpr int kInstructionRows = 64;

  // A matrix of B of one chunk: rows of as many input channels, or blocks of columns.
  static constexpr hopper::Major kMajorB =
      Problem::kFilterByInChannel ? hopper::kMajorK : hopper::kMajorMN;
  static constexpr int kRowBytesB =
      kMajorB == hopper::kMajorK ? kRowBytes : Config::kBlockColumns * 2;
  static constexpr int kPhasesOfGroup = kColumns / Problem::kPhaseColumns;
  static constexpr int kCopiesB =
      kMajorB == hopper::kMajorK ? 1 : Problem::kPhaseColumns / Config::kBlockColumns;
  static constexpr int kMatrixBytes = kColumns * kRowBytes;
  // Matrices of a chunk, those before a group's of a tap.
  static constexpr int matrices_before(int tap, int group) {
    int count = 0;
    for (int i = 0; i < tap * Problem::kGroups + group; ++i) {
      count += Problem::used[i / Problem::kGroups][i % Problem::kGroups];
    }
    return count;
  }
  static constexpr int kMatrices = matrices_before(Problem::kTaps, 0);
  static constexpr int kBytesB = kMatrices * kChunks * kMatrixBytes;
  // Matrices of a chunk arrive in parts: the first tile is multiplied as they do.
  static constexpr int kParts = Problem::kParts, kSliceParts = kParts / Problem::kSlices;
  static constexpr int first_tap(int part) { return part * Problem::kTaps / kParts; }
  // Whether no tap before it has a group.
  static constexpr bool is_first(int tap, int group) {
    for (int i = 0; i < tap; ++i) {
      if (Problem::used[i][group]) return false;
    }
    return true;
  }
  static constexpr int kStepB =
      (kMajorB == hopper::kMajorK ? hopper::kStepBytes : 16 * kRowBytesB) / 16;

  static constexpr int box_bytes() {
    int pixels = 0;
    for (int i = 0; i < Problem::kBoxes; ++i) pixels += Problem::pixels[i];
    return pixels * kRowBytes;
  }
  static constexpr int kBoxBytes = box_bytes();
  using WarpStaging = Staging<Config::kStoreChannels>;
  static constexpr int kLines = staged_lines<Problem>();
  static constexpr int kBytesA = hopper::to_atom(kConsumers * kStages * Problem::kStageBytes);
  static constexpr int kSharedBytes = hopper::kAtomBytes + kBytesA + kBytesB +
                                      kConsumers * 4 * WarpStaging::kBytes +
                                      (2 * kConsumers * kStages + kChunks * kParts) * 8;
  static_assert(kColumns % 16 == 0 && kColumns % Config::kStoreChannels == 0);
  static_assert(kColumns % Problem::kPhaseColumns == 0 && Problem::kTaps % Problem::kSlices == 0);
  static_assert(kBoxBytes <= Problem::kStageBytes && Problem::kStageBytes % (8 * kRowBytes) == 0);
  static_assert(kSharedBytes == Problem::kSharedBytes);

  unsigned stages, weights, staging;
  unsigned loaded;             // the barriers of the parts of B
  Pipeline<kStages> pipeline;  // of the consumer
  int consumer, tiles_of_block, first_column;

  __device__ HaloKernel(const char* memory, int consumer, int images)
      : stages(hopper::to_atom(shared_address(memory))),
        weights(stages + kBytesA),
        staging(weights + kBytesB),
        loaded(staging + kConsumers * (4 * WarpStaging::kBytes + pipeline.kBytes)),
        pipeline(staging + kConsumers * 4 * WarpStaging::kBytes + consumer * pipeline.kBytes),
        consumer(consumer),
        tiles_of_block(images * (Problem::kTiles[0] * Problem::kTiles[1] * Problem::kTiles[2])),
        first_column(static_cast<int>(blockIdx.x) % kColumnTiles * kColumns) {
    stages += consumer * kStages * Problem::kStageBytes;
  }

  // One thread of each consumer.
  __device__ void init_barriers() const {
    pipeline.init(1, 4 * kWarpArrivals);
    if (consumer == 0) {
      for (int i = 0; i < kChunks * kParts; ++i) init_barrier(loaded + i * 8, 1);
    }
    fence_barrier_init();
  }

  // The tile of a number: its first output pixel, and the image.
  struct Tile {
    int at[kMaxAxes];
  };

  // The tiles of a consumer. Blocks take them in turn, so that those of the last round are spread
  // over multiprocessors.
  struct Tiles {
    int consumer, tiles;

    template <class Body>
    __device__ __forceinline__ void for_each(Body&& body) const {
      const int blocks = static_cast<int>(gridDim.x) / kColumnTiles;
      const int block = static_cast<int>(blockIdx.x) / kColumnTiles;
      for (int i = consumer * blocks + block; i < tiles; i += kConsumers * blocks) {
        Tile tile;
        split_number<kMaxAxes, false>(
            i, [&](int axis) { return axis < 3 ? Problem::kTiles[axis] : 1; },
            [&](int axis, int x) { tile.at[axis] = x; });
        tile.at[0] *= Problem::kCols;
        tile.at[1] *= Problem::kRows;
        body(tile);
      }
    }
  };

  __device__ __forceinline__ Tiles tiles() const { return {consumer, tiles_of_block}; }

  // One thread: the block's columns of all matrices of B. Those that a phase has not lie outside of
  // B, and are zeros.
  __device__ void load_weights(const hopper::TensorMap& b) const {
    static_for<kParts>([&](auto part) {
      constexpr int kFirst = first_tap(part.value), kLast = first_tap(part.value + 1);
      constexpr int kBefore = matrices_before(kFirst, 0);
      constexpr int kBytes = (matrices_before(kLast, 0) - kBefore) * kMatrixBytes;
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const unsigned barrier = loaded + (chunk * kParts + part.value) * 8;
        unsigned to = weights + (chunk * kMatrices + kBefore) * kMatrixBytes;
        arrive_expecting(barrier, kBytes);
        for (int i = kFirst * Problem::kPhases; i < kLast * Problem::kPhases; ++i) {
          const int matrix = Problem::matrix(i);
          if (matrix < 0) continue;
          for (int copy = 0; copy < kCopiesB; ++copy) {
            const int n = first_column + copy * Config::kBlockColumns;
            hopper::load_3d(to, &b, barrier, kMajorB == hopper::kMajorK ? chunk * kChunk : n,
                            matrix, kMajorB == hopper::kMajorK ? n : chunk * kChunk);
            to += Problem::kPhaseColumns / kCopiesB * kRowBytes;
          }
        }
      }
    });
  }

  // One thread of each consumer: the halos of its tiles.
  template <class... Maps>
  __device__ void produce(const Maps&... a) const {
    const hopper::TensorMap* const maps[] = {&a...};
    convir::produce(tiles(), pipeline, [&](const Tile& tile, Producer<kStages>& produce) {
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        static_for<Problem::kSlices>([&](auto slice) {
          produce([&](int stage, unsigned barrier) {
            arrive_expecting(barrier, kBoxBytes);
            static_for<Problem::kBoxes>([&](auto box) {
              constexpr int kSlice = decltype(slice)::value, kBox = decltype(box)::value;
              constexpr int kStart = Problem::start[kBox] * kRowBytes;
              constexpr int x = Problem::at[kSlice][kBox][0], y = Problem::at[kSlice][kBox][1];
              constexpr int z = Problem::at[kSlice][kBox][2];
              hopper::load_5d(stages + stage * Problem::kStageBytes + kStart,
                              maps[Problem::map[kSlice][kBox]], barrier, chunk * kChunk,
                              tile.at[0] + x, tile.at[1] + y, tile.at[2] + z, tile.at[3]);
            });
          });
        });
      }
    });
  }

  using Accumulators = float[Problem::kGroups * kInstructions][kColumns / 2];

  template <int kOfChunk, int kPart>
  static __device__ __forceinline__ void multiply(Accumulators& d, unsigned a, unsigned b) {
    constexpr unsigned long long layout_a =
        hopper::descriptor_layout(kRowBytes, 16, Problem::pitch[0] * kRowBytes);
    constexpr unsigned long long layout_b =
        kMajorB == hopper::kMajorK
            ? hopper::descriptor_layout(kRowBytes, 16, 8 * kRowBytes)
            : hopper::descriptor_layout(kRowBytesB, kChunk * kRowBytesB, 8 * kRowBytesB);
    constexpr int kSteps = divide_up(smaller(kChunk, Problem::kInChannels - kOfChunk * kChunk), 16);
    auto from_a = layout_a | hopper::address_field(a);
    auto from_b = layout_b | hopper::address_field(b);
    // Descriptors are these and constants: kept from tile to tile they fill registers.
    asm volatile("" : "+l"(from_a), "+l"(from_b));
    constexpr int kFirstTap = first_tap(kPart);
    static_for<first_tap(kPart + 1) - kFirstTap>([&](auto tap) {
      static_for<kSteps>([&](auto step) {
        static_for<Problem::kGroups * kInstructions>([&](auto i) {
          constexpr int kOfTap = kFirstTap + decltype(tap)::value, kStep = decltype(step)::value;
          constexpr int group = decltype(i)::value / kInstructions;
          if constexpr (Problem::used[kOfTap][group]) {
            constexpr int kPitch = Problem::pitch[kOfTap];
            constexpr int pixel = Problem::shift[kOfTap] + decltype(i)::value % kInstructions *
                                                               (kInstructionRows / 8) * kPitch;
            constexpr unsigned long long kOther =
                hopper::descriptor_layout(kRowBytes, 16, kPitch * kRowBytes) - layout_a;
            constexpr unsigned long long at_a =
                kOther + (pixel * kRowBytes + kStep * hopper::kStepBytes) / 16;
            constexpr int matrix = kOfChunk * kMatrices + matrices_before(kOfTap, group);
            constexpr int at_b = matrix * (kMatrixBytes / 16) + kStep * kStepB;
            using Multiply = hopper::Wgmma<Input, kColumns, hopper::kMajorK, kMajorB>;
            if constexpr (kOfChunk == 0 && kStep == 0 && is_first(kOfTap, group)) {
              Multiply::run(d[i.value], from_a + at_a, from_b + at_b, 0);
            } else {
              Multiply::run(d[i.value], from_a + at_a, from_b + at_b);
            }
          }
        });
      });
    });
  }

  // A warpgroup of each consumer; boxes of C are stored by the map `planes`, if threads store none.
  __device__ __forceinline__ void consume(Output* c, const Pointers& operands,
                                          const hopper::TensorMap* planes) const {
    const int warp = threadIdx.x % kWarpgroupThreads / 32;
    const auto reduce = [&](const Tile&, Accumulators& d, Consumer<kStages>& full) {
      int held = 0;  // the stage whose products are under way
      static_for<kChunks * Problem::kSlices>([&](auto of_tile) {
        full.wait();
        const unsigned a = stages + full.at.stage * Problem::kStageBytes;
        static_for<kSliceParts>([&](auto part) {
          constexpr int kOfTile = decltype(of_tile)::value;
          constexpr int kOfChunk = kOfTile / Problem::kSlices;
          constexpr int kPart = kOfTile % Problem::kSlices * kSliceParts + decltype(part)::value;
          wait_barrier(loaded + (kOfChunk * kParts + kPart) * 8, 0);
          mma::issue(d, [&] { multiply<kOfChunk, kPart>(d, a, weights); });
          if constexpr (kOfTile > 0 && decltype(part)::value == 0) full.release(held);
        });
        held = full.at.stage;
        full.at.advance();
      });
      hopper::wgmma_wait<0>();
      hopper::hold(d);
      full.release(held);
      return true;
    };
    convir::consume<Accumulators>(
        tiles(), pipeline, reduce, [&](const Tile& tile, const Accumulators& d) {
          static_for<Problem::kGroups * kInstructions>([&](auto i) {
            const int m = i.value % kInstructions * kInstructionRows + warp * kWarpRows;
            const unsigned to = staging + (consumer * 4 + warp) * WarpStaging::kBytes;
            if constexpr (Problem::kPhases == 1) {
              store(d[i.value], tile, m, to, c, operands, planes);
            } else {
              store_phases<i.value / kInstructions>(d[i.value], tile, m, to, c, operands);
            }
          });
        });
    finish_boxes<Problem>();
  }

  // Where row m of a tile is.
  static __device__ __forceinline__ bool place_of(const Tile& tile, int m, int (&at)[kMaxAxes]) {
    const int row = m / Problem::kLine, col = m % Problem::kLine;
    at[0] = tile.at[0] + col;
    at[1] = tile.at[1] + row;
    at[2] = tile.at[2];
    at[3] = tile.at[3];
    return row < Problem::kRows && col < Problem::kCols;
  }

  static __device__ __forceinline__ Row<Problem> row_at(const Tile& tile, int m) {
    int at[kMaxAxes];
    const bool is_inside =
        place_of(tile, m, at) && at[0] < Problem::sizes[0] && at[1] < Problem::sizes[1];
    return {is_inside ? Problem::offsets[0] + offset_of(at, Problem::strides) : 0,
            is_inside ? 1 : 0, 0};
  }

  static __device__ __forceinline__ PhaseRow<Problem> phases_at(const Tile& tile, int m) {
    int at[kMaxAxes];
    PhaseRow<Problem> row = {0, 0};
    if (!place_of(tile, m, at)) return row;
    row.offset = offset_of(at, Problem::strides);
    static_for<Problem::kPhases>([&](auto phase) {
      const bool is_inside = is_below(at, Problem::phase_sizes[phase.value]);
      row.phases |= static_cast<unsigned>(is_inside) << phase.value;
    });
    return row;
  }

  __device__ __forceinline__ void store(const float (&d)[kColumns / 2], const Tile& tile, int m,
                                        unsigned to, Output* c, const Pointers& operands,
                                        const hopper::TensorMap* planes) const {
    constexpr int kOutChannels = Config::kStoreChannels;
    const auto row = row_at(tile, m + threadIdx.x % kWarpRows);
    Finish<Problem, LaneColumns<Problem>> finish{operands, row};
    constexpr int kParts = kColumns / kOutChannels;
    using Rows = RowOperand<Problem, kOutChannels, kLines == 0>;
    Rows rows[2];
    const auto load_rows = [&](int part) {
      const int channel = first_column + part * kOutChannels;
      rows[part % 2].load(operands, row, channel * Problem::kChannelStride,
                          min(kOutChannels, Problem::kOutChannels - channel));
    };
#pragma unroll
    for (int part = 0; part < 2 && part < kParts; ++part) load_rows(part);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int first = part * kOutChannels, channel = first_column + first;
      const int out_channels = min(kOutChannels, Problem::kOutChannels - channel);
      const long long shift = channel * Problem::kChannelStride;
      rows[part % 2].put(to);
      if (part + 2 < kParts) load_rows(part + 2);
      finish.find.begin(shift, channel, out_channels);
      constexpr int kTogether = decltype(finish)::kTogether;
      if constexpr (Problem::kPlaneLines > 0) {
        store_boxes([&] { stage<kOutChannels, kTogether, kLines>(to, d, first, finish); },
                    [&] {
                      hopper::store_5d(planes, to, tile.at[0], channel,
                                       tile.at[1] + m / Problem::kLine, tile.at[2], tile.at[3]);
                    });
      } else {
        stage<kOutChannels, kTogether, kLines, Rows::kIsLoaded>(to, d, first, finish);
        if constexpr (kLines > 0) {
          store_planes<Problem, kOutChannels>(c + shift, to, row, out_channels);
        } else {
          store_rows<Problem, kOutChannels>(c + shift, to, row, out_channels);
        }
      }
    }
  }

  // The same of the phases of a group.
  template <int kGroup>
  __device__ __forceinline__ void store_phases(const float (&d)[kColumns / 2], const Tile& tile,
                                               int m, unsigned to, Output* c,
                                               const Pointers& operands) const {
    constexpr int kOutChannels = Config::kStoreChannels, kOfPhase = Problem::kPhaseColumns;
    constexpr int kRun = kOfPhase == Problem::kOutChannels ? Problem::kRun : 1;
    const PhaseRow<Problem> whole = phases_at(tile, m + threadIdx.x % kWarpRows);
    static_for<kColumns / kOutChannels>([&](auto part) {
      constexpr int first = decltype(part)::value * kOutChannels;
      constexpr int column = kGroup * kColumns + first, phase = column / kOfPhase;
      const PhaseRow<Problem, column> row = {whole.offset, whole.phases};
      using Finisher = Finish<Problem, PhaseColumns<Problem, column>>;
      stage<kOutChannels, Finisher::kTogether, kLines>(to, d, first, Finisher(operands, row));
      if constexpr (Problem::kPlanePairs) {
        static_assert(kOutChannels == 2 * kOfPhase && column % kOutChannels == 0);
        store_plane_pairs<Problem, kOutChannels>(c + Problem::offsets[phase], to, row);
      } else if constexpr (kLines > 0) {
        Output* const first_plane =
            c + Problem::offsets[phase] + column % kOfPhase * Problem::kChannelStride;
        store_planes<Problem, kOutChannels>(first_plane, to, row, kOutChannels);
      } else {
        Output* const run =
            c + Problem::offsets[phase / kRun * kRun] + column % (kRun * kOfPhase);
        store_rows<Problem, kOutChannels>(run, to, row, kOutChannels);
      }
    });
  }
};

// The body of a kernel of `kThreads` threads.
template <class Problem, class Config, class... Maps>
__device__ __forceinline__ void contract_halo(typename Problem::Epilogue::Stored* c,
                                              const typename Problem::Epilogue::Pointers& operands,
                                              int images, const hopper::TensorMap* planes,
                                              const hopper::TensorMap& b, const Maps&... a) {
  using Kernel = HaloKernel<Problem, Config>;
  extern __shared__ char memory[];
  const int warpgroup = __shfl_sync(kAllLanes, threadIdx.x / kWarpgroupThreads, 0);
  if (threadIdx.x < Kernel::kConsumers) {
    Kernel(memory, threadIdx.x, images).init_barriers();
  } else if (threadIdx.x == 32) {
    (hopper::prefetch_map(&a), ...);
    hopper::prefetch_map(&b);
    if constexpr (Problem::kPlaneLines > 0) hopper::prefetch_map(planes);
  }
  __syncthreads();
  hopper::wait_on_dependent_grids();
  hopper::launch_dependent_grids();
  Roles<true, kProducerRegisters, Config::kRegisters>::run(
      warpgroup == 0,
      [&] {
        if (threadIdx.x % 32 == 0 && threadIdx.x < 32 * Kernel::kConsumers) {
          Kernel(memory, threadIdx.x / 32, images).produce(a...);
        }
      },
      [&] {
        const Kernel kernel(memory, warpgroup - 1, images);
        if (threadIdx.x == kWarpgroupThreads) kernel.load_weights(b);
        __syncwarp();
        kernel.consume(c, operands, planes);
      });
}

}  // namespace convir::wgmma
