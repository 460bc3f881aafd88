// Rows of A in shared memory, streamed once through a ring while output positions move down them.
//
// Output positions of all images form one list, rows of `tile_cols` columns each; a block works
// through a range of it. A *stripe*, an image or a column tile of one, brings the rows that its
// windows read, those of its padding as zeros, so positions may cross from one image to the next.
#pragma once

#include "direct_phase.cuh"
#include "step_stream.cuh"

namespace convir {

constexpr int kVectorElements = 8;  // 16-bit elements of a copy of 16 bytes
constexpr int kBankSkew = 16;       // bytes between pixels that spread rows of ldmatrix over banks

// P: the problem. S: the schedule. kChannels: channels of A that the block reads of a pixel.
template <typename P, typename S, int kChannels>
struct RowRing {
  using T = typename P::Element;

  static constexpr int kBaseRows = divide_up(P::rows, S::unroll_rows);
  static constexpr int kColumnTiles = divide_up(P::cols, S::tile_cols);
  static constexpr int kListRows = P::images * kColumnTiles * kBaseRows;

  static constexpr int kRowStep = S::unroll_rows * P::row_step;
  static constexpr int kWindowRows = (S::unroll_rows - 1) * P::row_step + P::window_rows;
  static constexpr int kStripeRows = (kBaseRows - 1) * kRowStep + kWindowRows;

  static constexpr int kPixels = (S::tile_cols - 1) * P::col_step + P::window_cols;
  static constexpr int kPixelBytes = kChannels * 2 + kBankSkew;
  // Positions at the end of a list row and at the beginning of the next lie in different banks if
  // the rows' distance continues that of their columns; 8 vectors of 16 bytes are all banks.
  static constexpr int row_bytes() {
    const int distance = S::tile_cols * P::col_step * kPixelBytes;
    for (int pad = 0; pad < 128; pad += 16) {
      const int bytes = kPixels * kPixelBytes + pad;
      if ((kRowStep * bytes - distance) % 128 == 0) return bytes;
    }
    return kPixels * kPixelBytes;
  }
  static constexpr int kRowBytes = row_bytes();

  // Rows from the first that a step reads to the last that is under way during it.
  static constexpr int kSpanRows =
      ((S::stages + 1) * S::step_positions + S::tile_cols - 2) / S::tile_cols;
  static constexpr int kSlots =
      kSpanRows * kRowStep + kWindowRows +
      divide_up(kSpanRows, kBaseRows) * larger(0, kWindowRows - kRowStep);
  static constexpr int kBytes = kSlots * kRowBytes;

  // Warps of their own copy rows, or all of them do between two steps. A thread copies a vector of
  // every `kPixelThreads`th pixel.
  static constexpr bool kHasLoaders = S::loaders > 0;
  static constexpr int kComputeThreads = S::threads - S::loaders * 32;
  static constexpr int kCopyThreads = kHasLoaders ? S::loaders * 32 : S::threads;
  static constexpr int kVectors = kChannels / kVectorElements;
  static constexpr int kPixelThreads = kCopyThreads / kVectors;
  static constexpr int kCopies = divide_up(kPixels, kPixelThreads);

  static_assert(P::phase_count * S::unroll_rows <= 32, "outputs are bits of a word");
  static_assert(kChannels % kVectorElements == 0 && kVectors <= kCopyThreads);
  static_assert(kCopies <= 32, "the copies of a thread are bits of a word");

  // Copies rows, one after the other.
  class Loader {
   public:
    // `row` is the first of a stripe's rows that is needed.
    __device__ __forceinline__ Loader(const T* a, int channels, unsigned shared, int stripe,
                                      int row)
        : row_(row), stripe_(stripe), slot_(0) {
      const int thread = kHasLoaders ? threadIdx.x - kComputeThreads : threadIdx.x;
      const int channel = thread % kVectors * kVectorElements;
      pixel_ = thread / kVectors;
      source_ = a + channel + pixel_ * P::a_col_stride;
      target_ = shared + pixel_ * kPixelBytes + channel * 2;
      has_channel_ = channel < channels;
      begin_stripe();
    }

    // Issues the copies of all rows before `row` of `stripe`.
    __device__ __forceinline__ void load_until(int stripe, int row) {
      while (stripe_ < stripe || (stripe_ == stripe && row_ < row)) {
        load_row();
        ++row_;
        slot_ = slot_ + 1 == kSlots ? 0 : slot_ + 1;
        if (row_ == kStripeRows) {
          row_ = 0;
          ++stripe_;
          begin_stripe();
        }
      }
    }

