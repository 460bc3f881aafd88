// Backward weight of depthwise convolutions without tensor cores, channels last: f32 as IEEE has it.
//
// A thread has `vector` adjacent channels and holds the sums of all of their taps. It walks over
// units of unroll_rows x run output pixels: gradients and the window of A that they share are loaded
// once, straight from memory, and every product is added to the sum of its tap. Threads of a block
// with the same channels are a team each; their sums are added in shared memory, those of blocks by
// the last one.
#pragma once

#include "arith/scalars.cuh"
#include "epilogue/direct_store.cuh"
#include "load/direct_phase.cuh"
#include "load/vectors.cuh"
#include "reduce/last_block.cuh"

namespace convir {

constexpr int kMostWindowBytes = 256;  // of a window that a thread loads at once

template <typename P, typename S>
struct SimtWgrad {
  using T = typename P::Element;
  static constexpr int kVector = S::vector;
  static constexpr int kLanes = S::channels / kVector;  // threads of a team
  static constexpr int kTeams = S::threads / kLanes;
  static constexpr int kChannelBlocks = divide_up(P::groups, S::channels);
  static constexpr int kRowTaps = P::phases[0].row_taps, kColTaps = P::phases[0].col_taps;
  static constexpr int kWindowRows = (S::unroll_rows - 1) * P::row_step + P::window_rows;
  static constexpr int kWindowCols = (S::run - 1) * P::col_step + P::window_cols;
  static constexpr int kWindowBytes =
      kWindowRows * kWindowCols * kVector * static_cast<int>(sizeof(T));
  static constexpr int kRowsAtOnce = kWindowBytes <= kMostWindowBytes ? kWindowRows : 1;
  static constexpr int kRowTiles = divide_up(P::rows, S::unroll_rows);
  static constexpr int kColTiles = divide_up(P::cols, S::run);
  static constexpr int kUnits = P::images * kRowTiles * kColTiles;
  static constexpr int kSums = kRowTaps * kColTaps * S::channels;
  static constexpr int kAllSums = divide_up(kSums, 4) * 4;
  static_assert(S::channels % kVector == 0 && S::threads % kLanes == 0);
  static_assert(P::groups % kVector == 0 && kAllSums == S::sums);

  using Pixel = Vector<T, kVector>;
  using Sums = float[kRowTaps][kColTaps][kVector];

  // The tap with which output pixel `out` of a unit reads pixel `at` of its window; -1 if none.
  static constexpr int row_tap(int at, int out) { return row_tap_at<P>(0, at - out * P::row_step); }
  static constexpr int col_tap(int at, int out) { return col_tap_at<P>(0, at - out * P::col_step); }
  static constexpr bool reads_row(int at) {
    for (int out = 0; out < S::unroll_rows; ++out) {
      if (row_tap(at, out) >= 0) return true;
    }
    return false;
  }
  static constexpr bool reads_col(int at) {
    for (int out = 0; out < S::run; ++out) {
      if (col_tap(at, out) >= 0) return true;
    }
    return false;
  }

  static __device__ __forceinline__ Pixel pixel(const T* __restrict__ from, bool is_inside) {
    Pixel zeros = {};
    return is_inside ? load<kVector>(from) : zeros;
  }

