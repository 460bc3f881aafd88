// The copies of the rows of a ring: by threads, 16 bytes each, or by TMA.
#pragma once

#include "load/pieces.cuh"
#include "load/row_ring.cuh"
#include "pipeline/step_stream.cuh"
#include "ptx/tma.cuh"

namespace convir {

// Threads copy rows, one after the other, each a vector of every `kPixelThreads`th pixel.
template <typename Ring>
class AsyncLoads {
  using P = typename Ring::Problem;
  using S = typename Ring::Schedule;
  using T = typename P::Element;
  using Threads = StepThreads<S>;

  static constexpr int kVectors = Ring::kAllChannels / kVectorElements;
  static constexpr int kPixelThreads = Threads::kCopying / kVectors;
  static constexpr int kCopies = divide_up(Ring::kPixels, kPixelThreads);
  static_assert(kVectors <= Threads::kCopying);
  static_assert(kCopies <= 32, "the copies of a thread are bits of a word");

 public:
  // `a` begins at channel `first` of the operand, which has `channels` behind it.
  __device__ __forceinline__ AsyncLoads(const typename Ring::Range& range, const T* a, int first,
                                        int channels, unsigned shared)
      : range_(range),
        row_(range.first_row() % Ring::kBaseRows * Ring::kRowStep),
        stripe_(range.first_row() / Ring::kBaseRows) {
    const int thread = Threads::kHasProducers ? threadIdx.x - Threads::kComputing : threadIdx.x;
    const int channel = thread % kVectors * kVectorElements;
    pixel_ = thread / kVectors;
    source_ = a + first + channel + pixel_ * P::a_col_stride;
    target_ = shared + Ring::offset(pixel_, channel);
    has_channel_ = channel < channels;
    begin_stripe();
  }

  __device__ __forceinline__ int steps() const { return range_.steps(); }

  // Issues the copies of the rows that `step` reads first.
  __device__ __forceinline__ void load_step(int step) {
    const int last = range_.last_row(step);
    const int stripe = last / Ring::kBaseRows;
    const int row = last % Ring::kBaseRows * Ring::kRowStep + Ring::kWindowRows;
    while (stripe_ < stripe || (stripe_ == stripe && row_ < row)) {
      load_row();
      ++row_;
      slot_ = slot_ + 1 == Ring::kSlots ? 0 : slot_ + 1;
      if (row_ == Ring::kStripeRows) {
        row_ = 0;
        ++stripe_;
        begin_stripe();
      }
    }
  }

 private:
  __device__ __forceinline__ void begin_stripe() {
    const int col = Ring::first_pixel(stripe_);
    const int first = col + pixel_;
    stripe_source_ = source_ + stripe_ / Ring::kOutChannelTiles * P::a_image +
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
    const bool row_inside = static_cast<unsigned>(a_row) < static_cast<unsigned>(P::a_rows);
    const unsigned inside = row_inside ? inside_ : 0;
    const T* source = stripe_source_ + a_row * P::a_row_stride;
    const unsigned target = target_ + slot_ * Ring::kRowBytes;
    copy_pieces<Ring::kPixels, kPixelThreads, 16>(pixel_, [&](int turn, int, auto copy) {
      if (pixel_ >= kPixelThreads) return;
      copy(target + turn * kPixelThreads * Ring::kPixelBytes,
           source + turn * (kPixelThreads * P::a_col_stride), inside >> turn & 1);
    });
  }

  typename Ring::Range range_;
  const T* source_;         // the thread's vector of its first pixel, at column 0 of image 0
  const T* stripe_source_;  // the same, at the first column of the stripe
  unsigned target_;
  unsigned inside_;  // which of the thread's pixels are pixels of A
  int pixel_, row_, stripe_;
  int slot_ = 0;
  bool has_channel_;
};

// One thread asks TMA for whole rows, whose pixels outside of the operand are zeros.
// kOnce: lines of the L2 cache are given up first, as hardly any is read again.
template <typename Ring, bool kOnce>
class BoxLoads {
  using P = typename Ring::Problem;
  using S = typename Ring::Schedule;

 public:
  __device__ __forceinline__ BoxLoads(const typename Ring::Range& range,
                                      const hopper::TensorMap* a, int first, int /*channels*/,
                                      unsigned shared)
      : range_(range),
        map_(a),
        shared_(shared),
        to_(shared),
        channel_(first),
        list_rows_((range.end - range.begin) / S::tile_cols),
        base_row_(range.first_row() % Ring::kBaseRows),
        stripe_(range.first_row() / Ring::kBaseRows),
        y_(base_row_ * Ring::kRowStep + P::row_origin),
        rows_(Ring::kWindowRows) {}

  __device__ __forceinline__ int steps() const { return range_.steps(); }

  // Asks for the rows that the next step reads first, to complete at a barrier; returns their
  // bytes. Divisions take one thread longer than the copies.
  __device__ __forceinline__ int load_step(int /*step*/, unsigned barrier) {
    int bytes = 0;
    ahead_ -= S::step_pixels;
    while (ahead_ < 0 && list_rows_ > 0) {
      bytes += load_list_row(barrier);
      ahead_ += S::tile_cols;
      --list_rows_;
    }
    return bytes;
  }

 private:
  // Asks for the rows that a list row reads first.
  __device__ __forceinline__ int load_list_row(unsigned barrier) {
    const int x = Ring::first_pixel(stripe_), image = stripe_ / Ring::kOutChannelTiles;
    const int bytes = rows_ * (Ring::kPixels * Ring::kAllChannels * 2);
#pragma unroll 1
    for (int row = 0; row < rows_; ++row) {
#pragma unroll
      for (int c = 0; c < Ring::kAllChannels; c += Ring::kAtom) {
        const unsigned to = to_ + c / Ring::kAtom * Ring::kPlaneBytes;
        hopper::load_4d<kOnce>(to, map_, barrier, channel_ + c, x, y_, image);
      }
      ++y_;
      to_ += Ring::kRowBytes;
      if (to_ == shared_ + Ring::kSlots * Ring::kRowBytes) to_ = shared_;
    }
    rows_ = Ring::kRowStep;
    if (++base_row_ == Ring::kBaseRows) {
      base_row_ = 0;
      ++stripe_;
      y_ = P::row_origin;
      rows_ = Ring::kWindowRows;
    }
    return bytes;
  }

  typename Ring::Range range_;
  const hopper::TensorMap* map_;
  unsigned shared_, to_;  // where slot 0 is, and where the next row goes
  int channel_;
  int list_rows_;           // whose rows are not asked for
  int base_row_, stripe_;   // the first of them
  int y_, rows_;            // its first new row of A, and how many there are
  int ahead_ = 0;           // output pixels behind the step whose rows are asked for
};

template <bool kTma, typename Ring, bool kOnce>
struct RowLoadsOf {
  using Type = AsyncLoads<Ring>;
};
template <typename Ring, bool kOnce>
struct RowLoadsOf<true, Ring, kOnce> {
  using Type = BoxLoads<Ring, kOnce>;
};
template <typename Ring, bool kOnce = false>
using RowLoads = typename RowLoadsOf<Ring::kTma, Ring, kOnce>::Type;

}  // namespace convir
