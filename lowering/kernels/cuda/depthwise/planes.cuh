// Tiles of an operand as planes in shared memory: channel after channel, each with the rows of its
// pixels, whatever layout memory has.
//
// Pixels come in chunks of eight, what `ldmatrix` reads as a row. L says how a tile lies; sizes and
// pitches count elements:
//   channels, images, slices, rows, chunks    of the tile; chunks are those of a row
//   plane, vector_pad, image, slice, row      pitches; `vector_pad` is between vectors of channels
//   vector          channels (channels last) or pixels (planar) of an access to memory
//   planar          whether columns are innermost in memory, or nothing is
//   g_channel, g_image, g_slice, g_row, g_col     pitches in memory
//   g_slices, g_rows, g_cols, g_images, g_channels    sizes in memory; outside of them are zeros
#pragma once

#include "arith/sizes.cuh"
#include "load/vectors.cuh"
#include "ptx/mma_sync.cuh"

namespace convir {

constexpr int kDepthwiseChunk = 8;  // pixels
constexpr int kBatchBytes = 128;    // that a thread has under way, in loads of at most kMostBatch units
constexpr int kMostBatch = 8;

template <typename T, typename L>
struct Planes {
  static constexpr int kPixels = L::planar ? L::vector : 2;  // of a unit
  static constexpr int kVector = L::planar ? 1 : L::vector;  // channels of a unit
  static constexpr int kVectors = L::channels / kVector;
  static constexpr int kUnitsOfRow = L::chunks * kDepthwiseChunk / kPixels;
  static constexpr int kUnits = kVectors * L::images * L::slices * L::rows * kUnitsOfRow;
  static_assert(L::channels % kVector == 0);

  // The plane of a channel of the tile.
  static __device__ __forceinline__ int plane(int channel) {
    return channel * L::plane + channel / kVector * L::vector_pad;
  }

  // Where the tile begins in memory.
  struct Origin {
    int channel, image, slice, row, col;
  };

  // Neighbouring threads have neighbours in memory.
  struct Unit {
    int channel, image, slice, row, col;  // of the tile
    __device__ __forceinline__ explicit Unit(int index) {
      if constexpr (!L::planar) {
        channel = index % kVectors * kVector;
        index /= kVectors;
      }
      col = index % kUnitsOfRow * kPixels;
      index /= kUnitsOfRow;
      row = index % L::rows;
      index /= L::rows;
      slice = index % L::slices;
      index /= L::slices;
      image = index % L::images;
      if constexpr (L::planar) channel = index / L::images;
    }
    __device__ __forceinline__ int shared() const {
      return plane(channel) + image * L::image + slice * L::slice + row * L::row + col;
    }
  };

  // An access to memory: `kVector` channels of a pixel, or `kPixels` of a plane. Zeros to begin with.
  static constexpr int kLanes = L::planar ? kPixels : kVector;
  using Access = typename Word<kLanes * static_cast<int>(sizeof(T))>::Type;
  static constexpr int kAccesses = L::planar ? 1 : 2;

  // kSliceStep: pixels of memory from one slice of the tile to the next.
  template <int kThreads, int kSliceStep>
  static __device__ __forceinline__ void load(const T* __restrict__ from, T* to,
                                              const Origin& origin) {
    constexpr int kBytes = kAccesses * static_cast<int>(sizeof(Access));
    constexpr int kMost = larger(1, kBatchBytes / kBytes);
    constexpr int kBatch = smaller(smaller(kMostBatch, kMost), divide_up(kUnits, kThreads));
#pragma unroll 1
    for (int first = threadIdx.x; first < kUnits; first += kThreads * kBatch) {
      Access pixels[kBatch][kAccesses];
      int at[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const Unit unit(first + b * kThreads);
        at[b] = unit.shared();
        const int image = origin.image + unit.image;
        const int slice = origin.slice + unit.slice * kSliceStep;
        const int row = origin.row + unit.row;
        const int channel = origin.channel + unit.channel;
        const bool is_row = (kBatch == 1 || first + b * kThreads < kUnits) &&
                            image < L::g_images && channel < L::g_channels &&
                            static_cast<unsigned>(slice) < static_cast<unsigned>(L::g_slices) &&
                            static_cast<unsigned>(row) < static_cast<unsigned>(L::g_rows);
        const int col = origin.col + unit.col;
        const T* source = from + channel * L::g_channel + image * L::g_image + slice * L::g_slice +
                          row * L::g_row + col * L::g_col;
#pragma unroll
        for (int i = 0; i < kAccesses; ++i) {
          pixels[b][i] = Access{};
          if (is_row && static_cast<unsigned>(col + i) < static_cast<unsigned>(L::g_cols)) {
            pixels[b][i] = __ldg(reinterpret_cast<const Access*>(source + i * L::g_col));
          }
        }
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (kBatch > 1 && first + b * kThreads >= kUnits) break;
        T* target = to + at[b];
        if constexpr (L::planar) {
          *reinterpret_cast<Access*>(target) = pixels[b][0];
        } else {
          store_pairs(target, pixels[b]);
        }
      }
    }
  }

