// A tile of sm90_row_packed_wgrad/kernel.cuh: what it holds in shared memory, and which results and
// output pixels it has.
#pragma once

#include "arith/sizes.cuh"
#include "ptx/wgmma.cuh"
#include "reduce/cluster_reduction.cuh"
#include "reduce/consumer_warpgroups.cuh"

namespace convir::row_packed_wgrad {

constexpr int kInChannels_ = 64;  // of a wgmma: its rows
constexpr int kEight = 8;    // output pixels, or columns, that lie together in shared memory
constexpr int kSlab = 16;    // output pixels of a wgmma
// Registers of a thread where twelve or sixteen warps trade those that they begin with.
template <int kWarps>
constexpr int kLoadRegisters = kWarps == 12 ? 56 : 40;
template <int kWarps>
constexpr int kConsumerRegisters = kWarps == 12 ? 224 : 216;

template <class P, class C>
struct Layout {
  static constexpr int kStack8 = divide_up(C::kTapRows * C::kOutChannels, kEight);  // of columns of a wgmma

  static constexpr int kXRowBytes = C::kCols * hopper::kSwizzleBytes;
  static constexpr int kXChannelsBytes = C::kRows * kXRowBytes;
  static constexpr int kXBytes = C::kInChannelGroups * kXChannelsBytes;

  // dY: rows of planes of 8 columns, in which output pixels follow each other, 16 bytes each.
  static constexpr int kWindowRows = C::kRows + C::kTapRows - 1;
  static constexpr int kWindowCols = C::kCols + C::kReach;
  static constexpr int kPlaneBytes = C::kPitch * 16;
  static constexpr int kPlanes = divide_up(C::kOutChannels, kEight);  // that a row's columns lie in
  static constexpr int kYRowBytes = kPlanes * kPlaneBytes;
  // Rows of 8 n + 4 columns are packed: two of them are 2 n + 1 planes, so taps of every other row
  // begin in the middle of one. Where consumer warpgroups take turns, one has the rows that begin
  // with a plane, and accumulators of the other stand four columns further. Else there are two
  // copies of the window, one that begins with its first row, and one with the second.
  static constexpr bool kIsPacked = C::kOutChannels % kEight != 0;
  static constexpr bool kIsShifted = kIsPacked && C::kConsumerWarpgroups / C::kInChannelGroups == 2;
  static constexpr int kCopies = kIsShifted ? 1 : 2;
  static constexpr int kPairBytes = 2 * C::kOutChannels / kEight * kPlaneBytes;
  static constexpr int kCopyRows = kIsPacked && !kIsShifted ? C::kRows - 2 + C::kTapRows : kWindowRows;
  // Rows that stay from step to step: a ring, whose first rows stand behind the last ones again.
  static constexpr int kHalo = C::kTapRows - 1;  // that two windows of an image share
  static constexpr int kRingGroups = C::kStages + 1;
  static constexpr int kRingRows = kRingGroups * C::kRows;
  static constexpr int kAgainRows = kCopyRows - C::kRows;
  static constexpr int kGroupBytes = kIsPacked ? C::kRows / 2 * kPairBytes : C::kRows * kYRowBytes;
  static_assert(!C::kIsRing || (kHalo > 0 && kHalo <= C::kRows), "windows share rows of one group");
  static constexpr int kRowsOfCopy = C::kIsRing ? kRingRows + kAgainRows : kCopyRows;
  static constexpr int kCopyBytes = divide_up(kRowsOfCopy * C::kOutChannels, kEight) * kPlaneBytes;
  static_assert(!kIsPacked || (2 * C::kOutChannels % kEight == 0 && C::kRows % 2 == 0));
  static_assert(!kIsShifted || (C::kTapRows % 2 == 1 && C::kRows % (2 * C::kSlabRows) == 0));
  static constexpr int kYBytes = kIsPacked ? kCopies * kCopyBytes : kRowsOfCopy * kYRowBytes;
  // Where the plane is in which the taps of a row of X begin.
  static __device__ __forceinline__ int y_of(int row) {
    if constexpr (kIsShifted) {
      return row / 2 * kPairBytes + row % 2 * (C::kOutChannels / kEight) * kPlaneBytes;
    } else if constexpr (kIsPacked) {
      return row % 2 * kCopyBytes + row / 2 * kPairBytes;
    }
    return row * kYRowBytes;
  }
  static_assert(C::kPitch >= kWindowCols && C::kCols % kEight == 0);

