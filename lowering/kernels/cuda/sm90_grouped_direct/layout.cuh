// What a block of `Sm90GroupedDirect` holds in shared memory, and which pixels its pairs of rows
// read.
#pragma once

#include "load/direct_phase.cuh"
#include "load/padded_rows.cuh"

namespace convir {

template <typename P, typename S>
struct StripLayout {
  static constexpr int kChannels = 32;  // of a group, or of those that are merged, of A and of C
  static constexpr int kGroupChannels = kChannels / P::packed;
  static constexpr int kSteps = kChannels / 16;  // of a matrix instruction, for a tap
  static constexpr int kPixelBytes = kChannels * 2;
  static constexpr int kRepeat = 8 * kPixelBytes;  // bytes after which the swizzle repeats

  // Rows of A in shared memory are `kPitch` pixels. Where a window reaches into padding on both
  // sides, the zeros behind a row are also those before the next.
  using Rows = PaddedRows<P, P::window_cols - 1>;
  static constexpr int kShared = Rows::kShared, kPitch = Rows::kPitch;

  // A strip is `row_pairs` pairs of rows of C. Rows of A that are even in the strip's window lie in
  // one plane, odd ones in the other, so those of all pairs are one list of pixels.
  static constexpr int kPlaneRows = S::row_pairs + P::window_rows / 2;
  // Of two boxes of a plane the first has all rows that the first warpgroup reads.
  static constexpr int kBoxRows = kPlaneRows / S::boxes;
  static constexpr int kBoxBytes = kBoxRows * kPitch * kPixelBytes;
  static_assert(kPlaneRows % S::boxes == 0 && kBoxBytes % 128 == 0 || S::boxes == 1);
  static constexpr int kPlaneBytes =
      divide_up(S::boxes * kBoxBytes + kShared * kPixelBytes, kRepeat) * kRepeat;
  static constexpr int kSlotBytes = 2 * kPlaneBytes;
  static constexpr int kLead = divide_up(kShared * kPixelBytes, kRepeat) * kRepeat;
  static constexpr int kStrips = divide_up(divide_up(P::rows, 2), S::row_pairs);

  // Two warpgroups have half of the pairs each.
  static constexpr int kGroups = 2;
  static constexpr int kConsumerThreads = kGroups * kWarpgroupThreads;
  static constexpr int kFirstRowPairs = S::row_pairs / kGroups;
  static_assert(S::boxes == 1 || kFirstRowPairs + P::window_rows / 2 <= kBoxRows);
  static constexpr int kPixels = 8;      // of which an instruction has a multiple
  static constexpr int kLeastCycles = 13;   // that an instruction takes, however few its output pixels
  static constexpr int kPairBytes = 2 * kPitch * kPixelBytes;

  // Shared memory: planes, weights, what is stored, which may take the weights' place where they
  // are read once, and barriers.
  static constexpr int kWeightPitch = kPixelBytes + 16;  // rows of ldmatrix lie in different banks
  static constexpr int kTapBytes = kChannels * kWeightPitch;
  static constexpr int kSliceBytes = tap_count<P>() * kTapBytes;
  static constexpr int kWeights = kLead + S::stages * kSlotBytes;
  static constexpr int kStage =
      kWeights + (P::slice_taps > 1 ? divide_up(P::slice_taps * kSliceBytes, 128) * 128 : 0);
  static constexpr int kNowhere = larger(kStage + S::row_pairs * kPairBytes, kWeights + kSliceBytes);
  static constexpr int kFull = kNowhere + 16;
  static constexpr int kEmpty = kFull + S::stages * S::boxes * 8;
  static_assert(kEmpty + S::stages * 8 == S::shared_bytes);
  static_assert(S::threads == kConsumerThreads + 128, "a warpgroup more asks for copies");

  // The window row of half `half` at row `row` of the pairs' common window.
  static constexpr int row_tap(int half, int row) { return row_tap_at<P>(0, row - half); }
  static constexpr bool reads(int row, int col) {
    return col_tap_at<P>(0, col) >= 0 && (row_tap(0, row) >= 0 || row_tap(1, row) >= 0);
  }
  static constexpr int kWindowRows = P::window_rows + 1;

  // Whether a pair of rows of C reads more than zeros at a row of its window, for what it stores.
  // Only where a strip is a whole image is that the same for all strips.
  static constexpr bool is_read(int pair, int row) {
    const int at = P::row_origin + 2 * pair + row;
    if (kStrips > 1) return true;
    if (at < 0 || at >= P::a_rows) return false;
    for (int half = 0; half < 2; ++half) {
      if (2 * pair + half < P::rows && row_tap(half, row) >= 0) return true;
    }
    return false;
  }

  // The output pixels of a warpgroup, `kRowPairs` pairs from `kFirst` on, in up to three parts that
  // are summed by instructions of their own: the first pair and the last, whose products with rows
  // outside of the image are left out, if that is worth the instructions, and what is between.
  template <int kFirst, int kRowPairs>
  struct Parts {
    static constexpr int kAll = divide_up(kRowPairs * kPitch, kPixels) * kPixels;

    static constexpr bool is_read(int begin, int end, int row) {
      for (int pair = begin / kPitch; pair < kRowPairs && pair * kPitch < end; ++pair) {
        if (StripLayout::is_read(kFirst + pair, row)) return true;
      }
      return false;
    }
    static constexpr int cycles(int begin, int end) {
      int sum = 0;
      for (int row = 0; row < kWindowRows; ++row) {
        if (is_read(begin, end, row)) sum += larger(kLeastCycles, (end - begin) / 2);
      }
      return sum;
    }
    static constexpr int after_first() {
      constexpr int kCut = kPitch / kPixels * kPixels;
      if (kRowPairs == 1 || kCut == 0) return 0;
      return cycles(0, kCut) + cycles(kCut, kAll) < cycles(0, kAll) ? kCut : 0;
    }
    static constexpr int before_last() {
      constexpr int kBegin = after_first();
      constexpr int kCut = divide_up((kRowPairs - 1) * kPitch, kPixels) * kPixels;
      if (kBegin >= kCut || kCut == kAll) return kAll;
      return cycles(kBegin, kCut) + cycles(kCut, kAll) < cycles(kBegin, kAll) ? kCut : kAll;
    }
  };
};

}  // namespace convir
