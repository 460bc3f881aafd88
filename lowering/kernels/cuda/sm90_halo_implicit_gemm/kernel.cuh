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
// Each consumer warpgroup has a producer thread, a ring and tiles of its own, so one stores while
// others multiply.
//
// Problem (generated): Input, Epilogue, Operands, kFilterByInChannel as for
// `sm90_implicit_gemm/kernel.cuh`;
//   kInChannels, kOutChannels    of one tap
//   kChunk                       input channels of a chunk: a row of the swizzle
//   kTaps, matrix[tap], shift[tap]   matrices of B, and pixels of the box to a tap's first one
//   kRows, kCols, kLine, kGroup  of a tile; see `layout.py`
//   kBox[3]                      pixels of the box, innermost axis first
//   kStageBytes, kSharedBytes    of a chunk of a box, and of a block
//   kTiles[3], sizes, corner, strides, kOffset   tiles of an image; output pixels, the batch last
#pragma once

#include "arith/sizes.cuh"
#include "epilogue/wgmma_store.cuh"
#include "mma/sm90_tile.cuh"
#include "pipeline/warp_specialized.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mma_sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "schedule/wgmma_schedule.cuh"

namespace convir::wgmma {

template <int kColumns_, int kBlockColumns_, int kInstructions_, int kStages_, int kConsumers_,
          int kStoreChannels_, int kRegisters_>
struct HaloConfig {
  static constexpr int kColumns = kColumns_;            // of a block
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
  static constexpr int kCopiesB =
      kMajorB == hopper::kMajorK ? 1 : kColumns / Config::kBlockColumns;
  static constexpr int kMatrixBytes = kColumns * kRowBytes;
  static constexpr int kBytesB = Problem::kTaps * kChunks * kMatrixBytes;
  // Matrices of a chunk arrive in parts: the first tile is multiplied as they do.
  static constexpr int kParts = smaller(Problem::kTaps, 4);
  static constexpr int first_tap(int part) { return part * Problem::kTaps / kParts; }
  static constexpr int kStepB =
      (kMajorB == hopper::kMajorK ? hopper::kStepBytes : 16 * kRowBytesB) / 16;

  static constexpr int kBoxBytes =
      Problem::kBox[0] * Problem::kBox[1] * Problem::kBox[2] * kRowBytes;
  using WarpStaging = Staging<Config::kStoreChannels>;
  static constexpr int kSharedBytes = hopper::kAtomBytes +
                                      kConsumers * kStages * Problem::kStageBytes + kBytesB +
                                      kConsumers * 4 * WarpStaging::kBytes +
                                      (2 * kConsumers * kStages + kChunks * kParts) * 8;
  static_assert(kColumns % 16 == 0 && kColumns % Config::kStoreChannels == 0);
  static_assert(kBoxBytes <= Problem::kStageBytes && Problem::kStageBytes % hopper::kAtomBytes == 0);
  static_assert(kSharedBytes == Problem::kSharedBytes);

  unsigned stages, weights, staging;
  unsigned loaded;             // the barriers of the parts of B
  Pipeline<kStages> pipeline;  // of the consumer
  int consumer, tiles_of_block, first_column;

  __device__ HaloKernel(const char* memory, int consumer, int images)
      : stages(hopper::to_atom(shared_address(memory))),
        weights(stages + kConsumers * kStages * Problem::kStageBytes),
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

  // One thread: the block's columns of all matrices of B.
  __device__ void load_weights(const hopper::TensorMap& b) const {
    for (int i = 0; i < kChunks * kParts; ++i) {
      const int chunk = i / kParts, part = i % kParts;
      const unsigned barrier = loaded + i * 8;
      arrive_expecting(barrier, (first_tap(part + 1) - first_tap(part)) * kMatrixBytes);
      for (int tap = first_tap(part); tap < first_tap(part + 1); ++tap) {
        const unsigned to = weights + (chunk * Problem::kTaps + tap) * kMatrixBytes;
        for (int copy = 0; copy < kCopiesB; ++copy) {
          const int n = first_column + copy * Config::kBlockColumns;
          hopper::load_3d(to + copy * kChunk * kRowBytesB, &b, barrier,
                          kMajorB == hopper::kMajorK ? chunk * kChunk : n, Problem::matrix(tap),
                          kMajorB == hopper::kMajorK ? n : chunk * kChunk);
        }
      }
    }
  }

  // One thread of each consumer: the halos of its tiles.
  __device__ void produce(const hopper::TensorMap& a) const {
    convir::produce(tiles(), pipeline, [&](const Tile& tile, Producer<kStages>& produce) {
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        produce([&](int stage, unsigned barrier) {
          arrive_expecting(barrier, kBoxBytes);
          hopper::load_5d(stages + stage * Problem::kStageBytes, &a, barrier, chunk * kChunk,
                          tile.at[0] + Problem::corner[0], tile.at[1] + Problem::corner[1],
                          tile.at[2] + Problem::corner[2], tile.at[3]);
        });
      }
    });
  }

  using Accumulators = float[kInstructions][kColumns / 2];