  static constexpr int kOfStage = kXBytes + (C::kIsRing ? 0 : kYBytes);
  static constexpr int kStageBytes = hopper::to_atom(kOfStage);
  static constexpr int kRingAt = (C::kStages - 1) * kStageBytes + kOfStage;
  static constexpr int kStagesBytes = kRingAt + (C::kIsRing ? kYBytes : 0);

  // Where rows of dY wait as they lie in memory: all rows that a window may have, or those of its
  // columns each for itself. Copies begin and end at multiples of 16 bytes.
  static constexpr int kPixelBytes_ = P::kOutChannels * 2;
  static constexpr bool kIsWhole = P::kRowsFollow && C::kCols >= P::kCols;
  static constexpr int kWaitingRowBytes =
      kIsWhole ? P::kOutCols * kPixelBytes_ : (kWindowCols * kPixelBytes_ + 2 * 15) / 16 * 16;
  static constexpr int kWaitingRows = C::kIsRing                              ? C::kRows
                                      : kIsWhole && P::kOutRows < kWindowRows ? P::kOutRows
                                                                              : kWindowRows;
  static constexpr int kWaitingBytes = (kWaitingRows * kWaitingRowBytes + 2 * 15) / 16 * 16;
  static constexpr int kPipelineBytes = kStagesBytes + (C::kIsBulk ? C::kWaiting * kWaitingBytes : 0);

  // A slab is 16 output pixels of one row, or 8 of each of two rows: neighbours, or those of one
  // group.
  static constexpr int kSlabCols = kSlab / C::kSlabRows;
  static constexpr int kSlabsOfRow = C::kCols / kSlabCols;
  static constexpr int kSlabs = C::kRows / C::kSlabRows * kSlabsOfRow;
  static_assert(C::kCols % kSlabCols == 0 && C::kRows % C::kSlabRows == 0);
  // Consumer warpgroups have input channels of their own, or take turns of slabs.
  static_assert(C::kInChannelGroups == 1 || C::kInChannelGroups == C::kConsumerWarpgroups);
  static constexpr int kSlabGroups = C::kConsumerWarpgroups / C::kInChannelGroups;
  static_assert(kSlabs >= kSlabGroups, "every group has a slab of a stage");
  static constexpr int kBetweenRows = kIsShifted ? 2 : 1;
  static constexpr int kAlongX =
      C::kSlabRows == 2 ? kBetweenRows * kXRowBytes : hopper::kAtomBytes;
  static constexpr int kAlongY = C::kSlabRows == 1 ? kEight * 16
                                 : kIsShifted     ? kPairBytes
                                 : kIsPacked      ? kCopyBytes
                                                  : kYRowBytes;

  static constexpr int kTiles8 = C::kTapCols * kStack8;
  static constexpr bool kShareAccumulators = C::kInChannelGroups == 1;
  using Groups = consumer_warpgroups::Layout<C::kConsumerWarpgroups, kTiles8, kShareAccumulators>;
  using Kept = consumer_warpgroups::Kept<C::kConsumerWarpgroups, kTiles8, kShareAccumulators, kIsShifted>;
  // Memory of accumulators that other blocks of a cluster write, behind the pipeline or the
  // exchanged accumulators.
  static constexpr bool kIsClustered = C::kReduction == consumer_warpgroups::kWithinCluster;
  using Pushed = partition::ClusterReduction<
      partition::OwnedByChunk<Groups::kThreads, 4 * Groups::kKept, C::kSplits>>;
  static constexpr bool kHasExchange =
      kSlabGroups > 1 || C::kReduction == consumer_warpgroups::kLinear || C::kReduction == consumer_warpgroups::kTree;
  static constexpr int kExchangeBytes = kHasExchange ? Groups::kExchangeBytes : 0;
  static constexpr int kPushedAt = kPipelineBytes > kExchangeBytes ? kPipelineBytes : kExchangeBytes;
  static constexpr int kBarriersAt = kPushedAt + (kIsClustered ? Pushed::kBytes : 0);
  static constexpr int kSharedBytes =
      hopper::kAtomBytes + kBarriersAt + 8 * (2 * C::kStages + 1 + C::kWaiting + (kIsClustered ? 1 : 0));
  static_assert(kSharedBytes == C::kSharedBytes, "the host asks for as much as is used");

