// Gradient of the weights of a layer with a few channels on one side, as a network's first layer is:
//
//   B[n, tap, d] = sum over output pixels x of C[x, n] * A[window(x, tap), d]
//
// GEMM: rows are the channels n of C, columns are all (tap, d) of A, the reduced index is x. Rows of
// A lie in shared memory as they lie in global memory; a column is a constant distance from the
// beginning of a pixel's window, so lanes gather single elements of 16 windows at any (tap, d), and
// no column is empty. C arrives transposed, or as planes, and A may be planes too. A block works
// through strips of output rows and keeps the accumulators; blocks publish them, and each adds a
// share of those of all blocks, in a fixed order.
#pragma once

#include "epilogue/direct_store.cuh"
#include "ptx/shared_memory.cuh"
#include "reduce/grouped_wgrad_reduction.cuh"

namespace convir {

template <typename P, typename S>
struct FewChannelsWgrad {
  using T = typename P::Element;
  static constexpr auto& kPhase = P::phases[0];
  static constexpr int kTapColumns = kPhase.col_taps * P::in_channels;  // columns of a row of taps
  static constexpr int kColumns = kPhase.row_taps * kTapColumns;

  // A warp has all rows of a block, and the columns of its job.
  static constexpr int kWarps = S::threads / 32, kSharing = kWarps / S::jobs;
  static constexpr int kRowTiles = S::out_channels / 16;
  static constexpr int kColumnTiles = divide_up(divide_up(kColumns, 8), S::jobs);
  static constexpr int kOwners = divide_up(P::out_channels, S::out_channels);
  using Accumulators = GroupedWgradReduction<S, S::jobs, kRowTiles * kColumnTiles * 4>;

  // A strip has `strip_rows` rows of `tile_cols` output pixels.
  static constexpr int kStrips = divide_up(P::rows, S::strip_rows);
  static constexpr int kColTiles = divide_up(P::cols, S::tile_cols);
  static constexpr int kRowSteps = S::tile_cols / 16;
  static constexpr int kSteps = S::strip_rows * kRowSteps;

  // Lines of A: from a multiple of a copy's elements on, which is kFront before the first window.
  static constexpr int kVector = S::vector;  // elements of a copy; 1 passes through registers
  static constexpr int kPixel = P::a_col_stride;
  static constexpr int kOfPixel = S::a_planar ? 1 : P::in_channels;  // elements of a line
  static constexpr int kPlanes = S::a_planar ? P::in_channels : 1;
  static constexpr int kLine = (P::a_cols - 1) * kPixel + kOfPixel;  // elements
  static constexpr int kFirst = P::col_origin * kPixel;
  static constexpr int kFront = (kFirst % kVector + kVector) % kVector;
  static constexpr int kWindow = (P::window_cols - 1) * kPixel + kOfPixel;
  static constexpr int kStep = P::col_step * kPixel;  // elements to the next pixel's window
  static constexpr int kLineVectors =
      divide_up(kFront + (S::tile_cols - 1) * kStep + kWindow, kVector);
  static constexpr int kPitch = divide_up(kLineVectors * kVector, 8) * 16;  // bytes
  static constexpr int kLines = (S::strip_rows - 1) * P::row_step + P::window_rows;
  static constexpr int kLinesBytes = kPlanes * kLines * kPitch;

  // Pixels of C, or its planes, an odd number of times 16 bytes: eight of them lie in different
  // banks.
  static constexpr int kPixelVectors = S::out_channels / 8;
  static constexpr int kPixelPitch = (kPixelVectors | 1) * 16;
  static constexpr int kPixels = S::strip_rows * S::tile_cols;
  static constexpr int kPlanePitch = (kPixels / 8 | 1) * 16;
  static constexpr int kGradientBytes =
      S::c_planar ? S::out_channels * kPlanePitch : kPixels * kPixelPitch;
  static constexpr int kStageBytes = kLinesBytes + kGradientBytes;
  static constexpr int kSharedBytes = larger(S::stages * kStageBytes, Accumulators::kBytes);

  static_assert(P::phase_count == 1 && kLine % kVector == 0);
  static_assert(S::tile_cols % 16 == 0 && S::out_channels % 16 == 0 && kWarps % S::jobs == 0);
  static_assert(P::out_channels % 8 == 0);
  static_assert(kSharedBytes == S::shared_bytes);

  // One part of the output pixels that a block has at once.
  struct Strip {
    int image, row, col;  // the first output row and column

    __device__ __forceinline__ explicit Strip(int item)
        : image(item / (kStrips * kColTiles)),
          row(item / kColTiles % kStrips * S::strip_rows),
          col(item % kColTiles * S::tile_cols) {}
  };

