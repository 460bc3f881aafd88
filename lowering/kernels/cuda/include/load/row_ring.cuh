// Rows of A in shared memory, streamed once through a ring while output pixels move down them;
// `load/row_loads.cuh` copies them.
//
// Output pixels of all images form one list, rows of `tile_cols` columns each; a block works
// through a range of it. A *stripe*, an image or a column tile of one, brings the rows that its
// windows read, those of its padding as zeros, so output pixels may cross from one image to the
// next.
#pragma once

#include "load/direct_phase.cuh"

namespace convir {

constexpr int kVectorElements = 8;  // 16-bit elements of a copy of 16 bytes
constexpr int kBankSkew = 16;       // bytes between pixels that spread rows of ldmatrix over banks

// P: the problem. S: the schedule. kChannels: channels of A that the block reads of a pixel.
template <typename P, typename S, int kChannels>
struct RowRing {
  using T = typename P::Element;
  using Problem = P;
  using Schedule = S;
  static constexpr int kAllChannels = kChannels;

  static constexpr int kBaseRows = divide_up(P::rows, S::unroll_rows);
  static constexpr int kOutChannelTiles = divide_up(P::cols, S::tile_cols);
  static constexpr int kImageRows = kOutChannelTiles * kBaseRows;  // of the list, of an image

  static constexpr int kRowStep = S::unroll_rows * P::row_step;
  static constexpr int kWindowRows = (S::unroll_rows - 1) * P::row_step + P::window_rows;
  static constexpr int kStripeRows = (kBaseRows - 1) * kRowStep + kWindowRows;

  static constexpr int kPixels = (S::tile_cols - 1) * P::col_step + P::window_cols;
  // TMA brings `kAtom` channels of all pixels of a row at once, a plane, and exchanges
  // 16-byte chunks so that those of neighbours lie in different banks; else pixels are skewed.
  static constexpr bool kTma = S::tma;
  static constexpr int kAtom = kTma && kChannels > 64 ? 64 : kChannels;
  static constexpr int kChunks = kAtom / kVectorElements;
  static constexpr int kPixelBytes = kAtom * 2 + (kTma ? 0 : kBankSkew);
  static constexpr int kPlaneBytes = divide_up(kPixels, 8) * 8 * kPixelBytes;
  // Output pixels at the end of a list row and at the beginning of the next lie in different banks
  // if the rows' distance continues that of their columns; 8 vectors of 16 bytes are all banks.
  static constexpr int row_bytes() {
    if (kTma) return kChannels / kAtom * kPlaneBytes;
    const int distance = S::tile_cols * P::col_step * kPixelBytes;
    for (int pad = 0; pad < 128; pad += 16) {
      const int bytes = kPixels * kPixelBytes + pad;
      if ((kRowStep * bytes - distance) % 128 == 0) return bytes;
    }
    return kPixels * kPixelBytes;
  }
  static constexpr int kRowBytes = row_bytes();

  // Where a row has 8 channels of a pixel, and where those kDistance channels further are.
  static __device__ __forceinline__ unsigned offset(int pixel, int channel) {
    if constexpr (kTma) {
      const int byte = pixel * kPixelBytes, chunk = channel % kAtom / 8;
      return channel / kAtom * kPlaneBytes + byte + ((chunk ^ (byte >> 7 & (kChunks - 1))) << 4);
    } else {
      return pixel * kPixelBytes + channel * 2;
    }
  }
  template <int kDistance>
  static __device__ __forceinline__ unsigned further(unsigned address) {
    return kTma ? address ^ kDistance * 2 : address + kDistance * 2;
  }

  // Rows from the first that a step reads to the last that is under way during it.
  static constexpr int kSpanRows =
      ((S::stages + 1) * S::step_pixels + S::tile_cols - 2) / S::tile_cols;
  static constexpr int kSlots =
      kSpanRows * kRowStep + kWindowRows +
      divide_up(kSpanRows, kBaseRows) * larger(0, kWindowRows - kRowStep);
  static constexpr int kAlignment = kTma ? 1024 : 16;
  static constexpr int kBytes = divide_up(kSlots * kRowBytes, kAlignment) * kAlignment;

  static_assert(P::phase_count * S::unroll_rows <= 32, "outputs are bits of a word");
  static_assert(kChannels % kVectorElements == 0);

  // The column of A where the rows of a stripe begin.
  static __device__ __forceinline__ int first_pixel(int stripe) {
    return stripe % kOutChannelTiles * (S::tile_cols * P::col_step) + P::col_origin;
  }

