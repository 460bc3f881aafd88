// Rows of a residual for a tile of `sm90_implicit_gemm`, loaded before the tile is multiplied.
#pragma once

#include "epilogue/plane_store.cuh"
#include "epilogue/wgmma_store.cuh"
#include "ptx/mma_sync.cuh"
#include "schedule/wgmma_schedule.cuh"

namespace convir::wgmma {

constexpr int kConsumerRegisters = 232;
constexpr int kOtherRegisters = 56;  // of a consumer, beside accumulators and rows of an operand

// Columns that are staged at a time, from n + first on: where they begin in a row of C, with which
// channel, and how many there are.
template <class Problem, int kStoreChannels>
struct StoredColumns {
  int out_channels;
  long long shift;
  int channel;

  __device__ __forceinline__ StoredColumns(int n, int first)
      : out_channels(min(kStoreChannels, Problem::kOutChannels - n - first)),
        shift((n + first) * Problem::kChannelStride),
        channel(n + first) {
    if constexpr (Problem::kPieces > 1) {
      const int piece = (n + first) / Problem::kPieceChannels;
      channel -= piece * Problem::kPieceChannels;
      if (out_channels > 0) {
        shift = Problem::piece(piece).offset + channel * Problem::kChannelStride;
      }
    }
  }
};

// Rows of an operand for all parts of a warp's rows of a tile, each the columns that are staged at a
// time. Loads begin before the tile is multiplied, as many parts ahead as registers are free.
template <class Problem, class Config>
struct TileRows {
  using Pointers = typename Problem::Epilogue::Pointers;
  using Part = RowOperand<Problem, Config::kStoreChannels, staged_lines<Problem>() == 0>;
  static constexpr bool kAreLoaded = Part::kIsLoaded && Config::kSplits == 1;
  static constexpr int kOfRow = Config::kBlockN / Config::kStoreChannels;
  static constexpr int kParts = kAreLoaded ? Config::kWarpgroupTiles * kOfRow : 1;
  static constexpr int kFree =
      kConsumerRegisters - kOtherRegisters - Config::kWarpgroupTiles * Config::kBlockN / 2;
  static constexpr int kMost = kFree / (4 * Part::kLoads) < 2 ? 2 : kFree / (4 * Part::kLoads);
  static constexpr int kAhead = kMost < kParts ? kMost : kParts;

  Row<Problem> row[Config::kWarpgroupTiles];
  Part part[kAhead];
  int n;

  __device__ __forceinline__ void begin(const Phase& phase, int images, int m, int first_column,
                                        const Pointers& operands) {
    n = first_column;
    static_for<Config::kWarpgroupTiles>([&](auto j) {
      row[j.value] = row_at<Problem>(phase, images, m + j.value * 64 + threadIdx.x % kWarpRows);
    });
    static_for<kAhead>([&](auto i) { load<i.value>(operands); });
  }
  // Part i is staged, and one further ahead is loaded.
  template <int i>
  __device__ __forceinline__ void put(unsigned to, const Pointers& operands) {
    part[i % kAhead].put(to);
    if constexpr (i + kAhead < kParts) load<i + kAhead>(operands);
  }

 private:
  template <int i>
  __device__ __forceinline__ void load(const Pointers& operands) {
    const StoredColumns<Problem, Config::kStoreChannels> columns(
        n, i % kOfRow * Config::kStoreChannels);
    part[i % kAhead].load(operands, row[i / kOfRow], columns.shift, columns.out_channels);
  }
};

}  // namespace convir::wgmma