  static __device__ __forceinline__ void add(Sums& sums, const T* __restrict__ a,
                                             const T* __restrict__ c, int unit, int channel) {
    const int col = unit % kColTiles * S::run;
    unit /= kColTiles;
    const int row = unit % kRowTiles * S::unroll_rows;
    const int image = unit / kRowTiles;
    Pixel gradients[S::unroll_rows][S::run];
    const T* const of_c = c + image * P::c_image + row * P::c_row_stride +
                          static_cast<long long>(col) * P::c_col_stride + channel;
#pragma unroll
    for (int i = 0; i < S::unroll_rows; ++i) {
#pragma unroll
      for (int j = 0; j < S::run; ++j) {
        gradients[i][j] = pixel(of_c + i * P::c_row_stride + j * P::c_col_stride,
                                row + i < P::rows && col + j < P::cols);
      }
    }
    const int first_row = row * P::row_step + P::row_origin;
    const int first_col = col * P::col_step + P::col_origin;
    const T* const of_a = a + image * P::a_image + first_row * P::a_row_stride +
                          static_cast<long long>(first_col) * P::a_col_stride + channel;
    static_for<divide_up(kWindowRows, kRowsAtOnce)>([&](auto part) {
      constexpr int kFirst = decltype(part)::value * kRowsAtOnce;
      Pixel window[kRowsAtOnce][kWindowCols];
      static_for<kRowsAtOnce>([&](auto r) {
        static_for<kWindowCols>([&](auto s) {
          constexpr int kRow = kFirst + decltype(r)::value, kCol = decltype(s)::value;
          if constexpr (reads_row(kRow) && reads_col(kCol)) {
            const bool is_inside =
                static_cast<unsigned>(first_row + kRow) < static_cast<unsigned>(P::a_rows) &&
                static_cast<unsigned>(first_col + kCol) < static_cast<unsigned>(P::a_cols);
            window[r.value][s.value] =
                pixel(of_a + kRow * P::a_row_stride + kCol * P::a_col_stride, is_inside);
          }
        });
      });
      static_for<kRowsAtOnce>([&](auto r) {
        static_for<kWindowCols>([&](auto s) {
          constexpr int kRow = kFirst + decltype(r)::value, kCol = decltype(s)::value;
          static_for<S::unroll_rows>([&](auto i) {
            static_for<S::run>([&](auto j) {
              constexpr int kRowTap = row_tap(kRow, decltype(i)::value);
              constexpr int kColTap = col_tap(kCol, decltype(j)::value);
              if constexpr (kRowTap >= 0 && kColTap >= 0) {
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                  float& sum = sums[kRowTap][kColTap][v];
                  sum = fmaf(widen(window[r.value][s.value][v]),
                             widen(gradients[i.value][j.value][v]), sum);
                }
              }
            });
          });
        });
      });
    });
  }

  static __device__ __forceinline__ void run(const T* a, const T* c, T* b, float* parts,
                                             unsigned* counters) {
    extern __shared__ __align__(16) unsigned char memory[];
    float* const totals = reinterpret_cast<float*>(memory);
    float* const of_teams = reinterpret_cast<float*>(memory + S::teams_at);
    const int block = static_cast<int>(blockIdx.x % kChannelBlocks);
    const int split = static_cast<int>(blockIdx.x / kChannelBlocks);
    const int lane = static_cast<int>(threadIdx.x % kLanes);
    const int team = static_cast<int>(threadIdx.x / kLanes);
    const int channel = block * S::channels + lane * kVector;
    Sums sums = {};
    if (channel < P::groups) {
#pragma unroll 1
      for (int unit = split * kTeams + team; unit < kUnits; unit += S::splits * kTeams) {
        add(sums, a, c, unit, channel);
      }
    }
    // Those of all teams, a row of taps at a time.
    static_for<kRowTaps>([&](auto row) {
      constexpr int kRow = decltype(row)::value;
      constexpr int kOfTeam = kColTaps * S::channels;
#pragma unroll
      for (int j = 0; j < kColTaps; ++j) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          of_teams[team * kOfTeam + j * S::channels + lane * kVector + v] = sums[kRow][j][v];
        }
      }
      __syncthreads();
      for (int i = threadIdx.x; i < kOfTeam; i += S::threads) {
        float total = 0.0f;
#pragma unroll 8
        for (int t = 0; t < kTeams; ++t) total += of_teams[t * kOfTeam + i];
        totals[kRow * kOfTeam + i] = total;
      }
      __syncthreads();
    });
    const auto store = [&](int i, float total) {
      const int tap = i / S::channels, group = block * S::channels + i % S::channels;
      if (i >= kSums || group >= P::groups) return;
      b[group * static_cast<long long>(P::b_group) +
        chosen_weight<P>(tap / kColTaps, tap % kColTaps)] = result<P>(total);
    };
    if constexpr (S::splits == 1) {
      for (int i = threadIdx.x; i < kSums; i += S::threads) store(i, totals[i]);
    } else {
      add_up_in_last_block<S::threads, S::splits, kAllSums>(
          parts + static_cast<long long>(block) * S::splits * kAllSums,
          counters + block * S::counter_words, totals, split, reinterpret_cast<float4*>(of_teams),
          store);
    }
  }
};

}  // namespace convir
