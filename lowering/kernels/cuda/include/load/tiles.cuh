// Tiles of operands in shared memory: lines of elements, swizzled so that eight neighbouring lines
// lie in different banks, filled by asynchronous copies, read by ldmatrix or by quads.
#pragma once

#include "arith/scalars.cuh"
#include "ptx/shared_address.cuh"

namespace convir {

// Copies kBytes to shared memory without registers in between, or zeros if `inside` is false.
template <int kBytes>
__device__ __forceinline__ void copy_async(unsigned to, const void* from, bool inside) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async copies 4, 8 or 16 bytes");
  const int size = inside ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to),
                 "l"(from), "r"(size));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(to),
                 "l"(from), "n"(kBytes), "r"(size));
  }
}
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
  copy_async<kBytes>(shared_address(to), from, inside);
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;\n" ::); }
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

// kElements neighbours, moved at once.
template <class E, int kElements>
struct alignas(sizeof(E) * kElements) Vector {
  E of[kElements];
};

// kOuter x kReduced elements, `line` along the reduction or across it, by kThreads threads which
// each move kVector neighbours at a time.
template <class E, int kOuter, int kReduced, bool kAlongReduction, int kVector, int kThreads>
struct Tile {
  using Element = E;
  static constexpr bool kLineIsReduced = kAlongReduction;
  static constexpr int kWidth = kVector;
  static constexpr int kLine = kAlongReduction ? kReduced : kOuter;
  static constexpr int kLines = kAlongReduction ? kOuter : kReduced;
  static constexpr int kVectors = kLine / kVector;
  static constexpr int kLinesAtOnce = kThreads / kVectors;
  static constexpr int kPasses = (kLines + kLinesAtOnce - 1) / kLinesAtOnce;
  static constexpr bool kIsAsync = kVector * sizeof(E) >= 4;
  static constexpr int kBytes = kLines * kLine * sizeof(E);
  static constexpr int kPerChunk = 16 / sizeof(E);
  static constexpr int kChunks = kLine / kPerChunk;
  static_assert(kLine % kVector == 0 && kLine % kPerChunk == 0, "lines are whole chunks");
  static_assert(kThreads % kVectors == 0, "a thread's vectors lie at one place of their lines");
  static constexpr int kSwizzled = kChunks < 8 ? kChunks : 8;
  // Lanes read four lines of 32-bit elements at once where lines run across the reduction.
  static constexpr int kTurn = sizeof(E) == 4 && !kAlongReduction ? 2 : 1;

  // The byte of an element; neighbours up to the end of its 16 bytes follow it.
  static __device__ __forceinline__ int byte(int line, int at) {
    const int chunk = (at / kPerChunk) ^ ((line * kTurn / (8 / kSwizzled)) % kSwizzled);
    return (line * kChunks + chunk) * 16 + (at % kPerChunk) * static_cast<int>(sizeof(E));
  }
};

__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}
__device__ __forceinline__ void load_transposed(unsigned (&to)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row));
}
__device__ __forceinline__ void load_transposed(unsigned (&to)[4], const void* row) {
  load_transposed(to, shared_address(row));
}
__device__ __forceinline__ void load_matrices(unsigned (&to)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(shared_address(row)));
}
__device__ __forceinline__ void load_transposed(unsigned (&to)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(shared_address(row)));
}

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

// 16 x 16 elements at (outer, reduced) as the first operand of m16n8k16, or 16 x 8 of f32, rounded to
// TF32, as that of m16n8k8.
template <class T>
__device__ __forceinline__ void load_rows(unsigned (&to)[4], const char* tile, int outer,
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
  round_operands<typename T::Element>(to);
}

// 16 reduced x 8 outer elements as the second operand of m16n8k16, or 8 x 8 of f32 as that of
// m16n8k8; two of them if `to` has room.
template <class T, int kRegisters>
__device__ __forceinline__ void load_columns(unsigned (&to)[kRegisters], const char* tile,
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
  round_operands<typename T::Element>(to);
}

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
    for (int i = 0; i < kAtOnce; ++i) to[first + i] = widen(loaded.of[i]);
  }
}

// D = A * B + D on 16 x 8 x 16 elements, or 16 x 8 x 8 of TF32, summed in f32.
template <class E>
__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1);
#define CONVIR_MULTIPLY_ADD(E, kShape, kTypes)                                                   \
  template <>                                                                                    \
  __device__ __forceinline__ void multiply_add<E>(float (&d)[4], const unsigned (&a)[4],         \
                                                  unsigned b0, unsigned b1) {                    \
    asm volatile("mma.sync.aligned." kShape ".row.col.f32." kTypes ".f32 {%0, %1, %2, %3}, "     \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                               \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                \
  }
CONVIR_MULTIPLY_ADD(__half, "m16n8k16", "f16.f16")
CONVIR_MULTIPLY_ADD(__nv_bfloat16, "m16n8k16", "bf16.bf16")
CONVIR_MULTIPLY_ADD(float, "m16n8k8", "tf32.tf32")
#undef CONVIR_MULTIPLY_ADD

}  // namespace convir
