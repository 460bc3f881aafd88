// Dense convolution from a few tens of channels: a block copies what its tile of output pixels reads
// of A to shared memory, once, and multiplies it by one filter tap after the other.
//
// The rows of an operand of `ldmatrix` lie anywhere, so a tap is another distance from where the
// lanes' pixels begin: nothing is copied or checked for a tap but its part of the filter.
#pragma once

#include "epilogue/direct_store.cuh"
#include "load/pieces.cuh"

namespace convir {

template <typename P, typename S>
struct HaloImplicitGemm {
  using T = typename P::Element;
  static constexpr auto& kPhase = P::phases[0];
  static constexpr int kRowTaps = kPhase.row_taps, kColTaps = kPhase.col_taps;
  static constexpr int kTaps = P::slice_taps * kRowTaps * kColTaps;
  static constexpr int kDepth = P::in_channels / 16;  // steps of 16 input channels

  // Output pixels of a block: rows of the product, 16 after 16 of the innermost axis first.
  static constexpr int kPixels = S::tile_slices * S::tile_rows * S::tile_cols;
  static constexpr int kRowTiles = kPixels / 16 / (S::threads / 32);  // of a warp
  static constexpr int kColumnTiles = S::out_channels / 8;
  static constexpr int kSliceTiles = divide_up(P::slices, S::tile_slices);
  static constexpr int kTilesOfRows = divide_up(P::rows, S::tile_rows);
  static constexpr int kTilesOfCols = divide_up(P::cols, S::tile_cols);
  static constexpr int kOutChannelTiles = divide_up(P::out_channels, S::out_channels);

  // What they read of A. Pixels that neighbours read for one tap are neighbours: of a line those of
  // each remainder of the step are together. A pixel is an odd number of times 16 bytes, so eight
  // neighbours lie in different banks.
  static constexpr int kHaloSlices =
      (S::tile_slices - 1) * P::slice_step + (P::slice_taps - 1) * P::slice_tap_step + 1;
  static constexpr int kHaloRows = (S::tile_rows - 1) * P::row_step + P::window_rows;
  static constexpr int kHaloCols = (S::tile_cols - 1) * P::col_step + P::window_cols;
  static constexpr int kPart = divide_up(kHaloCols, P::col_step);
  static constexpr int kPitch = P::in_channels * 2 + 16;
  static constexpr int kLine = kPart * P::col_step * kPitch, kSlice = kHaloRows * kLine;
  static constexpr int kHaloBytes = kHaloSlices * kSlice;

  // A tap of the filter: rows of output channels, or of input channels.
  static constexpr bool kByOutChannel = P::b_in_channel == 1;
  static constexpr int kFilterRows = kByOutChannel ? S::out_channels : P::in_channels;
  static constexpr int kFilterRow = kByOutChannel ? P::in_channels : S::out_channels;
  static constexpr int kFilterPitch = kFilterRow * 2 + 16;
  static constexpr int kStageBytes = kFilterRows * kFilterPitch;
  static constexpr int kTableBytes = divide_up(kTaps * 8, 16) * 16;
  static constexpr int kSharedBytes = kHaloBytes + S::stages * kStageBytes + kTableBytes;

  static_assert(P::phase_count == 1 && P::in_channels % 16 == 0 && P::out_channels % 8 == 0);
  static_assert(kPixels % (S::threads / 2) == 0 && S::out_channels % 32 == 0);
  static_assert(kByOutChannel || P::b_out_channel == 1);
  static_assert(kSharedBytes == S::shared_bytes);

  // The output pixel at which a block's tile begins.
  struct Tile {
    int channel, image, slice, row, col;

    __device__ __forceinline__ explicit Tile(int block)
        : channel(block % kOutChannelTiles * S::out_channels),
          image(block / (kOutChannelTiles * kTilesOfCols * kTilesOfRows * kSliceTiles)),
          slice(block / (kOutChannelTiles * kTilesOfCols * kTilesOfRows) % kSliceTiles * S::tile_slices),
          row(block / (kOutChannelTiles * kTilesOfCols) % kTilesOfRows * S::tile_rows),
          col(block / kOutChannelTiles % kTilesOfCols * S::tile_cols) {}
  };