  // The channels of two pixels to their planes, and back.
  static __device__ __forceinline__ void store_pairs(T* target, const Access (&pixels)[2]) {
    if constexpr (sizeof(T) == 2 && kVector % 2 == 0) {
      unsigned words[2][kVector / 2];
      memcpy(words, pixels, sizeof(words));
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        *reinterpret_cast<unsigned*>(target + e * L::plane) =
            __byte_perm(words[0][e / 2], words[1][e / 2], e % 2 == 0 ? 0x5410 : 0x7632);
      }
    } else {
      T elements[2][kVector];
      memcpy(elements, pixels, sizeof(elements));
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        Vector<T, 2> pair;
        pair[0] = elements[0][e];
        pair[1] = elements[1][e];
        convir::store(target + e * L::plane, pair);
      }
    }
  }
  static __device__ __forceinline__ void load_pairs(const T* source, Access (&pixels)[2]) {
    if constexpr (sizeof(T) == 2 && kVector % 2 == 0) {
      unsigned words[2][kVector / 2];
#pragma unroll
      for (int e = 0; e < kVector; e += 2) {
        const unsigned even = *reinterpret_cast<const unsigned*>(source + e * L::plane);
        const unsigned odd = *reinterpret_cast<const unsigned*>(source + (e + 1) * L::plane);
        words[0][e / 2] = __byte_perm(even, odd, 0x5410);
        words[1][e / 2] = __byte_perm(even, odd, 0x7632);
      }
      memcpy(pixels, words, sizeof(words));
    } else {
      T elements[2][kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const auto pair = convir::load<2>(source + e * L::plane);
        elements[0][e] = pair[0];
        elements[1][e] = pair[1];
      }
      memcpy(pixels, elements, sizeof(elements));
    }
  }

  // The other way, where images of the tile are of `rows` by `cols` pixels in memory.
  template <int kThreads>
  static __device__ __forceinline__ void store(const T* from, T* __restrict__ to,
                                               const Origin& origin, int rows, int cols) {
#pragma unroll 2
    for (int index = threadIdx.x; index < kUnits; index += kThreads) {
      const Unit unit(index);
      const int image = origin.image + unit.image;
      const int row = origin.row + unit.row;
      const int col = origin.col + unit.col;
      const int channel = origin.channel + unit.channel;
      if (image >= L::g_images || row >= rows || col >= cols || channel >= L::g_channels) continue;
      T* target = to + channel * L::g_channel + image * L::g_image + origin.slice * L::g_slice +
                  row * L::g_row + col * L::g_col;
      const T* source = from + unit.shared();
      if constexpr (L::planar) {
        *reinterpret_cast<Access*>(target) = *reinterpret_cast<const Access*>(source);
      } else {
        Access pixels[2];
        load_pairs(source, pixels);
        *reinterpret_cast<Access*>(target) = pixels[0];
        if (col + 1 < cols) *reinterpret_cast<Access*>(target + L::g_col) = pixels[1];
      }
    }
  }
};

// kCount elements of a strip's row as f32. Lanes of a quarter of a warp read halves of chunks in
// other orders, so that they find them in other banks.
template <int kCount>
__device__ __forceinline__ void load_row(float (&to)[kCount], const float* from) {
  static_assert(kCount % kDepthwiseChunk == 0);
  const bool is_swapped = threadIdx.x & 4;
  const float* const low = from + (is_swapped ? 4 : 0);
  const float* const high = from + (is_swapped ? 0 : 4);
#pragma unroll
  for (int i = 0; i < kCount; i += kDepthwiseChunk) {
    const auto a = convir::load<4>(low + i), b = convir::load<4>(high + i);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      to[i + e] = is_swapped ? b[e] : a[e];
      to[i + 4 + e] = is_swapped ? a[e] : b[e];
    }
  }
}

// The window of a tile in A, and a tile of C.
template <typename P, typename S>
struct WindowLayout {
  static constexpr int channels = S::channels / P::out_channels * P::in_channels;
  static constexpr int images = S::tile_images, slices = P::slice_taps;
  static constexpr int rows = S::in_rows, chunks = S::in_chunks;
  static constexpr int plane = S::in_plane, vector_pad = S::vector_pad, image = S::in_image;
  static constexpr int slice = S::in_slice, row = S::in_row, vector = S::in_vector;
  static constexpr bool planar = P::a_planar;
  static constexpr long long g_channel = P::a_channel, g_image = P::a_image, g_slice = P::a_slice;
  static constexpr long long g_row = P::a_row_stride, g_col = P::a_col_stride;
  static constexpr int g_channels = P::groups * P::in_channels;
  static constexpr int g_images = P::images, g_slices = P::a_slices;
  static constexpr int g_rows = P::a_rows, g_cols = P::a_cols;
};
template <typename P, typename S>
struct ResultLayout {
  static constexpr int channels = S::channels, images = S::tile_images, slices = 1;
  static constexpr int rows = S::tile_rows * S::row_phases;
  static constexpr int chunks = S::tile_cols / kDepthwiseChunk * S::col_phases;
  static constexpr int plane = S::out_plane, vector_pad = S::vector_pad, image = S::out_image;
  static constexpr int slice = 0, row = S::out_row, vector = S::out_vector;
  static constexpr bool planar = P::c_planar;
  static constexpr long long g_channel = P::c_channel, g_image = P::c_image, g_slice = P::c_slice;
  static constexpr long long g_row = P::c_row_stride / S::row_phases;
  static constexpr long long g_col = P::c_col_stride / S::col_phases;
  static constexpr int g_channels = P::groups * P::out_channels;
  static constexpr int g_images = P::images, g_slices = P::slices;
  static constexpr int g_rows = P::rows, g_cols = P::cols;
};

