// A tile of multi_tap_wgrad/kernel.cuh: what it holds in shared memory, and which results it has.
#pragma once

#include "reduce/consumer_warpgroups.cuh"

namespace convir::multi_tap_wgrad {

constexpr int kRows = 64;           // input channels of a tile: 16 for each warp of a consumer warpgroup
constexpr int kSlab = 16;           // output pixels of one multiplication
constexpr int kGroupChunk = 64;     // output pixels of a chunk, for each consumer warpgroup
// Registers of a thread where twelve or sixteen warps trade them.
template <int kLoadWarps>
constexpr int kConsumerRegisters = kLoadWarps == 4 ? 232 : 216;

template <class P, class C>
struct Layout {
  static constexpr int kChunk = kGroupChunk * C::kConsumerWarpgroups;
  static constexpr int kLead = (P::kReach + kChunk - 1) / kChunk;  // chunks of dY before and behind
  static constexpr int kRingChunks = C::kStages + 2 * kLead;
  static constexpr int kRing = kRingChunks * kChunk;
  static constexpr int kPlaneBytes = (kRing + kSlab) * 16;  // the first slab again behind the last
  static constexpr int kStageBytes = kChunk * kRows * 2;
  static constexpr int kRingAt = C::kStages * kStageBytes;
  static constexpr int kPipelineBytes = kRingAt + C::kN8 * kPlaneBytes;

  static constexpr int kTiles8 = P::kTaps * C::kN8;  // of 8 columns
  using Groups = consumer_warpgroups::Layout<C::kConsumerWarpgroups, kTiles8>;
  using Kept = consumer_warpgroups::Kept<C::kConsumerWarpgroups, kTiles8>;
  static constexpr int kBarriersAt =
      kPipelineBytes > Groups::kExchangeBytes ? kPipelineBytes : Groups::kExchangeBytes;
  static constexpr int kSharedBytes = kBarriersAt + 8 * (2 * C::kStages + 1);
  static_assert(kSharedBytes == C::kSharedBytes, "the host asks for as much as is used");

  static constexpr int kOutChannelTiles = (P::kOutChannels + 8 * C::kN8 - 1) / (8 * C::kN8);
  static constexpr int kInChannelTiles = (P::kInChannels + kRows - 1) / kRows;
  static constexpr int kConsumerThreads = C::kConsumerWarpgroups * kWarpgroupThreads;
  static constexpr int kLoadThreads = C::kLoadWarps > 0 ? C::kLoadWarps * 32 : kConsumerThreads;
};

// Which results a tile has.
template <class P, class C>
struct Place {
  int set, group, column, in_channels;  // tap group and group of channels; first column and depth

  __device__ __forceinline__ explicit Place(int tile) {
    using L = Layout<P, C>;
    in_channels = tile % L::kInChannelTiles * kRows;
    int rest = tile / L::kInChannelTiles;
    column = L::kOutChannelTiles == 1 ? 0 : rest % L::kOutChannelTiles * 8 * C::kN8;
    rest /= L::kOutChannelTiles;
    set = P::kTapGroups == 1 ? 0 : rest % P::kTapGroups;
    group = P::kGroups == 1 ? 0 : rest / P::kTapGroups;
  }
};

}  // namespace convir::multi_tap_wgrad