  // Where a pixel of a line lies in it.
  static constexpr __device__ __forceinline__ int place(int col) {
    return (col % P::col_step * kPart + col / P::col_step) * kPitch;
  }

  static __device__ __forceinline__ void load_halo(const T* __restrict__ a, const Tile& tile,
                                                   unsigned halo) {
    constexpr int kVectors = P::in_channels / 8;
    const T* const image = a + tile.image * P::a_image;
    const int slice0 = tile.slice * P::slice_step + P::slice_origin;
    const int row0 = tile.row * P::row_step + P::row_origin;
    const int col0 = tile.col * P::col_step + P::col_origin;
    copy_pieces<kHaloSlices * kHaloRows * kHaloCols * kVectors, S::threads, 16, 4>(
        threadIdx.x, [&](int, int i, auto copy) {
          const int vector = i % kVectors, col = i / kVectors % kHaloCols;
          const int row = i / (kVectors * kHaloCols) % kHaloRows;
          const int slice = i / (kVectors * kHaloCols * kHaloRows);
          const bool inside =
              static_cast<unsigned>(slice0 + slice) < static_cast<unsigned>(P::a_slices) &&
              static_cast<unsigned>(row0 + row) < static_cast<unsigned>(P::a_rows) &&
              static_cast<unsigned>(col0 + col) < static_cast<unsigned>(P::a_cols);
          const long long at = (slice0 + slice) * P::a_slice + (row0 + row) * P::a_row_stride +
                               (col0 + col) * static_cast<long long>(P::a_col_stride) + vector * 8;
          copy(halo + slice * kSlice + row * kLine + place(col) + vector * 16,
               image + (inside ? at : 0), inside);
        });
  }

  // Copies a tap of the filter, `weight` elements behind its beginning.
  static __device__ __forceinline__ void load_tap(const T* __restrict__ b, int first_channel,
                                                  int weight, unsigned stage) {
    constexpr int kVectors = kFilterRow / 8;
    copy_pieces<kFilterRows * kVectors, S::threads, 16>(threadIdx.x, [&](int, int i, auto copy) {
      const int vector = i % kVectors * 8, row = i / kVectors;
      const int channel = first_channel + (kByOutChannel ? row : vector);
      const bool inside = channel < P::out_channels;
      const long long at = kByOutChannel
                               ? channel * static_cast<long long>(P::b_out_channel) + vector
                               : row * static_cast<long long>(P::b_in_channel) + channel;
      copy(stage + row * kFilterPitch + vector * 2, b + (inside ? at + weight : 0), inside);
    });
  }

  // By tap the byte of A from where a pixel's window begins, and the element of the filter.
  static __device__ __forceinline__ void list_taps(int2* table) {
    for (int tap = threadIdx.x; tap < kTaps; tap += S::threads) {
      const int i = tap / kColTaps % kRowTaps, j = tap % kColTaps;
      const int slice = tap / (kColTaps * kRowTaps);
      int row = 0, col = 0;
      static_for<kRowTaps>([&](auto of) {
        if (i == of.value) row = kPhase.row_tap[of.value];
      });
      static_for<kColTaps>([&](auto of) {
        if (j == of.value) col = kPhase.col_tap[of.value];
      });
      const long long weight =
          chosen_weight<P>(i, j) + P::slice_weight + slice * P::slice_weight_step;
      table[tap] = make_int2(slice * (P::slice_tap_step * kSlice) + row * kLine + place(col),
                             static_cast<int>(weight));
    }
  }

  using Accumulators = float[kRowTiles][kColumnTiles][4];

  // Adds the products of a tap: A from `window`, where those of a lane begin; the filter from
  // `weights`, where the lane's row of it is.
  static __device__ __forceinline__ void multiply(const unsigned (&window)[kRowTiles], int tap,
                                                  unsigned weights, Accumulators& sum) {
    static_for<kDepth>([&](auto step) {
      unsigned x[kRowTiles][4];
      static_for<kRowTiles>([&](auto m) {
        load_matrices(x[m.value], window[m.value] + tap + step.value * 32);
      });
      static_for<kColumnTiles / 2>([&](auto pair) {
        constexpr int n = decltype(pair)::value * 2;
        unsigned b[4];
        if constexpr (kByOutChannel) {
          load_matrices(b, weights + n * (8 * kFilterPitch) + step.value * 32);
        } else {
          load_transposed(b, weights + step.value * (16 * kFilterPitch) + n * 16);
        }
        static_for<kRowTiles * 2>([&](auto i) {
          constexpr int m = decltype(i)::value / 2, j = decltype(i)::value % 2;
          multiply_add<T>(sum[m][n + j], x[m], b[j * 2], b[j * 2 + 1]);
        });
      });
    });
  }