  static constexpr int kOutChannelTiles = divide_up(P::kOutChannels, C::kOutChannels);
  static constexpr int kTileM = C::kInChannelGroups * kInChannels_;
  static constexpr int kInChannelTiles = divide_up(P::kInChannels, kTileM);
  static constexpr int kRowSets = divide_up(P::kAllTapRows, C::kTapRows);
  static constexpr int kColSets = divide_up(P::kAllTapCols, C::kTapCols);
  static constexpr int kTiles = P::kGroups * kRowSets * kColSets * kOutChannelTiles * kInChannelTiles;
  static constexpr bool kReadsOnce = kRowSets * kColSets * kOutChannelTiles == 1;  // X
  static constexpr int kRowSteps = divide_up(P::kRows, C::kRows);
  static constexpr int kColSteps = divide_up(P::kCols, C::kCols);
  static_assert(!C::kIsRing || (!kIsClustered && kIsWhole && kColSteps == 1 && kRowSteps >= C::kStages),
                "steps of an image follow each other, and are as many as stages");

  static constexpr int kConsumerThreads = C::kConsumerWarpgroups * kWarpgroupThreads;
  static constexpr bool kHasRoles = C::kLoadWarps > 0;
  static constexpr int kLoadThreads = kHasRoles ? C::kLoadWarps * 32 : kConsumerThreads;
  static constexpr int kThreads = kConsumerThreads + C::kLoadWarps * 32;
};

// Entry `i` of a table of constants, chosen by comparisons: in memory it would be fetched, from
// beyond the caches, where a kernel begins and ends.
template <class T, int kEntries>
__device__ __forceinline__ constexpr T entry(const T (&table)[kEntries], int i) {
  T found = table[0];
#pragma unroll
  for (int k = 1; k < kEntries; ++k) found = i == k ? table[k] : found;
  return found;
}

// Which results a tile has.
template <class P, class C>
struct Place {
  int group, column, in_channels;  // group of channels; first column and depth
  int tap_row, tap_col;      // the first ones
  int last_col;              // where the tap of a row is that reads furthest to the right

  __device__ __forceinline__ explicit Place(int tile) {
    using L = Layout<P, C>;
    in_channels = tile % L::kInChannelTiles * L::kTileM;
    int rest = tile / L::kInChannelTiles;
    column = L::kOutChannelTiles == 1 ? 0 : rest % L::kOutChannelTiles * C::kOutChannels;
    rest /= L::kOutChannelTiles;
    const int set = L::kColSets == 1 ? 0 : rest % L::kColSets;
    tap_col = set * C::kTapCols;
    last_col = entry(C::kLastTapCol, set);
    rest /= L::kColSets;
    tap_row = L::kRowSets == 1 ? 0 : rest % L::kRowSets * C::kTapRows;
    group = P::kGroups == 1 ? 0 : rest / L::kRowSets;
  }
};

// The output pixels of X of a step: rows and columns from these on, of an image.
template <class P, class C>
struct Step {
  int image, row, col;

  __device__ __forceinline__ explicit Step(int step) {
    using L = Layout<P, C>;
    col = L::kColSteps == 1 ? 0 : step % L::kColSteps * C::kCols;
    const int rest = step / L::kColSteps;
    row = L::kRowSteps == 1 ? 0 : rest % L::kRowSteps * C::kRows;
    image = rest / L::kRowSteps;
  }
};

}  // namespace convir::row_packed_wgrad
