// Where the results of a gradient of weights lie: tiles, chunks of channels and taps, and the
// stores of their accumulators.
#pragma once

#include "arith/sizes.cuh"
#include "epilogue/vector_store.cuh"
#include "epilogue/wgmma_store.cuh"
#include "schedule/partition.cuh"

namespace convir::wgrad {

constexpr int kChunk = 64;       // channels of a copy
constexpr int kMaxSpatial = wgmma::kMaxSpatial;

// How the splits of a tile are put together; see schedule/partition.cuh, and
// reduce/cluster_reduction.cuh for clusters.
enum Reduction : int { kLinear, kTree, kReduceScatter };

// kProducerWarps: producer warps; kConsumers: warpgroups that multiply; kCluster: blocks that put
// the splits of a tile together in their shared memory; kProducts: 3 of TF32 for each of f32, or 1.
template <int kBlockM_, int kBlockN_, int kStages_, int kProducerWarps_, int kConsumers_,
          int kCluster_, int kDrained_, partition::Kind kKind_, int kSplits_,
          Reduction kReduction_, bool kWholeAreBlocks_, int kBlocks_, int kProducts_>
struct Config {
  static constexpr int kBlockM = kBlockM_, kBlockN = kBlockN_, kStages = kStages_;
  static constexpr int kProducerWarps = kProducerWarps_, kConsumers = kConsumers_, kCluster = kCluster_;
  static constexpr int kConsumerThreads = kConsumers * kWarpgroupThreads;
  static constexpr int kThreads = kConsumerThreads + kProducerWarps * 32;
  // A warpgroup that loads leaves registers to two that multiply.
  static constexpr bool kTradesRegisters = kProducerWarps == 4 && kConsumers == 2;
  static constexpr bool kIsClustered = kCluster > 1;
  static constexpr int kDrained = kDrained_;  // stages that accumulators are written over
  static_assert(!kIsClustered || kCluster == kSplits_);
  static constexpr partition::Kind kKind = kKind_;
  static constexpr int kSplits = kSplits_;
  static constexpr Reduction kReduction = kReduction_;
  // Of stream-K: tiles that nobody divides have blocks of their own.
  static constexpr bool kWholeAreBlocks = kWholeAreBlocks_;
  static constexpr int kBlocks = kBlocks_;  // that run at a time
  // Whether f32 is multiplied as three products of TF32.
  static constexpr bool kIsSplit = kProducts_ == 3;
  // Warpgroups share a tile's rows, or its columns if there are only 64 rows.
  static constexpr int kWarpgroupsM = kBlockM >= kConsumers * 64 ? kConsumers : 1;
  static constexpr int kWarpgroupsN = kConsumers / kWarpgroupsM;
  static constexpr int kN = kBlockN / kWarpgroupsN;                    // columns of a warpgroup
  static constexpr int kWarpgroupTiles = kBlockM / kWarpgroupsM / 64;  // of 64 rows
  static_assert(kBlockM % (kWarpgroupsM * 64) == 0);
  // A tile's last columns may be a half or a quarter of a chunk, whose rest other tiles have.
  static constexpr int kRest = kN % kChunk, kSharing = kRest > 0 ? kChunk / kRest : 1;
  static_assert(kRest == 0 || (kWarpgroupsN == 1 && kSharing * kRest == kChunk));
  static_assert(kWarpgroupTiles * kN <= 256, "sums are at most half of the registers");
};

template <class Problem, class Config>
struct Layout {
  using Epilogue = typename Problem::Epilogue;
  using Output = typename Epilogue::Stored;

  static constexpr int kBoxesM = Config::kBlockM / kChunk;
  static constexpr int kWholeN = Config::kBlockN / kChunk, kSharing = Config::kSharing;
  static constexpr int kBoxesN = kWholeN + (Config::kRest > 0);
  static constexpr int kChunksM = (Problem::kOutChannels + kChunk - 1) / kChunk;
  static constexpr int kTapChunks = (Problem::kInChannels + kChunk - 1) / kChunk;
  static constexpr int kChunksN = kTapChunks * Problem::kTaps;
  static constexpr int kSharesN = kWholeN * kSharing + (Config::kRest > 0);  // of chunks, a tile's
  static constexpr int kTilesN = (kChunksN * kSharing + kSharesN - 1) / kSharesN;
  static constexpr int kTilesM = (kChunksM + kBoxesM - 1) / kBoxesM;
  static constexpr int kTilesOfGroup = kTilesM * kTilesN;
  static constexpr int kTiles = Problem::kGroups * kTilesOfGroup;