  // Where the plane of a line of A begins, behind that of channel 0.
  static __device__ __forceinline__ long long plane_of(int line) {
    if constexpr (S::a_planar) return line / kLines * P::a_channel;
    return 0;
  }
  static __device__ __forceinline__ void load(const T* __restrict__ a, const T* __restrict__ c,
                                              int item, int first_channel, unsigned lines) {
    const Strip strip(item);
    const T* const image = a + strip.image * P::a_image;
    const int first_row = strip.row * P::row_step + P::row_origin;
    const int first = strip.col * kStep + kFirst - kFront;  // element of a row of A
    copy_pieces<kPlanes * kLines * kLineVectors, S::threads, 2 * kVector, 0>(
        threadIdx.x, [&](int, int i, auto copy) {
          const int line = i / kLineVectors, vector = i % kLineVectors * kVector;
          const int row = first_row + (S::a_planar ? line % kLines : line);
          const int element = first + vector;
          const bool inside =
              static_cast<unsigned>(row) < static_cast<unsigned>(P::a_rows) &&
              static_cast<unsigned>(element) < static_cast<unsigned>(kLine);
          copy(lines + line * kPitch + vector * 2,
               image + plane_of(line) + (inside ? row * P::a_row_stride + element : 0), inside);
        });
    if constexpr (S::c_planar) load_planes(c, strip, first_channel, lines);
    else load_pixels(c, strip, first_channel, lines);
  }
  static __device__ __forceinline__ void load_pixels(const T* __restrict__ c, const Strip& strip,
                                                     int first_channel, unsigned lines) {
    const T* const pixels = c + strip.image * P::c_image + kPhase.offset + first_channel;
    copy_pieces<kPixels * kPixelVectors, S::threads, 16, 4>(
        threadIdx.x, [&](int, int i, auto copy) {
          const int channel = i % kPixelVectors * 8, pixel = i / kPixelVectors;
          const int row = strip.row + pixel / S::tile_cols, col = strip.col + pixel % S::tile_cols;
          const bool inside =
              row < P::rows && col < P::cols && first_channel + channel < P::out_channels;
          const long long at = row * P::c_row_stride + col * static_cast<long long>(P::c_col_stride);
          copy(lines + kLinesBytes + pixel * kPixelPitch + channel * 2,
               pixels + (inside ? at + channel : 0), inside);
        });
  }
  static __device__ __forceinline__ void load_planes(const T* __restrict__ c, const Strip& strip,
                                                     int first_channel, unsigned lines) {
    constexpr int kOfPlane = kPixels / S::c_vector;
    const T* const planes = c + strip.image * P::c_image + kPhase.offset;
    copy_pieces<S::out_channels * kOfPlane, S::threads, 2 * S::c_vector, 4>(
        threadIdx.x, [&](int, int i, auto copy) {
          const int pixel = i % kOfPlane * S::c_vector, of = i / kOfPlane;
          const int row = strip.row + pixel / S::tile_cols, col = strip.col + pixel % S::tile_cols;
          const int channel = first_channel + of;
          const bool inside = row < P::rows && col < P::cols && channel < P::out_channels;
          const long long at = channel * P::c_channel + row * P::c_row_stride + col;
          copy(lines + kLinesBytes + of * kPlanePitch + pixel * 2, planes + (inside ? at : 0),
               inside);
        });
  }

  // Bytes from the beginning of a pixel's window to what it multiplies in a column.
  static __device__ __forceinline__ unsigned window_byte(int column) {
    if (column >= kColumns) return 0;
    const int i = column / kTapColumns, j = column / P::in_channels % kPhase.col_taps;
    int row = 0, col = 0;
    static_for<kPhase.row_taps>([&](auto tap) {
      if (i == tap.value) row = kPhase.row_tap[tap.value];
    });
    static_for<kPhase.col_taps>([&](auto tap) {
      if (j == tap.value) col = kPhase.col_tap[tap.value];
    });
    if constexpr (S::a_planar) return (column % P::in_channels * kLines + row) * kPitch + col * 2;
    return row * kPitch + (col * kPixel + column % P::in_channels) * 2;
  }

  template <int kOffset>
  static __device__ __forceinline__ unsigned element(unsigned from) {
    unsigned x;
    asm volatile("ld.shared.u16 %0, [%1+%2];" : "=r"(x) : "r"(from), "n"(kOffset));
    return x;
  }
  // Which bytes of two elements are a pair of an operand: none of a pixel that is not there, as A
  // may have Inf and NaN there. Bytes 2 and 3 of an element are zeros.
  static __device__ __forceinline__ unsigned pairing(int pixels) {
    return pixels >= 2 ? 0x5410 : pixels == 1 ? 0x3210 : 0x3232;
  }

  float sum[kRowTiles][kColumnTiles][4];

  // Adds the products of 16 output pixels: C from `gradients`, windows from `window`, where those of
  // a lane begin, of as many pixels as are `left` from the lane's first one on.
  __device__ __forceinline__ void multiply(unsigned gradients, unsigned window, int left,
                                           const unsigned (&column)[kColumnTiles]) {
    const unsigned low = pairing(left), high = pairing(left - 8);
    unsigned y[kRowTiles][4];
    static_for<kRowTiles>([&](auto m) {
      if constexpr (S::c_planar) load_matrices(y[m.value], gradients + m.value * 16 * kPlanePitch);
      else load_transposed(y[m.value], gradients + m.value * 32);
    });
    static_for<kColumnTiles>([&](auto n) {
      const unsigned from = window + column[n.value];
      const unsigned b0 = __byte_perm(element<0>(from), element<kStep * 2>(from), low);
      const unsigned b1 = __byte_perm(element<kStep * 16>(from), element<kStep * 18>(from), high);
      static_for<kRowTiles>(
          [&](auto m) { multiply_add<T>(sum[m.value][n.value], y[m.value], b0, b1); });
    });
  }