  static __device__ __forceinline__ void store(const Accumulators& sum, const Tile& tile,
                                               const Target<P>& out) {
    const int lane = threadIdx.x % 32;
    static_for<kRowTiles * 2>([&](auto i) {
      constexpr int m = decltype(i)::value / 2, half = decltype(i)::value % 2 * 2;
      const int pixel = (threadIdx.x / 32 * kRowTiles + m) * 16 + half * 4 + lane / 4;
      const int slice = tile.slice + pixel / (S::tile_rows * S::tile_cols);
      const int row = tile.row + pixel / S::tile_cols % S::tile_rows;
      const int col = tile.col + pixel % S::tile_cols;
      const bool inside = slice < P::slices && row < P::rows && col < P::cols;
      const long long element = tile.image * P::c_image + kPhase.offset + slice * P::c_slice +
                                row * P::c_row_stride + col * static_cast<long long>(P::c_col_stride);
      static_for<kColumnTiles / 4>([&](auto group) {
        const int first = tile.channel + group.value * 32;
        unsigned word[4];
        static_for<4>([&](auto j) {
          const auto& d = sum[m][group.value * 4 + j.value];
          const int channel = first + j.value * 8 + lane % 4 * 2;
          word[j.value] = inside && channel < P::out_channels
                              ? results<P>(d[half], d[half + 1], out, element + channel, channel)
                              : 0;
        });
        transpose_quads(word);
        const int channel = first + lane % 4 * 8;
        if (inside && channel < P::out_channels) {
          store_results<1>(reinterpret_cast<uint4*>(out.c + element + channel), [&](int) {
            return make_uint4(word[0], word[1], word[2], word[3]);
          });
        }
      });
    });
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, const Target<P>& out, int) {
    extern __shared__ __align__(128) unsigned char shared[];
    const unsigned halo = shared_address(shared), stages = halo + kHaloBytes;
    auto* const table = reinterpret_cast<int2*>(shared + kHaloBytes + S::stages * kStageBytes);
    const Tile tile(blockIdx.x);
    load_halo(a, tile, halo);
    list_taps(table);
    __syncthreads();
#pragma unroll
    for (int tap = 0; tap < S::stages - 1; ++tap) {
      if (tap < kTaps) load_tap(b, tile.channel, table[tap].y, stages + tap * kStageBytes);
      commit_copies();
    }
    const int lane = threadIdx.x % 32;
    unsigned window[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const int pixel = (threadIdx.x / 32 * kRowTiles + m) * 16 + lane % 16;
      window[m] = halo + pixel / (S::tile_rows * S::tile_cols) * (P::slice_step * kSlice) +
                  pixel / S::tile_cols % S::tile_rows * (P::row_step * kLine) +
                  pixel % S::tile_cols * kPitch + lane / 16 * 16;
    }
    // Of two tiles of columns the rows of 8 of the one that a lane names, and its half of a step.
    const int row = kByOutChannel ? lane / 16 * 8 + lane % 8 : lane % 16;
    const unsigned weights =
        stages + row * kFilterPitch + (kByOutChannel ? lane / 8 % 2 : lane / 16) * 16;
    Accumulators sum = {};
    int stage = 0;
#pragma unroll 1
    for (int tap = 0; tap < kTaps; ++tap) {
      wait_copies<S::stages - 2>();
      __syncthreads();
      const int next = tap + S::stages - 1;
      if (next < kTaps) {
        const int free = stage == 0 ? S::stages - 1 : stage - 1;
        load_tap(b, tile.channel, table[next].y, stages + free * kStageBytes);
      }
      commit_copies();
      multiply(window, table[tap].x, weights + stage * kStageBytes, sum);
      stage = stage + 1 == S::stages ? 0 : stage + 1;
    }
    wait_copies<0>();
    store(sum, tile, out);
  }
};

}  // namespace convir
