// Direct convolution without tensor cores: f32 as IEEE has it, and depthwise in every type.
//
// A thread computes `vector` adjacent channels of `unroll_rows` x `run` output pixels, all
// phases of them, and loads every pixel that they share once. Neighbouring threads have adjacent
// channels, or, where images are planes (`planar`), adjacent columns of one channel. Weights lie
// in shared memory as f32, in the order that they are used. Windows of a volume are added up slice
// by slice.
#pragma once

#include "arith/scalars.cuh"
#include "epilogue/direct_store.cuh"
#include "load/direct_phase.cuh"
#include "load/vectors.cuh"

namespace convir {

constexpr int kMostHeld = 64;     // values of A that a thread holds
constexpr int kStagedAtOnce = 4;  // weights of a tap whose loads a thread has in flight

// What counts units: 32 bits where they suffice, as divisions by constants are short then.
template <bool kIsSmall>
struct IndexOf {
  using Type = unsigned;
};
template <>
struct IndexOf<false> {
  using Type = unsigned long long;
};

template <typename P, typename S>
struct SimtDirect {
  using T = typename P::Element;
  static constexpr bool kDepthwise = P::in_channels == 1 && P::out_channels == 1;
  static constexpr int kVector = S::vector;                     // channels of C of a thread
  static constexpr int kRead = kDepthwise ? kVector : S::read;  // channels of a load of A
  static constexpr int kChannels = P::groups * P::out_channels;
  static constexpr int kVectors = kChannels / kVector;
  static constexpr int kRowTiles = divide_up(P::rows, S::unroll_rows);
  static constexpr int kColTiles = divide_up(P::cols, S::run);
  static constexpr long long kImageWork =
      static_cast<long long>(P::slices) * kRowTiles * kColTiles * kVectors;  // units of an image
  using Index = typename IndexOf<(S::is_counted_in_32_bits != 0)>::Type;
  static constexpr int kWindowRows = (S::unroll_rows - 1) * P::row_step + P::window_rows;
  static constexpr int kWindowCols = (S::run - 1) * P::col_step + P::window_cols;
  // Loads of a pixel, and whether a thread has registers for all pixels of a window.
  static constexpr int kSteps = kDepthwise ? 1 : P::in_channels / kRead;
  static constexpr bool kHoldsWindow =
      P::a_slices == 1 && kWindowRows * kWindowCols * kSteps * kRead <= kMostHeld;
  static constexpr int kTaps = tap_count<P>();
  static constexpr int kTapWeights = P::in_channels * kChannels;
  static constexpr int kSliceWeights = kTaps * kTapWeights;
  static constexpr int kSharedBytes = larger(kTapWeights, P::slice_taps * kSliceWeights) * 4;
  static constexpr int kWeightVector = kVector < 4 ? kVector : 4;

  static_assert(kChannels % kVector == 0 && (kDepthwise || P::out_channels % kVector == 0));
  static_assert(kDepthwise || P::in_channels % kRead == 0);
  static_assert(kSharedBytes == S::shared_bytes);

  // Weights as [slice][tap][depth][channel].
  static __device__ __forceinline__ void stage_weights(const T* __restrict__ b, float* shared) {
#pragma unroll 1
    for (int slice = 0; slice < P::slice_taps; ++slice) {
      stage_slice(b + P::slice_weight + slice * P::slice_weight_step, shared + slice * kSliceWeights);
    }
  }
  static __device__ __forceinline__ void stage_slice(const T* __restrict__ b, float* shared) {
#pragma unroll kStagedAtOnce
    for (int i = 0; i < divide_up(kTapWeights, S::threads); ++i) {
      const int e = i * S::threads + threadIdx.x;
      if (kTapWeights % S::threads != 0 && e >= kTapWeights) break;
      const int channel = e % kChannels;
      const T* source = b + channel / P::out_channels * P::b_group + e / kChannels * P::b_in_channel +
                        channel % P::out_channels * P::b_out_channel;
      const TapWeights<P> value(source);
      static_for<kTaps>([&](auto tap) {
        shared[tap.value * kTapWeights + e] = widen(value.of[tap.value]);
      });
    }
  }

