// Direct convolution without tensor cores: f32 as IEEE has it, and depthwise in every type.
//
// A thread computes `vector` neighbouring channels of `unroll_rows` x `run` output positions, all
// phases of them, and loads every pixel that they share once. Neighbouring threads have neighbouring
// channels, or, where images are planes (`planar`), neighbouring columns of one channel. Weights lie
// in shared memory as f32, in the order that they are used.
#pragma once

#include "direct_phase.cuh"
#include "scalars.cuh"
#include "vectors.cuh"

namespace convir {

template <typename P, typename S>
struct ScalarDirect {
  using T = typename P::Element;
  static constexpr bool kDepthwise = P::depth == 1 && P::columns == 1;
  static constexpr int kVector = S::vector;                     // channels of C of a thread
  static constexpr int kRead = kDepthwise ? kVector : S::read;  // channels of a load of A
  static constexpr int kChannels = P::groups * P::columns;
  static constexpr int kVectors = kChannels / kVector;
  static constexpr int kRowTiles = divide_up(P::rows, S::unroll_rows);
  static constexpr int kColTiles = divide_up(P::cols, S::run);
  static constexpr long long kWork =
      static_cast<long long>(P::images) * kRowTiles * kColTiles * kVectors;
  static constexpr int kWindowRows = (S::unroll_rows - 1) * P::row_step + P::window_rows;
  static constexpr int kWindowCols = (S::run - 1) * P::col_step + P::window_cols;
  static constexpr int kTaps = tap_count<P>();
  static constexpr int kTapWeights = P::depth * kChannels;
  static constexpr int kSharedBytes = larger(1, kTaps) * kTapWeights * 4;
  static constexpr int kWeightVector = kVector < 4 ? kVector : 4;

  static_assert(kChannels % kVector == 0 && (kDepthwise || P::columns % kVector == 0));
  static_assert(kDepthwise || P::depth % kRead == 0);
  static_assert(kSharedBytes == S::shared_bytes);

  // Weights as [tap][depth][channel].
  static __device__ __forceinline__ void stage_weights(const T* __restrict__ b, float* shared) {
    for (int e = threadIdx.x; e < kTapWeights; e += S::threads) {
      const int channel = e % kChannels;
      const T* source = b + channel / P::columns * P::b_group + e / kChannels * P::b_depth +
                        channel % P::columns * P::b_column;
      T value[larger(1, kTaps)];
      for_each_tap<P>([&](auto p, auto i, auto j) {
        value[tap_index<P>(p.value, i.value, j.value)] =
            source[tap_weight<P>(p.value, i.value, j.value)];
      });
      static_for<kTaps>([&](auto tap) {
        shared[tap.value * kTapWeights + e] = widen(value[tap.value]);
      });
    }
  }

  struct Sums {
    float of[P::phase_count][S::unroll_rows][S::run][kVector];
  };

  // Adds the products of one pixel of the window to the outputs that read it.
  template <int kRow, int kCol>
  static __device__ __forceinline__ void multiply_pixel(Sums& sums, const float (&pixel)[kRead],
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
              float& sum = sums.of[p][row][col][v + e];
              sum = fmaf(pixel[kDepthwise ? v + e : d], weight[e], sum);
            }
          }
        }
      }
    });
  }

  // One unit of work: all outputs of `vector` channels at unroll_rows x run positions.
  static __device__ __forceinline__ void unit(long long index, const T* a, const float* weights,
                                              const Target<P>& out) {
    // Threads that are neighbours have neighbours in memory: channels, or columns of a plane.
    long long tile = P::planar ? index : index / kVectors;
    const int col = static_cast<int>(tile % kColTiles) * S::run;
    tile /= kColTiles;
    const int row = static_cast<int>(tile % kRowTiles) * S::unroll_rows;
    tile /= kRowTiles;
    const int vector_number = static_cast<int>((P::planar ? tile : index) % kVectors);
    const int channel = vector_number * kVector;
    const long long image = P::planar ? tile / kVectors : tile;
    const int group = channel / P::columns;
    const T* source = a + image * P::a_image + group * P::a_group;
    Sums sums = {};
#pragma unroll 1
    for (int depth = 0; depth < P::depth; depth += kDepthwise ? 1 : kRead) {
      static_for<kWindowRows>([&](auto row_) {
        static_for<kWindowCols>([&](auto col_) {
          constexpr int window_row = decltype(row_)::value, window_col = decltype(col_)::value;
          const int a_row = row * P::row_step + window_row + P::row_origin;
          const int a_col = col * P::col_step + window_col + P::col_origin;
          const bool inside = static_cast<unsigned>(a_row) < static_cast<unsigned>(P::a_rows) &&
                              static_cast<unsigned>(a_col) < static_cast<unsigned>(P::a_cols);
          float pixel[kRead] = {};
          if (inside) {
            const auto vector = *reinterpret_cast<const Vector<T, kRead>*>(
                source + a_row * P::a_row_stride + a_col * P::a_col_stride +
                depth * P::a_channel);
#pragma unroll
            for (int e = 0; e < kRead; ++e) pixel[e] = widen(vector[e]);
          }
          multiply_pixel<window_row, window_col>(sums, pixel,
                                                 weights + depth * kChannels + channel);
        });
      });
    }
    const long long first = image * P::c_image + row * P::c_row_stride +
                            static_cast<long long>(col) * P::c_col_stride +
                            group * P::c_group + channel % P::columns * P::c_channel;
    static_for<P::phase_count>([&](auto phase_) {
      constexpr int p = decltype(phase_)::value;
#pragma unroll
      for (int i = 0; i < S::unroll_rows; ++i) {
#pragma unroll
        for (int j = 0; j < S::run; ++j) {
          if (row + i >= P::phases[p].rows || col + j >= P::phases[p].cols) continue;
          const long long element =
              first + P::phases[p].offset + i * P::c_row_stride + j * P::c_col_stride;
          Vector<T, kVector> vector;
#pragma unroll
          for (int v = 0; v < kVector; ++v) {
            vector[v] =
                result<P>(sums.of[p][i][j][v], out, element + v, channel + v, is_hole<P>(p));
          }
          *reinterpret_cast<Vector<T, kVector>*>(out.c + element) = vector;
        }
      }
    });
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, const Target<P>& out) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* weights = reinterpret_cast<float*>(shared);
    stage_weights(b, weights);
    __syncthreads();
    const long long stride = static_cast<long long>(gridDim.x) * S::threads;
    for (long long index = blockIdx.x * static_cast<long long>(S::threads) + threadIdx.x;
         index < kWork; index += stride) {
      unit(index, a, weights, out);
    }
  }
};

}  // namespace convir
