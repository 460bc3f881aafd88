// Pointwise convolution (1x1): a stream of pixels past a filter that blocks keep in shared memory.
//
// GEMM M is output pixels, N output channels, K input channels. A warp loads its rows of A from global
// memory as the fragments of matrix instructions, and stores accumulators from registers, 16 bytes a
// lane: nothing but the filter passes through shared memory, and warps wait for nobody.
//
// GEMM K has no order. Of 32 input channels lane % 4 = q has the 8 from 8 q on, which are 16 bytes of
// a row, of 16 it has 4, and of 8 it has 2; A and the filter agree on that. Nor has GEMM N: of 32
// columns a lane's accumulators are those from 8 q on.
#pragma once

#include "epilogue/direct_store.cuh"
#include "load/vectors.cuh"
#include "ptx/mma_sync.cuh"
#include "ptx/shared_memory.cuh"

namespace convir {

template <typename P, typename S>
struct Pointwise {
  using T = typename P::Element;
  static constexpr int kK = P::in_channels, kN = P::out_channels;
  static constexpr int kTiles = S::tiles;  // of 16 pixels
  static constexpr int kRows = 16 * kTiles;
  static constexpr int kWarps = S::threads / 32;
  static constexpr int kWords = kK / 8;  // of a row, that a lane has
  static constexpr int kImagePixels = P::rows * P::cols;

  // Loads of a row are as wide as they may: the words of a lane in the one that begins at word `at`,
  // and whether one does.
  static constexpr int words_of(int at) {
    return kWords - at >= 4 ? 4 : kWords - at >= 2 ? 2 : 1;
  }
  static constexpr bool begins(int word) {
    return word % 4 == 0 || (word == kWords - 1 && kWords % 2 == 1);
  }
  // body(first word, number of words) for each load of a row.
  template <typename Body>
  static __device__ __forceinline__ void for_each_load(const Body& body) {
    static_for<kWords>([&](auto word) {
      constexpr int kWord = decltype(word)::value;
      if constexpr (begins(kWord)) body(word, Int<words_of(kWord)>{});
    });
  }

  // Tiles of 8 columns: of four together a lane has eight neighbours, of what is left of two and one.
  static constexpr int kColumnTiles = kN / 8;
  static constexpr int kGroups = kColumnTiles / 4;
  static constexpr int kTileBytes = kWords * 32 * 4;  // of the filter's fragments
  static constexpr int kSharedBytes = kColumnTiles * kTileBytes;

  static_assert(kK % 8 == 0 && kN % 8 == 0 && kSharedBytes == S::shared_bytes);
  static_assert(P::a_col_stride % 8 == 0 && P::a_row_stride % 8 == 0 && P::a_image % 8 == 0);
  static_assert(P::c_col_stride % 8 == 0 && P::c_row_stride % 8 == 0 && P::c_image % 8 == 0);

  // The column of row `n` of a tile's fragment.
  static __device__ __forceinline__ int column_of(int tile, int n) {
    const int together = tile < kGroups * 4 ? 4 : tile < kColumnTiles / 2 * 2 ? 2 : 1;
    return tile / together * together * 8 + n / 2 * (2 * together) + tile % together * 2 + n % 2;
  }

  // The filter as fragments, [tile of 8 columns][load of a row][lane][word]. Many loads at once: all
  // warps wait for them before they multiply.
  static constexpr bool kByChannel = P::b_in_channel == 1 && P::b_out_channel % 8 == 0;
  static constexpr bool kByColumn = P::b_out_channel == 1 && P::b_in_channel % 2 == 0;
  static __device__ __forceinline__ void stage_weights(const T* __restrict__ b, unsigned* shared) {
    constexpr long long kFirst = tap_weight<P>(0, 0, 0);
    const auto weight = [&](int channel, int column) {
      return b + (kFirst + channel * static_cast<long long>(P::b_in_channel) +
                  column * static_cast<long long>(P::b_out_channel));
    };
    for_each_load([&](auto first, auto count) {
      constexpr int kCount = decltype(count)::value;
      const auto place = [&](int tile, int lane) {
        return shared + (tile * kWords + first.value) * 32 + lane * kCount;
      };
      if constexpr (kByChannel && kFirst % 8 == 0) {
#pragma unroll 8
        for (int i = threadIdx.x; i < kColumnTiles * 32; i += S::threads) {
          const int tile = i / 32, lane = i % 32;
          load_words<kCount>(place(tile, lane),
                             weight(first.value * 8 + lane % 4 * (kCount * 2),
                                    column_of(tile, lane / 4)));
        }
      } else {
        // Two neighbours among columns and two among channels are words of two lanes.
#pragma unroll 4
        for (int i = threadIdx.x; i < kColumnTiles * 16; i += S::threads) {
          const int tile = i / 16, lane = i % 16 / 4 * 8 + i % 4;
          const int column = column_of(tile, lane / 4);
#pragma unroll
          for (int word = 0; word < kCount; ++word) {
            const int channel = first.value * 8 + lane % 4 * (kCount * 2) + word * 2;
            T of[2][2];
#pragma unroll
            for (int k = 0; k < 2; ++k) {
              const T* const from = weight(channel + k, column);
              if constexpr (kByColumn && kFirst % 2 == 0) {
                load_contiguous(of[k], from);
              } else {
                load_apart(of[k], from, P::b_out_channel);
              }
            }
            const T low[2] = {of[0][0], of[1][0]}, high[2] = {of[0][1], of[1][1]};
            place(tile, lane)[word] = word_of(low);
            place(tile, lane + 4)[word] = word_of(high);
          }
        }
      }
    });
  }

