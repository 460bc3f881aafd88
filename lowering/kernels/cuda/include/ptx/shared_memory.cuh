// Accesses to shared memory by its 32-bit addresses.
#pragma once

namespace convir {

// kWords words, 1, 2 or 4, that lie at a multiple of all their bytes, of what nobody writes before it
// is read: the compiler may move these loads past stores.
template <int kWords>
__device__ __forceinline__ void load_shared(unsigned* to, unsigned from) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to[0]) : "r"(from));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from));
  } else {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
  }
}
// Elements, words or four words, behind all stores before.
__device__ __forceinline__ void load_ordered(unsigned short& x, unsigned from) {
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(from) : "memory");
}
__device__ __forceinline__ void load_ordered(unsigned& x, unsigned from) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
}
__device__ __forceinline__ void load_ordered(uint2& x, unsigned from) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(from) : "memory");
}
__device__ __forceinline__ uint4 load_ordered(unsigned from) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}
__device__ __forceinline__ void load_ordered(uint4& x, unsigned from) { x = load_ordered(from); }

__device__ __forceinline__ void store_shared(unsigned to, const uint4& x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}
__device__ __forceinline__ void store_shared(unsigned to, const uint2& x) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(x.x), "r"(x.y) : "memory");
}
__device__ __forceinline__ void store_shared(unsigned to, const float2& x) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x.x), "f"(x.y) : "memory");
}

// sm_90: stores four 8x8 matrices of 16-bit elements, transposed or as they are; lanes 8i … 8i+7
// name the rows of matrix i in memory.
template <bool kTransposed = false>
__device__ __forceinline__ void store_matrices(unsigned to, const unsigned (&x)[4]) {
  if constexpr (kTransposed) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
  }
}

}  // namespace convir