  // Where a lane's output pixel is, while it moves through the list in equal steps.
  struct Position {
    int col, row, stripe;  // column of the tile, base row of the stripe
    int slot;              // of the first row of the window
    int tile_col;          // the first column of the tile
    unsigned image;        // element of C where the image begins

    // Position `index` of the list, when slot 0 has the first row of `first`.
    __device__ __forceinline__ Position(int index, int first) {
      set(first);
      const int origin = stripe * kStripeRows + row * kRowStep;
      set(index);
      slot = (stripe * kStripeRows + row * kRowStep - origin) % kSlots;
    }

    // Without branches: what follows may be under way meanwhile.
    template <int kDistance>
    __device__ __forceinline__ void advance() {
      constexpr int kRows = kDistance / S::tile_cols;
      constexpr int kMostStripes = (kBaseRows + kRows) / kBaseRows;
      constexpr int kMostSlots =
          (kRows + 1) * kRowStep + kMostStripes * larger(0, kWindowRows - kRowStep);
      int rows = kRows;
      col += kDistance % S::tile_cols;
      if (col >= S::tile_cols) {
        col -= S::tile_cols;
        ++rows;
      }
      row += rows;
      slot += rows * kRowStep;
      const int before = stripe;
      repeat<kMostStripes>([&] { return row >= kBaseRows; },
                           [&] {
                             row -= kBaseRows;
                             slot += kWindowRows - kRowStep;
                             ++stripe;
                           });
      if (stripe != before) begin_stripe();
      repeat<(kSlots - 1 + kMostSlots) / kSlots>([&] { return slot >= kSlots; },
                                                 [&] { slot -= kSlots; });
    }

    // The slot of a row of the window.
    __device__ __forceinline__ int slot_of(int window_row) const {
      return slot + window_row - (slot + window_row >= kSlots ? kSlots : 0);
    }
    __device__ __forceinline__ int output_row() const { return row * S::unroll_rows; }
    __device__ __forceinline__ int output_col() const { return tile_col + col; }
    // The element of C of phase 0's output, and a bit for every output that lies inside of it:
    // outputs are numbered by phase, then by unrolled row.
    __device__ __forceinline__ unsigned element() const {
      return image + output_row() * static_cast<unsigned>(P::c_row_stride) +
             output_col() * static_cast<unsigned>(P::c_col_stride);
    }
    __device__ __forceinline__ unsigned outputs() const {
      unsigned inside = 0;
      static_for<P::phase_count * S::unroll_rows>([&](auto output) {
        constexpr auto& phase = P::phases[output.value / S::unroll_rows];
        const bool stored = output_row() + output.value % S::unroll_rows < phase.rows &&
                            output_col() < phase.cols;
        inside |= static_cast<unsigned>(stored) << output.value;
      });
      return inside;
    }

   private:
    // body() while condition(), which is at most kTimes.
    template <int kTimes, typename Condition, typename Body>
    static __device__ __forceinline__ void repeat(const Condition& condition, const Body& body) {
      constexpr int kMostUnrolled = 2;
      if constexpr (kTimes <= kMostUnrolled) {
        static_for<kTimes>([&](auto) {
          if (condition()) body();
        });
      } else {
        while (condition()) body();
      }
    }
    __device__ __forceinline__ void set(int index) {
      const int list_row = index / S::tile_cols;
      col = index - list_row * S::tile_cols;
      stripe = list_row / kBaseRows;
      row = list_row - stripe * kBaseRows;
      begin_stripe();
    }
    __device__ __forceinline__ void begin_stripe() {
      tile_col = stripe % kOutChannelTiles * S::tile_cols;
      image = stripe / kOutChannelTiles * static_cast<unsigned>(P::c_image);
    }
  };

  // A block's part of the list.
  struct Range {
    int begin, end;

    __device__ __forceinline__ Range(int part, int parts, int images)
        : begin(static_cast<int>(static_cast<long long>(part) * (images * kImageRows) / parts) *
                S::tile_cols),
          end(static_cast<int>((part + 1ll) * (images * kImageRows) / parts) * S::tile_cols) {}

    __device__ __forceinline__ int steps() const {
      return divide_up(end - begin, S::step_pixels);
    }
    // The list row of the first position, and that of the last one of `step`.
    __device__ __forceinline__ int first_row() const { return begin / S::tile_cols; }
    __device__ __forceinline__ int last_row(int step) const {
      const int past = begin + (step + 1) * S::step_pixels;
      return ((past < end ? past : end) - 1) / S::tile_cols;
    }
  };
};

}  // namespace convir