  template <int kOfChunk, int kPart>
  static __device__ __forceinline__ void multiply(Accumulators& d, unsigned a, unsigned b) {
    constexpr unsigned long long layout_a =
        hopper::descriptor_layout(kRowBytes, 16, Problem::kGroup * kRowBytes);
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
        static_for<kInstructions>([&](auto i) {
          constexpr int kOfTap = kFirstTap + decltype(tap)::value, kStep = decltype(step)::value;
          constexpr int pixel =
              Problem::shift[kOfTap] + decltype(i)::value * (kInstructionRows / 8) * Problem::kGroup;
          constexpr int at_a = (pixel * kRowBytes + kStep * hopper::kStepBytes) / 16;
          constexpr int at_b = (kOfChunk * Problem::kTaps + kOfTap) * (kMatrixBytes / 16) + kStep * kStepB;
          using Multiply = hopper::Wgmma<Input, kColumns, hopper::kMajorK, kMajorB>;
          if constexpr (kOfChunk == 0 && kOfTap == 0 && kStep == 0) {
            Multiply::run(d[i.value], from_a + at_a, from_b + at_b, 0);
          } else {
            Multiply::run(d[i.value], from_a + at_a, from_b + at_b);
          }
        });
      });
    });
  }

  // A warpgroup of each consumer.
  __device__ __forceinline__ void consume(Output* c, const Pointers& operands) const {
    const int warp = threadIdx.x % kWarpgroupThreads / 32;
    const auto reduce = [&](const Tile&, Accumulators& d, Consumer<kStages>& full) {
      int held = 0;  // the stage whose products are under way
      static_for<kChunks>([&](auto chunk) {
        full.wait();
        const unsigned a = stages + full.at.stage * Problem::kStageBytes;
        static_for<kParts>([&](auto part) {
          constexpr int kOfChunk = decltype(chunk)::value, kPart = decltype(part)::value;
          wait_barrier(loaded + (kOfChunk * kParts + kPart) * 8, 0);
          mma::issue(d, [&] { multiply<kOfChunk, kPart>(d, a, weights); });
          if constexpr (kOfChunk > 0 && kPart == 0) full.release(held);
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
          static_for<kInstructions>([&](auto i) {
            store(d[i.value], tile, i.value * kInstructionRows + warp * kWarpRows,
                  staging + (consumer * 4 + warp) * WarpStaging::kBytes, c, operands);
          });
        });
  }

  // Row m of a tile.
  static __device__ __forceinline__ Row<Problem> row_at(const Tile& tile, int m) {
    const int row = m / Problem::kLine, col = m % Problem::kLine;
    const int at[kMaxAxes] = {tile.at[0] + col, tile.at[1] + row, tile.at[2], tile.at[3]};
    const bool is_inside = row < Problem::kRows && col < Problem::kCols &&
                           at[0] < Problem::sizes[0] && at[1] < Problem::sizes[1];
    return {is_inside ? Problem::kOffset + offset_of(at, Problem::strides) : 0, is_inside ? 1 : 0,
            0};
  }

  __device__ __forceinline__ void store(const float (&d)[kColumns / 2], const Tile& tile, int m,
                                        unsigned to, Output* c, const Pointers& operands) const {
    constexpr int kOutChannels = Config::kStoreChannels;
    const auto row = row_at(tile, m + threadIdx.x % kWarpRows);
    Finish<Problem, LaneColumns<Problem>> finish{operands, row};
#pragma unroll
    for (int first = 0; first < kColumns; first += kOutChannels) {
      const int channel = first_column + first;
      const int out_channels = min(kOutChannels, Problem::kOutChannels - channel);
      finish.find.begin(channel, channel, out_channels);
      stage<kOutChannels, decltype(finish)::kTogether>(to, d, first, finish);
      store_rows<Problem, kOutChannels>(c + channel, to, row, out_channels);
    }
  }
};

// The body of a kernel of `kThreads` threads.
template <class Problem, class Config>
__device__ __forceinline__ void contract_halo(typename Problem::Epilogue::Stored* c,
                                              const typename Problem::Epilogue::Pointers& operands,
                                              int images, const hopper::TensorMap& b,
                                              const hopper::TensorMap& a) {
  using Kernel = HaloKernel<Problem, Config>;
  extern __shared__ char memory[];
  const int warpgroup = __shfl_sync(kAllLanes, threadIdx.x / kWarpgroupThreads, 0);
  if (threadIdx.x < Kernel::kConsumers) {
    Kernel(memory, threadIdx.x, images).init_barriers();
  } else if (threadIdx.x == 32) {
    hopper::prefetch_map(&a);
    hopper::prefetch_map(&b);
  }
  __syncthreads();
  Roles<true, kProducerRegisters, Config::kRegisters>::run(
      warpgroup == 0,
      [&] {
        if (threadIdx.x % 32 == 0 && threadIdx.x < 32 * Kernel::kConsumers) {
          Kernel(memory, threadIdx.x / 32, images).produce(a);
        }
      },
      [&] {
        const Kernel kernel(memory, warpgroup - 1, images);
        if (threadIdx.x == kWarpgroupThreads) kernel.load_weights(b);
        __syncwarp();
        kernel.consume(c, operands);
      });
}

}  // namespace convir::wgmma