  using WarpStaging = wgmma::Staging<kChunk>;
  static constexpr int kStagingBytes = WarpStaging::kBytes * Config::kConsumers * 4;

  // The group of a tile, and the first chunk of its rows. Columns change fastest, groups slowest.
  static __device__ __forceinline__ int group_of(int tile) {
    return Problem::kGroups == 1 ? 0 : tile / kTilesOfGroup;
  }
  static __device__ __forceinline__ int chunk_m(int tile) {
    const int row = tile / kTilesN;
    return (Problem::kGroups == 1 ? row : row % kTilesM) * kBoxesM;
  }

  // Chunk i of a tile's columns, and its first channel that is the tile's. Behind the chunks that
  // tiles have alone are those that they share.
  struct Columns {
    int tile;  // of its row of tiles

    __device__ __forceinline__ explicit Columns(int of) : tile(of % kTilesN) {}
    __device__ __forceinline__ int chunk(int i) const {
      return i < kWholeN ? tile * kWholeN + i : kTilesN * kWholeN + tile / kSharing;
    }
    __device__ __forceinline__ int channel(int i) const {
      return i < kWholeN ? 0 : tile % kSharing * Config::kRest;
    }
  };

  // visit(axis, coordinate) of a tap.
  template <class Visit>
  static __device__ __forceinline__ void for_tap(int tap, Visit&& visit) {
    split_number<kMaxSpatial, false>(tap, [](int axis) { return Problem::taps(axis); }, visit);
  }

  // Pixels of A behind the corner of a tap's window.
  static __device__ __forceinline__ void tap_offset(int tap, int (&offset)[kMaxSpatial]) {
    for_tap(tap, [&](int axis, int at) {
      offset[axis] = Problem::first_offset(axis) + at * Problem::tap_step(axis);
    });
  }

  // The pixel of A that an output pixel's window begins at.
  static __device__ __forceinline__ void pixel_at(int position, int (&at)[5]) {
    split_number<Problem::kSpatial + 1, false>(
        position, [](int axis) { return Problem::size(axis); },
        [&](int axis, int x) {
          const bool is_image = axis == Problem::kSpatial;
          at[1 + axis] = is_image ? x : x * Problem::step(axis) + Problem::corner(axis);
        });
  }

  // Elements of B before a chunk of a column.
  static __device__ __forceinline__ int chunk_offset(int chunk) {
    int offset = Problem::kFirstWeight + chunk % kTapChunks * kChunk * Problem::kInChannelStride;
    for_tap(chunk / kTapChunks,
            [&](int axis, int at) { offset += at * Problem::weight_step(axis); });
    return offset;
  }
  // Channels of a chunk, 0 outside.
  static __device__ __forceinline__ int channels_of(int chunk) {
    return chunk >= kChunksN ? 0 : min(kChunk, Problem::kInChannels - chunk % kTapChunks * kChunk);
  }

  // Stores 16 rows of a warp's accumulators, chunk by chunk, 16 bytes a lane; its first chunk is
  // `first`.
  template <int kValues>
  static __device__ __forceinline__ void store_rows(Output* out, const float (&d)[kValues], int m,
                                                    const Columns& out_channels, int first,
                                                    unsigned staging) {
#pragma unroll
    for (int i = 0; i < Config::kN / kChunk; ++i) {
      store_chunk<kChunk>(out, d, i, m, out_channels.chunk(first + i), 0, staging);
    }
    if constexpr (Config::kRest > 0) {
      store_chunk<Config::kRest>(out, d, kWholeN, m, out_channels.chunk(kWholeN),
                                 out_channels.channel(kWholeN), staging);
    }
  }