   private:
    __device__ __forceinline__ void begin_stripe() {
      const int col = stripe_ % kColumnTiles * (S::tile_cols * P::col_step) + P::col_origin;
      const int first = col + pixel_;
      stripe_source_ = source_ + stripe_ / kColumnTiles * P::a_image +
                       static_cast<long long>(col) * P::a_col_stride;
      inside_ = 0;
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const bool inside = static_cast<unsigned>(first + i * kPixelThreads) <
                            static_cast<unsigned>(P::a_cols);
        inside_ |= static_cast<unsigned>(inside && has_channel_) << i;
      }
    }

    __device__ __forceinline__ void load_row() const {
      const int a_row = row_ + P::row_origin;
      const bool row_inside =
          static_cast<unsigned>(a_row) < static_cast<unsigned>(P::a_rows);
      const unsigned inside = row_inside ? inside_ : 0;
      const T* source = stripe_source_ + a_row * P::a_row_stride;
      const unsigned target = target_ + slot_ * kRowBytes;
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const bool is_last = i == kCopies - 1;
        if (pixel_ < kPixelThreads && (!is_last || pixel_ + i * kPixelThreads < kPixels)) {
          copy_async(target + i * kPixelThreads * kPixelBytes,
                     source + i * (kPixelThreads * P::a_col_stride), inside >> i & 1);
        }
      }
    }

    const T* source_;         // the thread's vector of its first pixel, at column 0 of image 0
    const T* stripe_source_;  // the same, at the first column of the stripe
    unsigned target_;
    unsigned inside_;  // which of the thread's pixels are pixels of A
    int pixel_, row_, stripe_, slot_;
    bool has_channel_;
  };

  // Where a lane's output position is, while it moves through the list in equal steps.
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

    template <int kDistance>
    __device__ __forceinline__ void advance() {
      constexpr int kRows = kDistance / S::tile_cols;
      int rows = kRows;
      col += kDistance % S::tile_cols;
      if (col >= S::tile_cols) {
        col -= S::tile_cols;
        ++rows;
      }
      row += rows;
      slot += rows * kRowStep;
      if (row >= kBaseRows) {
        do {
          row -= kBaseRows;
          slot += kWindowRows - kRowStep;
          ++stripe;
        } while (row >= kBaseRows);
        begin_stripe();
      }
      while (slot >= kSlots) slot -= kSlots;
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
    __device__ __forceinline__ void set(int index) {
      const int list_row = index / S::tile_cols;
      col = index - list_row * S::tile_cols;
      stripe = list_row / kBaseRows;
      row = list_row - stripe * kBaseRows;
      begin_stripe();
    }
    __device__ __forceinline__ void begin_stripe() {
      tile_col = stripe % kColumnTiles * S::tile_cols;
      image = stripe / kColumnTiles * static_cast<unsigned>(P::c_image);
    }
  };

  // A block's part of the list, and the loads that it needs.
  struct Range {
    int begin, end;

    __device__ __forceinline__ Range(int part, int parts)
        : begin(static_cast<int>(static_cast<long long>(part) * kListRows / parts) *
                S::tile_cols),
          end(static_cast<int>((part + 1ll) * kListRows / parts) * S::tile_cols) {}

    // Issues the copies of the rows that `step` reads first, as one group.
    __device__ __forceinline__ void load_step(Loader& loader, int step) const {
      const int past = begin + (step + 1) * S::step_positions;
      const int list_row = ((past < end ? past : end) - 1) / S::tile_cols;
      loader.load_until(list_row / kBaseRows, list_row % kBaseRows * kRowStep + kWindowRows);
    }
    __device__ __forceinline__ int steps() const {
      return divide_up(end - begin, S::step_positions);
    }
  };

  // The copies of a range.
  struct Loads {
    Range range;
    Loader loader;

    __device__ __forceinline__ Loads(const Range& range, const T* a, int channels, unsigned shared)
        : range(range),
          loader(a, channels, shared, range.begin / S::tile_cols / kBaseRows,
                 range.begin / S::tile_cols % kBaseRows * kRowStep) {}
    __device__ __forceinline__ void load_step(int step) { range.load_step(loader, step); }
    __device__ __forceinline__ int steps() const { return range.steps(); }
  };
  using Stream = StepStream<S, Loads>;

  // Waits for all warps that compute.
  static __device__ __forceinline__ void sync_compute() {
    if constexpr (kHasLoaders) {
      asm volatile("bar.sync 1, %0;" ::"n"(kComputeThreads) : "memory");
    } else {
      __syncthreads();
    }
  }
};

}  // namespace convir