// The taps of a phase along an axis: tap i is `first + i * step` of the window, its weight lies at
// `weight + i * weight_step`. The launch refuses other taps.
struct EvenTaps {
  int count, first, step;
  long long weight, weight_step;
  constexpr int position(int tap) const { return first + tap * step; }
};
template <typename P>
constexpr EvenTaps row_taps(int phase) {
  const auto& p = P::phases[phase];
  const bool has_next = p.row_taps > 1;
  return {p.row_taps, p.row_tap[0], has_next ? p.row_tap[1] - p.row_tap[0] : 1, p.row_weight[0],
          has_next ? p.row_weight[1] - p.row_weight[0] : 0};
}
template <typename P>
constexpr EvenTaps col_taps(int phase) {
  const auto& p = P::phases[phase];
  const bool has_next = p.col_taps > 1;
  return {p.col_taps, p.col_tap[0], has_next ? p.col_tap[1] - p.col_tap[0] : 1, p.col_weight[0],
          has_next ? p.col_weight[1] - p.col_weight[0] : 0};
}

// A strip is eight neighbouring output columns in `unroll` rows of one image; strip m of a tile.
template <typename S>
struct Strip {
  static constexpr int kCols = S::tile_cols / kDepthwiseChunk;
  static constexpr int kRows = S::tile_rows / S::unroll;
  static constexpr int kCount = S::tile_images * kRows * kCols;
  int image, row, chunk;  // `row` counts output rows of the tile
  __device__ __forceinline__ explicit Strip(int m) {
    chunk = m % kCols;
    row = m / kCols % kRows * S::unroll;
    image = m / kCols / kRows;
  }
};

// What is added up for an output channel: input channels of its group, and slice taps of each.
template <typename P>
struct Step {
  static constexpr int kCount = P::in_channels * P::slice_taps;
  int channel, slice;
  __device__ __forceinline__ explicit Step(int index)
      : channel(index / P::slice_taps), slice(index % P::slice_taps) {}
  // The weights, or their gradients, of an output channel.
  template <typename T>
  __device__ __forceinline__ T* weights(T* b, int of) const {
    return b + of / P::out_channels * P::b_group +
           static_cast<long long>(of % P::out_channels) * P::b_out_channel +
           static_cast<long long>(channel) * P::b_in_channel + P::slice_weight +
           slice * P::slice_weight_step;
  }
  // The plane of A, and the slice in it.
  template <typename In, typename S>
  __device__ __forceinline__ int window(int of) const {
    return In::plane(of / P::out_channels * P::in_channels + channel) + slice * S::in_slice;
  }
};

// Row `row` of a strip's window. `first` is where the window begins, or, in a tile of whole images,
// the image: its rows outside of that are zeros.
template <typename P, typename S>
struct WindowRow {
  template <typename Address>
  static __device__ __forceinline__ Address at(Address zeros, Address first, int origin, int row,
                                               int pitch) {
    if constexpr (S::is_whole) {
      const bool is_inside =
          static_cast<unsigned>(origin + row) < static_cast<unsigned>(P::a_rows);
      return is_inside ? first + (origin + row) * pitch : zeros;
    } else {
      return first + row * pitch;
    }
  }
};

// What a thread block computes: a tile of channels, columns, rows, slices and images.
template <typename P, typename S>
struct DepthwiseTile {
  static constexpr int kColTiles = divide_up(P::cols, S::tile_cols);
  static constexpr int kRowTiles = divide_up(P::rows, S::tile_rows);
  static constexpr int kImageTiles = divide_up(P::images, S::tile_images);
  static constexpr long long kTiles =
      static_cast<long long>(kColTiles) * kRowTiles * P::slices * kImageTiles;
  int col, row, slice, image;  // output pixels
  __device__ __forceinline__ explicit DepthwiseTile(unsigned index) {
    col = index % kColTiles * S::tile_cols;
    index /= kColTiles;
    row = index % kRowTiles * S::tile_rows;
    index /= kRowTiles;
    slice = index % P::slices;
    image = index / P::slices * S::tile_images;
  }
  // Where the tile's window begins in A, from an output channel on. Rows of images that a tile holds as a whole begin at 0.
  template <typename Origin>
  __device__ __forceinline__ Origin window(int channel) const {
    return {channel / P::out_channels * P::in_channels, image, slice * P::slice_step + P::slice_origin,
            S::is_whole ? 0 : row * P::row_step + P::row_origin,
            col * P::col_step + P::col_origin - S::shift};
  }
};

}  // namespace convir