  // Columns i * kChunk and the next, kCount in all, which are channels of a chunk from `begin` on.
  template <int kCount, int kValues>
  static __device__ __forceinline__ void store_chunk(Output* out, const float (&d)[kValues], int i,
                                                     int m, int chunk, int begin, unsigned staging) {
    constexpr int kLanes = kCount / 8, kRows = 32 / kLanes;
    const int lane = threadIdx.x % 32, row = lane / kLanes, column = lane % kLanes * 8;
    const int channel = begin + column;
    wgmma::stage<Epilogue, kCount>(staging, d, i * kChunk);
    __syncwarp();
    const bool is_inside = channel < channels_of(chunk);
    Output* to = out + (m + row) * Problem::kOutChannelStride + chunk_offset(chunk) + channel;
#pragma unroll
    for (int j = 0; j < wgmma::kWarpRows; j += kRows) {
      const uint4 x =
          load_ordered(staging + (j + row) * wgmma::Staging<kCount>::kPitch + column * 2);
      if (is_inside && m + j + row < Problem::kOutChannels) wgmma::store_chunk(to, x);
      to += kRows * Problem::kOutChannelStride;
    }
    __syncwarp();
  }

  // Stores accumulators of a tile as a thread of a warpgroup holds them, four at a time: two
  // neighbours of a row, and of the eighth below. What is the same for all of them is found once,
  // before they come.
  class Fours {
   public:
    // `thread` is that of the warpgroup; m and columns are the tile's first chunk and its columns.
    __device__ __forceinline__ Fours(Output* out, int first_m, const Columns& out_channels,
                                     int consumer, int thread)
        : lane_channel_(thread % 4 * 2) {
      const int m = first_m * kChunk + thread / 32 * wgmma::kWarpRows + thread % 32 / 4 +
                    consumer / Config::kWarpgroupsN * Config::kWarpgroupTiles * kChunk;
      rows_ = Problem::kOutChannels - m;
      to_ = out + m * Problem::kOutChannelStride;
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        const int box = consumer % Config::kWarpgroupsN * (Config::kN / kChunk) + j;
        const int chunk = out_channels.chunk(box), begin = out_channels.channel(box);
        offset_[j] = chunk_offset(chunk) + begin * Problem::kInChannelStride +
                     lane_channel_ * Problem::kInChannelStride;
        channels_[j] = channels_of(chunk) - begin - lane_channel_;
      }
    }

    // Accumulators 4 i to 4 i + 3 of the thread.
    __device__ __forceinline__ void operator()(int i, const float4& accumulators) const {
      constexpr int kOfTile = Config::kN / 8;
      const int below = i / kOfTile * kChunk, column = i % kOfTile * 8, channel = column % kChunk;
      int offset = offset_[0], channels = channels_[0];
#pragma unroll
      for (int j = 1; j < kChunks; ++j) {
        if (column < j * kChunk) continue;
        offset = offset_[j];
        channels = channels_[j];
      }
      if (channel >= channels) return;
      Output* to = to_ + below * Problem::kOutChannelStride + offset +
                   channel * Problem::kInChannelStride;
      const float total[2][2] = {{accumulators.x, accumulators.y},
                                 {accumulators.z, accumulators.w}};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        Output* const row = to + i * 8 * Problem::kOutChannelStride;
        const auto make = [&](int j) { return Epilogue::apply(total[i][j], {}, nullptr); };
        if constexpr (Problem::kStoresPairs) {
          store_results<2, kTogether>(
              row, 1, [&](int) { return below + i * 8 < rows_; }, make);
        } else {
          store_results<2, kApart>(
              row, Problem::kInChannelStride,
              [&](int j) { return below + i * 8 < rows_ && channel + j < channels; }, make);
        }
      }
    }

   private:
    static constexpr int kChunks = (Config::kN + kChunk - 1) / kChunk;
    Output* to_;
    int rows_, lane_channel_, offset_[kChunks], channels_[kChunks];
  };
};

}  // namespace convir::wgrad
