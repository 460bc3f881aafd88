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

// Four 8x8 matrices of 16-bit elements; lanes 8i … 8i+7 name the rows of matrix i.
__device__ __forceinline__ void load_matrices(unsigned (&fragment)[4], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(unsigned (&fragment)[4],
                                                         unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}
// One 8x8 matrix; lanes 0 … 7 name its rows.
__device__ __forceinline__ unsigned load_matrix(unsigned shared) {
  unsigned fragment;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(fragment)
               : "r"(shared)
               : "memory");
  return fragment;
}
__device__ __forceinline__ unsigned load_matrix_transposed(unsigned shared) {
  unsigned fragment;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(fragment)
               : "r"(shared)
               : "memory");
  return fragment;
}

// d[16][8] += a[16][16] * b[16][8], summed in f32.
template <typename T>
__device__ __forceinline__ void multiply_add(float (&d)[4], unsigned a0, unsigned a1, unsigned a2,
                                             unsigned a3, unsigned b0, unsigned b1);
template <>
__device__ __forceinline__ void multiply_add<__half>(float (&d)[4], unsigned a0, unsigned a1,
                                                     unsigned a2, unsigned a3, unsigned b0,
                                                     unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&d)[4], unsigned a0,
                                                            unsigned a1, unsigned a2, unsigned a3,
                                                            unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// d[16][8] += a[16][8] * b[8][8].
template <typename T>
__device__ __forceinline__ void multiply_add(float (&d)[4], unsigned a0, unsigned a1, unsigned b0);
template <>
__device__ __forceinline__ void multiply_add<__half>(float (&d)[4], unsigned a0, unsigned a1,
                                                     unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
}
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&d)[4], unsigned a0,
                                                            unsigned a1, unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

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