  struct Accumulators {
    float of[P::phase_count][S::unroll_rows][S::run][kVector];
  };

  // Adds the products of one pixel of the window to the outputs that read it.
  template <int kRow, int kCol>
  static __device__ __forceinline__ void multiply_pixel(Accumulators& accumulators, const float (&pixel)[kRead],
                                                        const float* weights) {
    static_for<P::phase_count * S::unroll_rows * S::run>([&](auto output) {
      constexpr int col = output.value % S::run;
      constexpr int row = output.value / S::run % S::unroll_rows;
      constexpr int p = output.value / S::run / S::unroll_rows;
      constexpr int i = row_tap_at<P>(p, kRow - row * P::row_step);
      constexpr int j = col_tap_at<P>(p, kCol - col * P::col_step);
      if constexpr (i >= 0 && j >= 0) {
        const float* matrix = weights + tap_index<P>(p, i, j) * kTapWeights;
#pragma unroll
        for (int d = 0; d < (kDepthwise ? 1 : kRead); ++d) {
#pragma unroll
          for (int v = 0; v < kVector; v += kWeightVector) {
            const auto weight = *reinterpret_cast<const Vector<float, kWeightVector>*>(
                matrix + d * kChannels + v);
#pragma unroll
            for (int e = 0; e < kWeightVector; ++e) {
              float& sum = accumulators.of[p][row][col][v + e];
              sum = fmaf(pixel[kDepthwise ? v + e : d], weight[e], sum);
            }
          }
        }
      }
    });
  }

  // What a thread computes at once: all outputs of `vector` channels at unroll_rows x run output
  // pixels.
  struct Unit {
    int channel, row, col, slice, image;

    // Threads that are contiguous have neighbours in memory: channels, or columns of a plane.
    __device__ __forceinline__ explicit Unit(Index index) {
      Index tile = P::planar ? index : index / kVectors;
      col = static_cast<int>(tile % kColTiles) * S::run;
      tile /= kColTiles;
      row = static_cast<int>(tile % kRowTiles) * S::unroll_rows;
      tile /= kRowTiles;
      channel = static_cast<int>((P::planar ? tile : index) % kVectors) * kVector;
      image = static_cast<int>(P::planar ? tile / kVectors : tile);
      slice = image % P::slices;
      image /= P::slices;
    }
  };

  // body(row, column) for every pixel of a window, constants both.
  template <typename Body>
  static __device__ __forceinline__ void for_each_pixel(const Body& body) {
    static_for<kWindowRows>([&](auto row) {
      static_for<kWindowCols>([&](auto col) { body(row, col); });
    });
  }

  // Channels `in_channels` to `in_channels + kRead` of a pixel of the window, zeros outside of A.
  template <int kRow, int kCol>
  static __device__ __forceinline__ void load_pixel(const Unit& unit, const T* a, int in_channels,
                                                    float (&pixel)[kRead]) {
    const int row = unit.row * P::row_step + kRow + P::row_origin;
    const int col = unit.col * P::col_step + kCol + P::col_origin;
    const bool inside = static_cast<unsigned>(row) < static_cast<unsigned>(P::a_rows) &&
                        static_cast<unsigned>(col) < static_cast<unsigned>(P::a_cols);
    const T* source = a + unit.image * P::a_image + unit.channel / P::out_channels * P::a_group;
#pragma unroll
    for (int e = 0; e < kRead; ++e) pixel[e] = 0.0f;
    if (inside) {
      const auto vector = convir::load<kRead>(source + row * P::a_row_stride +
                                              col * P::a_col_stride + in_channels * P::a_channel);
#pragma unroll
      for (int e = 0; e < kRead; ++e) pixel[e] = widen(vector[e]);
    }
  }

  // All pixels of a unit's window.
  struct Window {
    float pixel[kWindowRows][kWindowCols][kSteps][kRead];

