// Rows of A in shared memory, streamed once through a ring while output positions move down them.
//
// Output positions of all images form one list, rows of `tile_cols` columns each; a block works
// through a range of it. Every image (and every column tile of an image) brings the rows that its
// windows read, those of its padding as zeros, so windows may cross from one image to the next.
#pragma once

#include "direct_phase.cuh"

namespace convir {

constexpr int kVectorElements = 8;   // 16-bit elements of a copy of 16 bytes
constexpr int kBankSkew = 16;        // bytes between pixels that spread rows of ldmatrix over banks

// P: the problem. S: the schedule. kChannels: channels of A that the block reads of a pixel.
template <typename P, typename S, int kChannels>
struct RowRing {
  using T = typename P::Element;

  static constexpr int kBaseRows = divide_up(P::rows, S::unroll_rows);
  static constexpr int kColumnTiles = divide_up(P::cols, S::tile_cols);
  static constexpr int kStripes = P::images * kColumnTiles;
  static constexpr int kListRows = kStripes * kBaseRows;

  static constexpr int kRowStep = S::unroll_rows * P::row_step;
  static constexpr int kWindowRows = (S::unroll_rows - 1) * P::row_step + P::window_rows;
  static constexpr int kStripeRows = (kBaseRows - 1) * kRowStep + kWindowRows;

  static constexpr int kPixels = (S::tile_cols - 1) * P::col_step + P::window_cols;
  static constexpr int kPixelBytes = kChannels * 2 + kBankSkew;
  static constexpr int kRowBytes = kPixels * kPixelBytes;
  static constexpr int kVectors = kChannels / kVectorElements;

  // Rows from the first that a step reads to the last that is under way during it.
  static constexpr int kSpanPositions = (S::stages + 1) * S::step_positions;
  static constexpr int kSpanRows = (kSpanPositions + S::tile_cols - 2) / S::tile_cols;
  static constexpr int kCrossings = divide_up(kSpanRows, kBaseRows);
  static constexpr int kSlots = kSpanRows * kRowStep + kWindowRows +
                                kCrossings * larger(0, kWindowRows - kRowStep);
  static constexpr int kBytes = kSlots * kRowBytes;

  static_assert(kChannels % kVectorElements == 0, "pixels are copied in vectors");

  struct Position {
    int stripe, row, col;  // base row of the stripe, column of the tile
    __device__ __forceinline__ explicit Position(int index) {
      const int list_row = index / S::tile_cols;
      col = index - list_row * S::tile_cols;
      stripe = list_row / kBaseRows;
      row = list_row - stripe * kBaseRows;
    }
    __device__ __forceinline__ int first_row() const {
      return stripe * kStripeRows + row * kRowStep;
    }
    __device__ __forceinline__ int image() const { return stripe / kColumnTiles; }
    __device__ __forceinline__ int output_col() const {
      return (stripe % kColumnTiles) * S::tile_cols + col;
    }
  };

  const T* a;      // at the first channel of the block
  int channels;    // that the block has; fewer than kChannels at the end
  unsigned shared;
  int origin;      // the row in slot 0
  int loaded;      // the first row that no copy was issued for

  __device__ __forceinline__ int slot(int row) const { return (row - origin) % kSlots; }

  // Issues the copies of all rows up to those that position `last` reads.
  __device__ __forceinline__ void load_through(int last) {
    const int end = Position(last).first_row() + kWindowRows;
    const int count = (end - loaded) * (kPixels * kVectors);
    for (int i = threadIdx.x; i < count; i += S::threads) {
      const int pixel_index = i / kVectors;
      const int channel = (i % kVectors) * kVectorElements;
      const int row = loaded + pixel_index / kPixels;
      const int pixel = pixel_index % kPixels;
      const int stripe = row / kStripeRows;
      const int a_row = row % kStripeRows + P::row_origin;
      const int a_col =
          (stripe % kColumnTiles) * (S::tile_cols * P::col_step) + pixel + P::col_origin;
      const bool inside = static_cast<unsigned>(a_row) < static_cast<unsigned>(P::a_rows) &&
                          static_cast<unsigned>(a_col) < static_cast<unsigned>(P::a_cols) &&
                          channel < channels;
      const T* source = a + (stripe / kColumnTiles) * P::a_image + a_row * P::a_row_stride +
                        a_col * P::a_col_stride + channel;
      copy_async(shared + slot(row) * kRowBytes + pixel * kPixelBytes + channel * 2,
                 inside ? source : a, inside);
    }
    loaded = end > loaded ? end : loaded;
  }
};

}  // namespace convir