  // Where a pixel begins.
  static __device__ __forceinline__ long long a_element(int pixel) {
    if constexpr (P::is_linear) return pixel * static_cast<long long>(P::col_step * P::a_col_stride);
    const int image = pixel / kImagePixels, row = pixel / P::cols % P::rows;
    return image * P::a_image + (row * P::row_step + P::row_origin) * P::a_row_stride +
           (pixel % P::cols * P::col_step + P::col_origin) * static_cast<long long>(P::a_col_stride);
  }
  static __device__ __forceinline__ long long c_element(int pixel) {
    constexpr long long kOffset = P::phases[0].offset;
    if constexpr (P::is_linear) return kOffset + pixel * static_cast<long long>(P::c_col_stride);
    const int image = pixel / kImagePixels, row = pixel / P::cols % P::rows;
    return kOffset + image * P::c_image + row * P::c_row_stride +
           pixel % P::cols * static_cast<long long>(P::c_col_stride);
  }

  using Fragments = unsigned[kTiles][2][kWords];

  // The rows of A of a warp's tile; those behind the last pixel are that pixel.
  static __device__ __forceinline__ void load(const T* __restrict__ a, int first, int pixels,
                                              Fragments& to) {
    const int lane = threadIdx.x % 32;
    static_for<kTiles * 2>([&](auto i) {
      const int pixel = min(first + i.value * 8 + lane / 4, pixels - 1);
      const T* const from = a + a_element(pixel);
      unsigned(&words)[kWords] = to[i.value / 2][i.value % 2];
      for_each_load([&](auto word, auto count) {
        load_words<count.value>(words + word.value,
                                from + word.value * 8 + lane % 4 * (count.value * 2));
      });
    });
  }
  template <int kCount>
  static __device__ __forceinline__ void load_words(unsigned* to, const T* from) {
    using Bits = typename Word<kCount * 4>::Type;
    const Bits bits = __ldg(reinterpret_cast<const Bits*>(from));
    memcpy(to, &bits, sizeof(bits));
  }

  // Multiplies a warp's rows with kCount tiles of columns from `tile` on, and stores.
  template <int kCount>
  static __device__ __forceinline__ void columns(const Fragments& a, unsigned weights, int tile,
                                                 const long long (&element)[kTiles * 2],
                                                 const bool (&inside)[kTiles * 2],
                                                 const Target<P>& out) {
    const int lane = threadIdx.x % 32;
    float sum[kTiles][kCount][4] = {};
    const unsigned from = weights + tile * kTileBytes;
    for_each_load([&](auto word, auto count) {
      constexpr int kLoaded = decltype(count)::value;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        unsigned b[kLoaded];
        load_shared<kLoaded>(b, from + j * kTileBytes + word.value * 128 + lane * (kLoaded * 4));
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          const unsigned *const low = a[i][0] + word.value, *const high = a[i][1] + word.value;
          if constexpr (kLoaded == 1) {
            multiply_add<T>(sum[i][j], {low[0], high[0]}, b[0]);
          } else {
#pragma unroll
            for (int k = 0; k < kLoaded; k += 2) {
              multiply_add<T>(sum[i][j], {low[k], high[k], low[k + 1], high[k + 1]}, b[k],
                              b[k + 1]);
            }
          }
        }
      }
    });
    // Pixels without a branch around them: their operands are loaded together.
    const int channel = tile * 8 + lane % 4 * (kCount * 2);
    unsigned words[kTiles * 2][kCount];
#pragma unroll
    for (int i = 0; i < kTiles * 2; ++i) {
      float sums[2 * kCount];
#pragma unroll
      for (int j = 0; j < 2 * kCount; ++j) sums[j] = sum[i / 2][j / 2][i % 2 * 2 + j % 2];
      results<P>(words[i], sums, out, element[i] + channel, channel);
    }
#pragma unroll
    for (int i = 0; i < kTiles * 2; ++i) {
      using Bits = typename Word<kCount * 4>::Type;
      Bits bits;
      memcpy(&bits, words[i], sizeof(bits));
      if (inside[i]) *reinterpret_cast<Bits*>(out.c + element[i] + channel) = bits;
    }
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, const Target<P>& out,
                                             int images) {
    extern __shared__ __align__(128) unsigned char shared[];
    const int lane = threadIdx.x % 32;
    const int pixels = images * kImagePixels, step = gridDim.x * (kWarps * kRows);
    int first = (blockIdx.x * kWarps + threadIdx.x / 32) * kRows;
    Fragments next;
    if (first < pixels) load(a, first, pixels, next);
    stage_weights(b, reinterpret_cast<unsigned*>(shared));
    __syncthreads();
    const unsigned weights = shared_address(shared);
#pragma unroll 1
    for (; first < pixels; first += step) {
      Fragments rows;
      memcpy(rows, next, sizeof(rows));
      if (first + step < pixels) load(a, first + step, pixels, next);
      long long element[kTiles * 2];
      bool inside[kTiles * 2];
#pragma unroll
      for (int i = 0; i < kTiles * 2; ++i) {
        const int pixel = first + i * 8 + lane / 4;
        inside[i] = pixel < pixels;
        element[i] = c_element(min(pixel, pixels - 1));
      }
#pragma unroll 2
      for (int group = 0; group < kGroups; ++group) {
        columns<4>(rows, weights, group * 4, element, inside, out);
      }
      if constexpr (kColumnTiles % 4 >= 2) {
        columns<2>(rows, weights, kGroups * 4, element, inside, out);
      }
      if constexpr (kColumnTiles % 2 == 1) {
        columns<1>(rows, weights, kColumnTiles - 1, element, inside, out);
      }
    }
  }
};

}  // namespace convir
