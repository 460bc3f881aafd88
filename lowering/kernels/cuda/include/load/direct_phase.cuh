// Phases of a direct convolution: output pixels that share their taps.
#pragma once

#include "arith/sizes.cuh"
#include "ptx/mma_sync.cuh"

namespace convir {

// Tap (i, j) reads A at row_tap[i], col_tap[j] of the window and B at
// row_weight[i] + col_weight[j]; `offset` is where C has output pixel 0.
template <int kRowTaps, int kColTaps>
struct DirectPhase {
  int rows, cols;
  long long offset;
  int row_taps, row_tap[kRowTaps];
  long long row_weight[kRowTaps];
  int col_taps, col_tap[kColTaps];
  long long col_weight[kColTaps];
};

// Whether `count` numbers lie evenly apart.
template <typename T, int kSize>
constexpr bool lie_evenly(const T (&numbers)[kSize], int count) {
  for (int i = 2; i < count; ++i) {
    if (numbers[i] - numbers[i - 1] != numbers[1] - numbers[0]) return false;
  }
  return true;
}

// Taps are numbered by phase, then by row, then by column.
template <typename P>
constexpr int tap_index(int phase, int row_tap, int col_tap) {
  int taps = 0;
  for (int i = 0; i < phase; ++i) taps += P::phases[i].row_taps * P::phases[i].col_taps;
  return phase < P::phase_count ? taps + row_tap * P::phases[phase].col_taps + col_tap : taps;
}
template <typename P>
constexpr int tap_count() {
  return tap_index<P>(P::phase_count, 0, 0);
}
template <typename P>
constexpr long long tap_weight(int phase, int row_tap, int col_tap) {
  return P::phases[phase].row_weight[row_tap] + P::phases[phase].col_weight[col_tap];
}
// The same of phase 0 for taps that are no constants: a choice among constants, as a table of them
// is memory that nothing has read before.
template <typename P>
__device__ __forceinline__ long long chosen_weight(int row_tap, int col_tap) {
  long long weight = tap_weight<P>(0, 0, 0);
  static_for<P::phases[0].row_taps>([&](auto i) {
    constexpr long long kFurther = P::phases[0].row_weight[i.value] - P::phases[0].row_weight[0];
    if (row_tap == i.value) weight += kFurther;
  });
  static_for<P::phases[0].col_taps>([&](auto j) {
    constexpr long long kFurther = P::phases[0].col_weight[j.value] - P::phases[0].col_weight[0];
    if (col_tap == j.value) weight += kFurther;
  });
  return weight;
}
// The tap of a phase at a row, or a column, of its window; -1 if it has none.
template <typename P>
constexpr int row_tap_at(int phase, int window_row) {
  for (int i = 0; i < P::phases[phase].row_taps; ++i) {
    if (P::phases[phase].row_tap[i] == window_row) return i;
  }
  return -1;
}
template <typename P>
constexpr int col_tap_at(int phase, int window_col) {
  for (int j = 0; j < P::phases[phase].col_taps; ++j) {
    if (P::phases[phase].col_tap[j] == window_col) return j;
  }
  return -1;
}

// body(phase, row tap, column tap) for every tap, all of them constants.
template <typename P, typename Body>
__device__ __forceinline__ void for_each_tap(const Body& body) {
  static_for<P::phase_count>([&](auto phase) {
    static_for<P::phases[decltype(phase)::value].row_taps>([&](auto i) {
      static_for<P::phases[decltype(phase)::value].col_taps>([&](auto j) { body(phase, i, j); });
    });
  });
}

// The weights of all taps of a channel, which begins at `source`; zeros if it is not there.
template <typename P>
struct TapWeights {
  typename P::Element of[larger(1, tap_count<P>())];

  __device__ __forceinline__ explicit TapWeights(const typename P::Element* source,
                                                 bool is_inside = true) {
    for_each_tap<P>([&](auto p, auto i, auto j) {
      of[tap_index<P>(p.value, i.value, j.value)] =
          is_inside ? source[tap_weight<P>(p.value, i.value, j.value)]
                    : typename P::Element(0.0f);
    });
  }
};

// Copies a piece of every tap's weights, kTapBytes apart, from a channel that begins at `source`:
// `copy` is that of `load/pieces.cuh`.
template <typename P, int kTapBytes, typename Copy>
__device__ __forceinline__ void copy_taps(Copy copy, unsigned to,
                                          const typename P::Element* source, bool is_inside) {
  for_each_tap<P>([&](auto p, auto i, auto j) {
    constexpr int kTap = tap_index<P>(p.value, i.value, j.value);
    copy(to + kTap * kTapBytes, source + tap_weight<P>(p.value, i.value, j.value), is_inside);
  });
}

// Whether a phase has no taps and stores zero-filled outputs.
template <typename P>
constexpr bool is_zero_fill(int phase) {
  return P::phases[phase].row_taps * P::phases[phase].col_taps == 0;
}
// Whether what is stored in zero-filled outputs is not what is stored for accumulators of zero.
template <typename P>
constexpr bool has_zero_fills() {
  for (int i = 0; i < P::phase_count; ++i) {
    if (is_zero_fill<P>(i)) return !P::zero_accumulators;
  }
  return false;
}

}  // namespace convir