    __device__ __forceinline__ void load(const Unit& unit, const T* a) {
      for_each_pixel([&](auto row, auto col) {
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
          load_pixel<row.value, col.value>(unit, a, i * kRead, pixel[row.value][col.value][i]);
        }
      });
    }
  };

  static __device__ __forceinline__ void compute(const Unit& unit, const Window& window,
                                                 const float* weights, const Target<P>& out) {
    Accumulators accumulators = {};
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      for_each_pixel([&](auto row, auto col) {
        multiply_pixel<row.value, col.value>(accumulators, window.pixel[row.value][col.value][i],
                                             weights + i * kRead * kChannels + unit.channel);
      });
    }
    store(unit, accumulators, out);
  }

  // The same, a slice and a few channels of A at a time.
  static __device__ __forceinline__ void compute(const Unit& unit, const T* a,
                                                 const float* weights, const Target<P>& out) {
    Accumulators accumulators = {};
#pragma unroll 1
    for (int tap = 0; tap < P::slice_taps; ++tap) {
      const int slice = unit.slice * P::slice_step + P::slice_origin + tap * P::slice_tap_step;
      if (static_cast<unsigned>(slice) >= static_cast<unsigned>(P::a_slices)) continue;
      const T* pixels = a + slice * P::a_slice;
      const float* of_slice = weights + tap * kSliceWeights + unit.channel;
#pragma unroll 1
      for (int in_channels = 0; in_channels < P::in_channels; in_channels += kDepthwise ? 1 : kRead) {
        for_each_pixel([&](auto row, auto col) {
          float pixel[kRead];
          load_pixel<row.value, col.value>(unit, pixels, in_channels, pixel);
          multiply_pixel<row.value, col.value>(accumulators, pixel, of_slice + in_channels * kChannels);
        });
      }
    }
    store(unit, accumulators, out);
  }

  static __device__ __forceinline__ void store(const Unit& unit, const Accumulators& accumulators,
                                               const Target<P>& out) {
    const long long first = unit.image * P::c_image + unit.slice * P::c_slice +
                            unit.row * P::c_row_stride +
                            static_cast<long long>(unit.col) * P::c_col_stride +
                            unit.channel / P::out_channels * P::c_group +
                            unit.channel % P::out_channels * P::c_channel;
    static_for<P::phase_count>([&](auto phase_) {
      constexpr int p = decltype(phase_)::value;
#pragma unroll
      for (int i = 0; i < S::unroll_rows; ++i) {
#pragma unroll
        for (int j = 0; j < S::run; ++j) {
          if (unit.row + i >= P::phases[p].rows || unit.col + j >= P::phases[p].cols) continue;
          const long long element =
              first + P::phases[p].offset + i * P::c_row_stride + j * P::c_col_stride;
          store_results<kVector, kAtOnce>(out.c + element, [&](int v) {
            return result<P>(accumulators.of[p][i][j][v], out, element + v, unit.channel + v,
                             is_zero_fill<P>(p));
          });
        }
      }
    });
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, const Target<P>& out,
                                             long long images) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* weights = reinterpret_cast<float*>(shared);
    const Index stride = static_cast<Index>(gridDim.x) * S::threads;
    const Index work = static_cast<Index>(images * kImageWork);
    Index index = blockIdx.x * static_cast<Index>(S::threads) + threadIdx.x;
    if constexpr (kHoldsWindow) {
      // Pixels are under way while weights are: a short kernel waits for memory once.
      Window window;
      const bool has_work = index < work;
      const Unit first(has_work ? index : 0);
      window.load(first, a);
      stage_weights(b, weights);
      __syncthreads();
      if (has_work) compute(first, window, weights, out);
      for (index += stride; index < work; index += stride) {
        const Unit unit(index);
        window.load(unit, a);
        compute(unit, window, weights, out);
      }
    } else {
      stage_weights(b, weights);
      __syncthreads();
      for (; index < work; index += stride) compute(Unit(index), a, weights, out);
    }
  }
};

}  // namespace convir