  static __device__ __forceinline__ void run(const T* a, const T* c, T* b, float* workspace,
                                             unsigned* counters, int images) {
    extern __shared__ __align__(128) unsigned char shared[];
    const unsigned stages = shared_address(shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int job = warp % S::jobs, sharing = warp / S::jobs;
    const int owner = blockIdx.x % kOwners, split = blockIdx.x / kOwners;
    const int first_channel = owner * S::out_channels;
    const int items = images * (kStrips * kColTiles);
    FewChannelsWgrad self;
#pragma unroll
    for (int i = 0; i < kRowTiles * kColumnTiles * 4; ++i) (&self.sum[0][0][0])[i] = 0.0f;
    unsigned column[kColumnTiles];
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      column[n] = window_byte((job * kColumnTiles + n) * 8 + lane / 4);
    }
    // Lanes name pixels lane % 8 + lane / 16 * 8 of C at channel lane / 8 % 2 * 8, or channels
    // lane % 16 of planes at pixel lane / 16 * 8, and gather from pixels lane % 4 * 2 on.
    const unsigned pixel =
        kLinesBytes + (S::c_planar ? lane % 16 * kPlanePitch + lane / 16 * 16
                                   : (lane % 8 + lane / 16 * 8) * kPixelPitch + lane / 8 % 2 * 16);
    constexpr int kStepBytes = S::c_planar ? 32 : 16 * kPixelPitch;
    const unsigned window = (lane % 4 * 2 * kStep + kFront) * 2;
    int next = split;
    const auto load_next = [&](int stage) {
      if (next < items) load(a, c, next, first_channel, stages + stage * kStageBytes);
      commit_copies();
      next += S::splits;
    };
#pragma unroll
    for (int stage = 0; stage < S::stages - 1; ++stage) load_next(stage);
    int stage = 0;
#pragma unroll 1
    for (int item = split; item < items; item += S::splits) {
      wait_copies<S::stages - 2>();
      __syncthreads();
      load_next(stage == 0 ? S::stages - 1 : stage - 1);
      const Strip strip(item);
      const unsigned lines = stages + stage * kStageBytes;
#pragma unroll 1
      for (int step = sharing; step < kSteps; step += kSharing) {
        const int row = step / kRowSteps, col = step % kRowSteps * 16;
        const int left = P::cols - strip.col - col;
        if (strip.row + row >= P::rows || left <= 0) continue;
        self.multiply(lines + pixel + step * kStepBytes,
                      lines + window + row * (P::row_step * kPitch) + col * (kStep * 2),
                      left - lane % 4 * 2, column);
      }
      stage = stage + 1 == S::stages ? 0 : stage + 1;
    }
    wait_copies<0>();
    __syncthreads();
    const Accumulators add_up{
        reinterpret_cast<float4*>(shared),
        reinterpret_cast<float4*>(workspace) + owner * Accumulators::kVectors,
        counters + owner * partition::kCounterWords, job, sharing};
    add_up(&self.sum[0][0][0], split, static_cast<long long>(kOwners) * Accumulators::kVectors,
           [&](int v) { return target(first_channel, v); },
           [&](const Place& to, const float4& total) { store(b, to, total); });
  }

  // The elements of B that the four accumulators of a vector are; negative where there is none.
  struct Place {
    long long at[4];
  };
  // Vector v of a block's accumulators, in the numbering of `Accumulators`.
  static __device__ __forceinline__ Place target(int first_channel, int v) {
    const int job = v / 32 % S::jobs, lane = v % 32, tile = v / (S::jobs * 32);
    Place found;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = first_channel + tile / kColumnTiles * 16 + lane / 4 + i / 2 * 8;
      const int column = (job * kColumnTiles + tile % kColumnTiles) * 8 + lane % 4 * 2 + i % 2;
      long long at = chosen_weight<P>(column / kTapColumns, column / P::in_channels % kPhase.col_taps);
      at += column % P::in_channels * static_cast<long long>(P::b_in_channel);
      at += n * static_cast<long long>(P::b_out_channel);
      found.at[i] = n < P::out_channels && column < kColumns ? at : -1;
    }
    return found;
  }
  static __device__ __forceinline__ void store(T* b, const Place& to, const float4& accumulators) {
    const float total[4] = {accumulators.x, accumulators.y, accumulators.z, accumulators.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      store_results<1, kApart>(
          b + to.at[i], 1, [&](int) { return to.at[i] >= 0; },
          [&](int) { return result<P>(total[i]); });
    }
  }
};

}  // namespace convir
