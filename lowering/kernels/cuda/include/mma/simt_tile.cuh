// Products of tiles in shared memory by the FMA units, in the type of the accumulators.
#pragma once

#include "load/tiles.cuh"

namespace convir {

// Four neighbours of a line, widened.
template <class T, class Wide>
__device__ __forceinline__ void load_quad(Wide (&to)[4], const char* tile, int line, int at) {
  using E = typename T::Element;
  constexpr int kAtOnce = T::kPerChunk < 4 ? T::kPerChunk : 4;
#pragma unroll
  for (int first = 0; first < 4; first += kAtOnce) {
    const auto loaded =
        *reinterpret_cast<const Vector<E, kAtOnce>*>(tile + T::byte(line, at + first));
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) to[first + i] = widen(loaded[i]);
  }
}

// Operands of four steps of the reduction from `k` on; place(i) is where a thread's i-th lies.
template <class T, class Sum, int kCount, class Place>
__device__ __forceinline__ void load_operand(Sum (&to)[4][kCount], const char* tile, int k,
                                                    Place place) {
  if constexpr (T::kLineIsReduced) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Sum quad[4];
      load_quad<T>(quad, tile, place(i), k);
#pragma unroll
      for (int q = 0; q < 4; ++q) to[q][i] = quad[q];
    }
  } else {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        Sum quad[4];
        load_quad<T>(quad, tile, k + q, place(i));
#pragma unroll
        for (int e = 0; e < 4; ++e) to[q][i + e] = quad[e];
      }
    }
  }
}

// A thread's accumulators += a[row_of(i)] * b[column_of(j)] over kBlockK of the reduction.
template <class A, class B, int kBlockK, class Sum, int kRows, int kCols, class RowOf, class ColumnOf>
__device__ __forceinline__ void multiply_quads(Sum (&accumulators)[kRows][kCols][1], const char* a,
                                               const char* b, RowOf row_of, ColumnOf column_of) {
#pragma unroll 2
  for (int k = 0; k < kBlockK; k += 4) {
    Sum of_a[4][kRows], of_b[4][kCols];
    load_operand<A>(of_a, a, k, row_of);
    load_operand<B>(of_b, b, k, column_of);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          accumulators[i][j][0] = fma(of_a[q][i], of_b[q][j], accumulators[i][j][0]);
        }
      }
    }
  }
}

}  // namespace convir
