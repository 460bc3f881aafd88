// Tiles of groups in planes (NCHW): channel after channel in shared memory, each with the rows of
// its pixels in chunks of eight, what `ldmatrix` reads as a row. Chunks lie where those of memory
// do, so that columns before the first one are never read.
#pragma once

#include "arith/sizes.cuh"
#include "load/pieces.cuh"
#include "load/vectors.cuh"
#include "ptx/mma_sync.cuh"

namespace convir {

constexpr int kChunk = 8;  // pixels
constexpr int kElementsAhead = 8;

// Planes of a tile. L, in elements:
//   channels, images, rows, cols    of the tile; `cols` are a multiple of `vector`
//   plane, image, row               pitches in shared memory
//   vector                          columns of a copy
//   g_channel, g_image, g_row, g_rows, g_cols    pitches and sizes in memory; zeros outside
template <typename T, typename L>
struct RowPlanes {
  static constexpr int kUnitsOfRow = L::cols / L::vector;
  static constexpr int kUnits = L::channels * L::images * L::rows * kUnitsOfRow;
  static_assert(L::cols % L::vector == 0);

  const T* from;  // channel 0 of the tile in image 0 of the tile
  int images, row, col;  // images from there on; row and column that the tile begins at

  struct Piece {
    const T* source;
    int shared;  // element
    bool is_inside;
  };
  __device__ __forceinline__ Piece piece(int index) const {
    const int tile_col = index % kUnitsOfRow * L::vector;
    index /= kUnitsOfRow;
    const int tile_row = index % L::rows;
    index /= L::rows;
    const int image = index % L::images, channel = index / L::images;
    const int at_row = row + tile_row, at_col = col + tile_col;
    const bool is_inside = image < images &&
                           static_cast<unsigned>(at_row) < static_cast<unsigned>(L::g_rows) &&
                           static_cast<unsigned>(at_col) < static_cast<unsigned>(L::g_cols);
    const long long offset =
        channel * L::g_channel + image * L::g_image + at_row * L::g_row + at_col;
    return {is_inside ? from + offset : from,
            channel * L::plane + image * L::image + tile_row * L::row + tile_col, is_inside};
  }

  // Brings the tile to `to`; what is copied arrives with the thread's next group of copies.
  template <int kThreads>
  __device__ __forceinline__ void load(unsigned to) const {
    if constexpr (L::vector > 1) {
      copy_pieces<kUnits, kThreads, L::vector * 2, smaller(4, divide_up(kUnits, kThreads))>(
          threadIdx.x, [&](int, int index, auto copy) {
            const Piece of = piece(index);
            copy(to + of.shared * 2, of.source, of.is_inside);
          });
    } else {
      load_elements<kThreads>(to);
    }
  }

 private:
  template <int kThreads>
  __device__ __forceinline__ void load_elements(unsigned to) const {
#pragma unroll 1
    for (int first = threadIdx.x; first < kUnits; first += kThreads * kElementsAhead) {
      unsigned short bits[kElementsAhead];
      int at[kElementsAhead];
#pragma unroll
      for (int i = 0; i < kElementsAhead; ++i) {
        const int index = first + i * kThreads;
        const Piece of = piece(index < kUnits ? index : first);
        at[i] = of.shared;
        bits[i] = of.is_inside ? *reinterpret_cast<const unsigned short*>(of.source) : 0;
      }
#pragma unroll
      for (int i = 0; i < kElementsAhead; ++i) {
        if (first + i * kThreads < kUnits) {
          asm volatile("st.shared.u16 [%0], %1;" ::"r"(to + at[i] * 2), "h"(bits[i]) : "memory");
        }
      }
    }
  }
};

// The windows of a tile in A, and the gradients of a tile in C.
template <typename P, typename S>
struct WindowPlanes {
  static constexpr int channels = S::groups * P::in_channels, images = S::tile_images;
  static constexpr int rows = S::in_rows, cols = S::in_cols;
  static constexpr int plane = S::in_plane, image = S::in_image, row = S::in_row;
  static constexpr int vector = S::in_vector;
  static constexpr long long g_channel = P::a_channel, g_image = P::a_image;
  static constexpr long long g_row = P::a_row_stride;
  static constexpr int g_rows = P::a_rows, g_cols = P::a_cols;
};
template <typename P, typename S>
struct GradientPlanes {
  static constexpr int channels = S::groups * P::out_channels, images = S::tile_images;
  static constexpr int rows = S::tile_rows, cols = S::out_row;
  static constexpr int plane = S::out_plane, image = S::out_image, row = S::out_row;
  static constexpr int vector = S::out_vector;
  static constexpr long long g_channel = P::c_channel, g_image = P::c_image;
  static constexpr long long g_row = P::c_row_stride;
  static constexpr int g_rows = P::rows, g_cols = P::cols;
};

// Output pixels of a tile: some rows and columns of some images.
template <typename P, typename S>
struct PlanesTile {
  static constexpr int kColTiles = divide_up(P::cols, S::tile_cols);
  static constexpr int kRowTiles = divide_up(P::rows, S::tile_rows);
  int image, row, col;

