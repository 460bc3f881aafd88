// Warp-wide matrix instructions of sm_80, and the copies that feed them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/cp_async.cuh"
#include "ptx/mbarrier.cuh"

namespace convir {

template <int kValue>
struct Int {
  static constexpr int value = kValue;
};

// body(Int<0>{}), …, body(Int<kCount - 1>{}): a loop whose index is a constant.
template <int kCount, int kIndex = 0, typename Body>
__device__ __forceinline__ void static_for(const Body& body) {
  if constexpr (kIndex < kCount) {
    body(Int<kIndex>{});
    static_for<kCount, kIndex + 1>(body);
  }
}

// kRegisters 8x8 matrices of 16-bit elements, 1, 2 or 4; lanes 8i … 8i+7 name the rows of matrix i.
#define CONVIR_LDMATRIX(name, kCount, kTransposed, kTo, kFrom, ...)                                \
  __device__ __forceinline__ void name(unsigned (&to)[kCount], unsigned shared) {                  \
    asm volatile("ldmatrix.sync.aligned.m8n8.x" #kCount kTransposed ".shared.b16 {" kTo            \
                 "}, [%" #kFrom "];"                                                               \
                 : __VA_ARGS__                                                                     \
                 : "r"(shared)                                                                     \
                 : "memory");                                                                      \
  }                                                                                                \
  __device__ __forceinline__ void name(unsigned (&to)[kCount], const void* shared) {               \
    name(to, shared_address(shared));                                                              \
  }
#define CONVIR_LDMATRICES(name, kTransposed)                                                       \
  CONVIR_LDMATRIX(name, 1, kTransposed, "%0", 1, "=r"(to[0]))                                      \
  CONVIR_LDMATRIX(name, 2, kTransposed, "%0, %1", 2, "=r"(to[0]), "=r"(to[1]))                     \
  CONVIR_LDMATRIX(name, 4, kTransposed, "%0, %1, %2, %3", 4, "=r"(to[0]), "=r"(to[1]),             \
                  "=r"(to[2]), "=r"(to[3]))
CONVIR_LDMATRICES(load_matrices, "")
CONVIR_LDMATRICES(load_transposed, ".trans")
#undef CONVIR_LDMATRICES
#undef CONVIR_LDMATRIX

// Rows and columns of a warp's 8x8 matrix of 16-bit elements exchanged: lane l has elements l % 4 * 2
// and the next of row l / 4.
__device__ __forceinline__ unsigned transposed(unsigned x) {
  unsigned y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// d[16][8] += a[16][k] * b[k][8], summed in f32: k is 16, or 8 where a is two registers, or that of
// TF32.
template <typename E>
__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1);
template <typename E>
__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[2], unsigned b0);
#define CONVIR_MULTIPLY_ADD(E, kShape, kTypes)                                                     \
  template <>                                                                                      \
  __device__ __forceinline__ void multiply_add<E>(float (&d)[4], const unsigned (&a)[4],           \
                                                  unsigned b0, unsigned b1) {                      \
    asm("mma.sync.aligned." kShape ".row.col.f32." kTypes ".f32 {%0, %1, %2, %3}, "                \
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                            \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                           \
  }
#define CONVIR_MULTIPLY_ADD_8(E, kTypes)                                                           \
  template <>                                                                                      \
  __device__ __forceinline__ void multiply_add<E>(float (&d)[4], const unsigned (&a)[2],           \
                                                  unsigned b0) {                                   \
    asm("mma.sync.aligned.m16n8k8.row.col.f32." kTypes ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "   \
        "{%0, %1, %2, %3};"                                                                        \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                           \
        : "r"(a[0]), "r"(a[1]), "r"(b0));                                                          \
  }
CONVIR_MULTIPLY_ADD(__half, "m16n8k16", "f16.f16")
CONVIR_MULTIPLY_ADD(__nv_bfloat16, "m16n8k16", "bf16.bf16")
CONVIR_MULTIPLY_ADD(float, "m16n8k8", "tf32.tf32")
CONVIR_MULTIPLY_ADD_8(__half, "f16.f16")
CONVIR_MULTIPLY_ADD_8(__nv_bfloat16, "bf16.bf16")
#undef CONVIR_MULTIPLY_ADD_8
#undef CONVIR_MULTIPLY_ADD

// Two results in one word, each rounded to nearest even; `low` has the lower address.
template <typename T>
__device__ __forceinline__ unsigned pack(float low, float high);
template <>
__device__ __forceinline__ unsigned pack<__half>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}
template <>
__device__ __forceinline__ unsigned pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}

// An 8x8 matrix of 16-bit elements, two neighbours of a row in a lane, with rows and columns
// exchanged.
__device__ __forceinline__ unsigned transposed_matrix(unsigned word) {
  unsigned result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
  return result;
}

// Lane q of every four gets word q of each of them, in the order of the lanes.
__device__ __forceinline__ void transpose_quads(unsigned (&word)[4]) {
  const bool odd = threadIdx.x & 1;
  const bool upper = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const unsigned other = __shfl_xor_sync(~0u, odd ? word[i] : word[i + 1], 1);
    if (odd) word[i] = other;
    else word[i + 1] = other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned other = __shfl_xor_sync(~0u, upper ? word[i] : word[i + 2], 2);
    if (upper) word[i] = other;
    else word[i + 2] = other;
  }
}

}  // namespace convir
