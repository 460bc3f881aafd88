// Warpgroup matrix multiply-accumulate with A in registers and a narrow B in shared memory:
// D[64, n] += A[64, 16] * B[16, n]; PTX ISA, "wgmma".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace convir::hopper {

// B, with n innermost and no swizzle: planes of 8 n, `plane_bytes` apart; in a plane, the 8 n of
// one k are 16 bytes and k follow each other. So a tile may begin at any k.
__device__ __forceinline__ unsigned long long planes_descriptor(unsigned address,
                                                                unsigned plane_bytes) {
  constexpr unsigned long long kEightK = 8 * 16 / 16;
  return static_cast<unsigned long long>(plane_bytes / 16) << 32 | kEightK << 16 |
         (address & 0x3ffff) >> 4;
}

// A thread's `a` is that of m16n8k16 for its warp's 16 rows, and so is each d[j] for 8 columns.
template <class Element, int kN8>
struct WgmmaPlanes;

#define CONVIR_D(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define CONVIR_D1 CONVIR_D(0)
#define CONVIR_D2 CONVIR_D1, CONVIR_D(1)
#define CONVIR_D3 CONVIR_D2, CONVIR_D(2)
#define CONVIR_D4 CONVIR_D3, CONVIR_D(3)
#define CONVIR_D5 CONVIR_D4, CONVIR_D(4)
#define CONVIR_D6 CONVIR_D5, CONVIR_D(5)
#define CONVIR_R1 "%0,%1,%2,%3"
#define CONVIR_R2 CONVIR_R1 ",%4,%5,%6,%7"
#define CONVIR_R3 CONVIR_R2 ",%8,%9,%10,%11"
#define CONVIR_R4 CONVIR_R3 ",%12,%13,%14,%15"
#define CONVIR_R5 CONVIR_R4 ",%16,%17,%18,%19"
#define CONVIR_R6 CONVIR_R5 ",%20,%21,%22,%23"

#define CONVIR_WGMMA(ELEMENT, TYPE, n8, n, registers, a0, a1, a2, a3, b, ...)                      \
  template <>                                                                                      \
  struct WgmmaPlanes<ELEMENT, n8> {                                                             \
    static __device__ __forceinline__ void run(float (&d)[n8][4], const unsigned (&a)[4],          \
                                               unsigned long long descriptor) {                    \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE " {" registers \
                   "}, {%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #b ", 1, 1, 1, 1;\n"              \
                   : __VA_ARGS__                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor));                 \
    }                                                                                              \
  };
#define CONVIR_WGMMAS(ELEMENT, TYPE)                                                \
  CONVIR_WGMMA(ELEMENT, TYPE, 1, 8, CONVIR_R1, 4, 5, 6, 7, 8, CONVIR_D1)            \
  CONVIR_WGMMA(ELEMENT, TYPE, 2, 16, CONVIR_R2, 8, 9, 10, 11, 12, CONVIR_D2)        \
  CONVIR_WGMMA(ELEMENT, TYPE, 3, 24, CONVIR_R3, 12, 13, 14, 15, 16, CONVIR_D3)      \
  CONVIR_WGMMA(ELEMENT, TYPE, 4, 32, CONVIR_R4, 16, 17, 18, 19, 20, CONVIR_D4)      \
  CONVIR_WGMMA(ELEMENT, TYPE, 5, 40, CONVIR_R5, 20, 21, 22, 23, 24, CONVIR_D5)      \
  CONVIR_WGMMA(ELEMENT, TYPE, 6, 48, CONVIR_R6, 24, 25, 26, 27, 28, CONVIR_D6)

CONVIR_WGMMAS(__half, "f16")
CONVIR_WGMMAS(__nv_bfloat16, "bf16")

#undef CONVIR_WGMMAS
#undef CONVIR_WGMMA
#undef CONVIR_R6
#undef CONVIR_R5
#undef CONVIR_R4
#undef CONVIR_R3
#undef CONVIR_R2
#undef CONVIR_R1
#undef CONVIR_D6
#undef CONVIR_D5
#undef CONVIR_D4
#undef CONVIR_D3
#undef CONVIR_D2
#undef CONVIR_D1
#undef CONVIR_D

}  // namespace convir::hopper