  __device__ __forceinline__ explicit PlanesTile(int index) {
    col = index % kColTiles * S::tile_cols;
    index /= kColTiles;
    row = index % kRowTiles * S::tile_rows;
    image = index / kRowTiles * S::tile_images;
  }
  static __device__ __forceinline__ int count(int images) {
    return (images + S::tile_images - 1) / S::tile_images * kRowTiles * kColTiles;
  }
  // Chunks before the first column of a tile belong to its window.
  __device__ __forceinline__ RowPlanes<typename P::Element, WindowPlanes<P, S>> window(
      const typename P::Element* a, int group, int images) const {
    return {a + static_cast<long long>(image) * P::a_image +
                static_cast<long long>(group) * P::in_channels * P::a_channel,
            images - image, row * P::row_step + P::row_origin,
            col * P::col_step - S::lead * kChunk};
  }
};

// What warps compute of a tile: output rows of a strip, in a segment of chunks.
template <typename P, typename S>
struct PlanesJob {
  static constexpr int kStrips = S::tile_rows / S::unroll;
  static constexpr int kCount = S::tile_images * kStrips * S::segments;
  int image, row, chunk;  // of the tile; chunks count columns of A

  __device__ __forceinline__ explicit PlanesJob(int index) {
    chunk = index % S::segments * S::segment;
    index /= S::segments;
    row = index % kStrips * S::unroll;
    image = index / kStrips;
  }
};

// Where the window of a column tap begins, from column 0 of the output on.
template <typename P>
constexpr int tap_shift(int col_tap) {
  return P::col_origin + P::phases[0].col_tap[col_tap];
}
constexpr int floor_half(int x) { return x >= 0 ? x / 2 : -((1 - x) / 2); }

// The lane of a quad whose word is `kAhead` words further on.
template <int kAhead>
__device__ __forceinline__ unsigned further_word(unsigned word) {
  if constexpr (kAhead == 0) return word;
  const int lane = threadIdx.x % 32;
  return __shfl_sync(~0u, word, (lane & 28) | ((lane + kAhead) & 3));
}
// Whether that word is of the same chunk.
template <int kAhead>
__device__ __forceinline__ bool is_same_chunk() {
  return static_cast<unsigned>(static_cast<int>(threadIdx.x % 4) + kAhead) < 4u;
}

// Matrices of a strip's window in a chunk: eight channels of a row each, those of a row together.
template <typename P, typename S>
struct WindowMatrices {
  static constexpr int kOctets = P::in_channels / kChunk;
  static constexpr int kWindow = (S::unroll - 1) * P::row_step + P::window_rows;
  static constexpr int kRowTaps = P::phases[0].row_taps;

  static constexpr bool reads(int row) {
    for (int u = 0; u < S::unroll; ++u) {
      for (int i = 0; i < kRowTaps; ++i) {
        if (u * P::row_step + P::phases[0].row_tap[i] == row) return true;
      }
    }
    return false;
  }
  // Of the rows that are read, the number of one; and the other way.
  static constexpr int number_of(int row) {
    int number = 0;
    for (int r = 0; r < row; ++r) number += reads(r);
    return number;
  }
  static constexpr int kRows = number_of(kWindow);
  static constexpr int row_of(int number) {
    for (int row = 0; row < kWindow; ++row) {
      if (reads(row) && number_of(row) == number) return row;
    }
    return 0;
  }
  static constexpr int kCount = kRows * kOctets;
  static constexpr int kFours = divide_up(kCount, 4);
  // The matrix that output row `u` multiplies for octet `depth` of its row taps' channels.
  static constexpr int matrix_of(int u, int depth) {
    const int row = u * P::row_step + P::phases[0].row_tap[depth / kOctets];
    return number_of(row) * kOctets + depth % kOctets;
  }
  // Bytes of a matrix's first row in the window.
  static constexpr int place_of(int matrix) {
    const int m = matrix < kCount ? matrix : kCount - 1;
    return 2 * (row_of(m / kOctets) * S::in_row + m % kOctets * kChunk * S::in_plane);
  }

  unsigned offset[kFours];  // of the row that this lane names

  __device__ __forceinline__ WindowMatrices() {
    const int lane = threadIdx.x % 32;
    static_for<kFours>([&](auto four) {
      constexpr int kFirst = decltype(four)::value * 4;
      constexpr int kPlaces[] = {place_of(kFirst), place_of(kFirst + 1), place_of(kFirst + 2),
                                 place_of(kFirst + 3)};
      const int low = lane & 8 ? kPlaces[1] : kPlaces[0];
      const int high = lane & 8 ? kPlaces[3] : kPlaces[2];
      offset[four.value] = (lane & 16 ? high : low) + lane % 8 * S::in_plane * 2;
    });
  }
  // Rows of the result are channels, or pixels if `kTransposed`.
  template <bool kTransposed>
  __device__ __forceinline__ void load(unsigned (&x)[kFours][4], unsigned window) const {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      if constexpr (kTransposed) load_transposed(x[i], window + offset[i]);
      else load_matrices(x[i], window + offset[i]);
    }
  }
};

// Bytes from where a tile's window lies to that of a job, for a group of the block.
template <typename P, typename S>
__device__ __forceinline__ int window_of(const PlanesJob<P, S>& job, int group) {
  return 2 * (group * P::in_channels * S::in_plane + job.image * S::in_image +
              job.row * P::row_step * S::in_row + job.chunk * kChunk);
}

}  // namespace convir
