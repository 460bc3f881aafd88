// Products of tiles in shared memory by warps (mma.sync of sm_80): of 16-bit elements, or of f32 as
// TF32.
#pragma once

#include "load/tiles.cuh"
#include "ptx/mma_sync.cuh"

namespace convir {

// Rounded to TF32, to nearest, halves away from zero.
__device__ __forceinline__ void round_to_tf32(unsigned& x) {
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(x) : "f"(__uint_as_float(x)));
}
template <class E, int kRegisters>
__device__ __forceinline__ void round_operands(unsigned (&x)[kRegisters]) {
  if constexpr (sizeof(E) == 4) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) round_to_tf32(x[i]);
  }
}
// A lane's 32-bit element of an 8 x 4 matrix, whose lines run across the reduction.
template <class T>
__device__ __forceinline__ unsigned load_element(const char* tile, int outer, int reduced) {
  const int lane = threadIdx.x % 32;
  return *reinterpret_cast<const unsigned*>(tile + T::byte(reduced + lane % 4, outer + lane / 4));
}

// Elements of the reduction that an instruction multiplies: 32 bytes of a line.
template <class E>
constexpr int kReducedAtOnce = 32 / sizeof(E);

// 16 x 16 elements at (outer, reduced) as the first operand of m16n8k16, or 16 x 8 of f32, as they
// are, as that of m16n8k8.
template <class T>
__device__ __forceinline__ void read_rows(unsigned (&to)[4], const char* tile, int outer,
                                          int reduced) {
  const int lane = threadIdx.x % 32;
  if constexpr (T::kLineIsReduced) {
    load_matrices(to, tile + T::byte(outer + lane % 16, reduced + lane / 16 * T::kPerChunk));
  } else if constexpr (sizeof(typename T::Element) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[i] = load_element<T>(tile, outer + i % 2 * 8, reduced + i / 2 * 4);
    }
  } else {
    const int line = reduced + lane % 8 + lane / 16 * 8;
    load_transposed(to, tile + T::byte(line, outer + lane / 8 % 2 * 8));
  }
}
// The same, f32 rounded to TF32.
template <class T>
__device__ __forceinline__ void load_rows(unsigned (&to)[4], const char* tile, int outer,
                                          int reduced) {
  read_rows<T>(to, tile, outer, reduced);
  round_operands<typename T::Element>(to);
}

// 16 reduced x 8 outer elements as the second operand of m16n8k16, or 8 x 8 of f32 as that of
// m16n8k8; two of them if `to` has room.
template <class T, int kRegisters>
__device__ __forceinline__ void read_columns(unsigned (&to)[kRegisters], const char* tile,
                                             int outer, int reduced) {
  const int lane = threadIdx.x % (8 * kRegisters);
  if constexpr (T::kLineIsReduced) {
    const int line = outer + lane % 8 + lane / 16 * 8;
    load_matrices(to, tile + T::byte(line, reduced + lane / 8 % 2 * T::kPerChunk));
  } else if constexpr (sizeof(typename T::Element) == 4) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) {
      to[i] = load_element<T>(tile, outer + i / 2 * 8, reduced + i % 2 * 4);
    }
  } else {
    load_transposed(to, tile + T::byte(reduced + lane % 16, outer + lane / 16 * 8));
  }
}
template <class T, int kRegisters>
__device__ __forceinline__ void load_columns(unsigned (&to)[kRegisters], const char* tile,
                                             int outer, int reduced) {
  read_columns<T>(to, tile, outer, reduced);
  round_operands<typename T::Element>(to);
}

// A warp's accumulators += a[row …] * b[column …] over kBlockK of the reduction, as the tiles lie.
template <class A, class B, int kBlockK, int kRows, int kCols>
__device__ __forceinline__ void multiply_matrices(float (&accumulators)[kRows][kCols][4], const char* a,
                                                  const char* b, int row, int column) {
  using E = typename A::Element;
  constexpr int kPair = kCols % 2 == 0 ? 2 : 1;
#pragma unroll
  for (int k = 0; k < kBlockK; k += kReducedAtOnce<E>) {
    unsigned of_a[kRows][4];
    unsigned of_b[kCols / kPair][2 * kPair];
#pragma unroll
    for (int i = 0; i < kRows; ++i) load_rows<A>(of_a[i], a, row + i * 16, k);
#pragma unroll
    for (int j = 0; j < kCols / kPair; ++j) {
      load_columns<B>(of_b[j], b, column + j * 8 * kPair, k);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        multiply_add<E>(accumulators[i][j], of_a[i], of_b[j / kPair][j % kPair * 2],
                        of_b[j / kPair][j % kPair * 2 + 1]);
      }
    }
  }
}

}  // namespace convir
