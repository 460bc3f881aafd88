// Warpgroup matrix multiply-accumulate of any width, D[64, n] += A[64, 16] * B[16, n], with B in
// shared memory, n innermost, and A in shared memory, m innermost, or in registers; PTX ISA, "wgmma".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace convir::hopper {

// A: rows of 64 m, 128 bytes, in the 128-byte swizzle; eight rows of one k after the other are an
// atom of 1024 bytes, and the second eight k lie `along_k` bytes behind the first.
__device__ __forceinline__ unsigned long long atoms_descriptor(unsigned address, unsigned along_k) {
  return 1ull << 62 | static_cast<unsigned long long>(along_k / 16) << 32 |
         (address & 0x3ffff) >> 4;
}

// B: eight n of one k are 16 bytes, without swizzle, and eight k follow each other; the second eight
// k lie `along_k` bytes behind the first, the next eight n `along_n`. So it may begin at any k.
__device__ __forceinline__ unsigned long long planes_descriptor(unsigned address, unsigned along_k,
                                                                unsigned along_n) {
  return static_cast<unsigned long long>(along_n / 16) << 32 |
         static_cast<unsigned long long>(along_k / 16) << 16 | (address & 0x3ffff) >> 4;
}

// What either says of what lies so many bytes, a multiple of 16, further on.
__device__ __forceinline__ unsigned long long moved(unsigned long long descriptor, int bytes) {
  const unsigned low = static_cast<unsigned>(descriptor) + bytes / 16;
  return descriptor >> 32 << 32 | low;
}

// A thread's d[j] has, of columns 8 j and on, what m16n8k16 gives it of its warp's 16 rows; `a` is
// that instruction's first operand.
template <class Element, int kN8>
struct WgmmaPlanes;

#define CONVIR_D(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define CONVIR_D1 CONVIR_D(0)
#define CONVIR_D2 CONVIR_D1, CONVIR_D(1)
#define CONVIR_D3 CONVIR_D2, CONVIR_D(2)
#define CONVIR_D4 CONVIR_D3, CONVIR_D(3)
#define CONVIR_D5 CONVIR_D4, CONVIR_D(4)
#define CONVIR_D6 CONVIR_D5, CONVIR_D(5)
#define CONVIR_D7 CONVIR_D6, CONVIR_D(6)
#define CONVIR_D8 CONVIR_D7, CONVIR_D(7)
#define CONVIR_D9 CONVIR_D8, CONVIR_D(8)
#define CONVIR_D10 CONVIR_D9, CONVIR_D(9)
#define CONVIR_D11 CONVIR_D10, CONVIR_D(10)
#define CONVIR_D12 CONVIR_D11, CONVIR_D(11)
#define CONVIR_D13 CONVIR_D12, CONVIR_D(12)
#define CONVIR_D14 CONVIR_D13, CONVIR_D(13)
#define CONVIR_D15 CONVIR_D14, CONVIR_D(14)
#define CONVIR_D16 CONVIR_D15, CONVIR_D(15)
#define CONVIR_D17 CONVIR_D16, CONVIR_D(16)
#define CONVIR_D18 CONVIR_D17, CONVIR_D(17)
#define CONVIR_D19 CONVIR_D18, CONVIR_D(18)
#define CONVIR_D20 CONVIR_D19, CONVIR_D(19)
#define CONVIR_D21 CONVIR_D20, CONVIR_D(20)
#define CONVIR_D22 CONVIR_D21, CONVIR_D(21)
#define CONVIR_D23 CONVIR_D22, CONVIR_D(22)
#define CONVIR_D24 CONVIR_D23, CONVIR_D(23)
#define CONVIR_D25 CONVIR_D24, CONVIR_D(24)
#define CONVIR_D26 CONVIR_D25, CONVIR_D(25)
#define CONVIR_D27 CONVIR_D26, CONVIR_D(26)
#define CONVIR_D28 CONVIR_D27, CONVIR_D(27)
#define CONVIR_D29 CONVIR_D28, CONVIR_D(28)
#define CONVIR_D30 CONVIR_D29, CONVIR_D(29)
#define CONVIR_D31 CONVIR_D30, CONVIR_D(30)
#define CONVIR_D32 CONVIR_D31, CONVIR_D(31)
#define CONVIR_R1 "%0,%1,%2,%3"
#define CONVIR_R2 CONVIR_R1 ",%4,%5,%6,%7"
#define CONVIR_R3 CONVIR_R2 ",%8,%9,%10,%11"
#define CONVIR_R4 CONVIR_R3 ",%12,%13,%14,%15"
#define CONVIR_R5 CONVIR_R4 ",%16,%17,%18,%19"
#define CONVIR_R6 CONVIR_R5 ",%20,%21,%22,%23"
#define CONVIR_R7 CONVIR_R6 ",%24,%25,%26,%27"
#define CONVIR_R8 CONVIR_R7 ",%28,%29,%30,%31"
#define CONVIR_R9 CONVIR_R8 ",%32,%33,%34,%35"
#define CONVIR_R10 CONVIR_R9 ",%36,%37,%38,%39"
#define CONVIR_R11 CONVIR_R10 ",%40,%41,%42,%43"
#define CONVIR_R12 CONVIR_R11 ",%44,%45,%46,%47"
#define CONVIR_R13 CONVIR_R12 ",%48,%49,%50,%51"
#define CONVIR_R14 CONVIR_R13 ",%52,%53,%54,%55"
#define CONVIR_R15 CONVIR_R14 ",%56,%57,%58,%59"
#define CONVIR_R16 CONVIR_R15 ",%60,%61,%62,%63"
#define CONVIR_R17 CONVIR_R16 ",%64,%65,%66,%67"
#define CONVIR_R18 CONVIR_R17 ",%68,%69,%70,%71"
#define CONVIR_R19 CONVIR_R18 ",%72,%73,%74,%75"
#define CONVIR_R20 CONVIR_R19 ",%76,%77,%78,%79"
#define CONVIR_R21 CONVIR_R20 ",%80,%81,%82,%83"
#define CONVIR_R22 CONVIR_R21 ",%84,%85,%86,%87"
#define CONVIR_R23 CONVIR_R22 ",%88,%89,%90,%91"
#define CONVIR_R24 CONVIR_R23 ",%92,%93,%94,%95"
#define CONVIR_R25 CONVIR_R24 ",%96,%97,%98,%99"
#define CONVIR_R26 CONVIR_R25 ",%100,%101,%102,%103"
#define CONVIR_R27 CONVIR_R26 ",%104,%105,%106,%107"
#define CONVIR_R28 CONVIR_R27 ",%108,%109,%110,%111"
#define CONVIR_R29 CONVIR_R28 ",%112,%113,%114,%115"
#define CONVIR_R30 CONVIR_R29 ",%116,%117,%118,%119"
#define CONVIR_R31 CONVIR_R30 ",%120,%121,%122,%123"
#define CONVIR_R32 CONVIR_R31 ",%124,%125,%126,%127"

#define CONVIR_WGMMA(ELEMENT, TYPE, n8, n, a0, a1, a2, a3, a4)                                    \
  template <>                                                                                     \
  struct WgmmaPlanes<ELEMENT, n8> {                                                               \
    static __device__ __forceinline__ void run(float (&d)[n8][4], unsigned long long from_a,      \
                                               unsigned long long from_b) {                       \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE                \
                   " {" CONVIR_R##n8 "}, %" #a0 ", %" #a1 ", 1, 1, 1, 1, 1;\n"                    \
                   : CONVIR_D##n8                                                                 \
                   : "l"(from_a), "l"(from_b));                                                   \
    }                                                                                             \
    static __device__ __forceinline__ void run(float (&d)[n8][4], const unsigned (&a)[4],         \
                                               unsigned long long from_b) {                       \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE                \
                   " {" CONVIR_R##n8 "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #a4         \
                   ", 1, 1, 1, 1;\n"                                                              \
                   : CONVIR_D##n8                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(from_b));                    \
    }                                                                                             \
  };
#define CONVIR_WGMMAS(ELEMENT, TYPE)                                                              \
  CONVIR_WGMMA(ELEMENT, TYPE, 1, 8, 4, 5, 6, 7, 8)                                                \
  CONVIR_WGMMA(ELEMENT, TYPE, 2, 16, 8, 9, 10, 11, 12)                                            \
  CONVIR_WGMMA(ELEMENT, TYPE, 3, 24, 12, 13, 14, 15, 16)                                          \
  CONVIR_WGMMA(ELEMENT, TYPE, 4, 32, 16, 17, 18, 19, 20)                                          \
  CONVIR_WGMMA(ELEMENT, TYPE, 5, 40, 20, 21, 22, 23, 24)                                          \
  CONVIR_WGMMA(ELEMENT, TYPE, 6, 48, 24, 25, 26, 27, 28)                                          \
  CONVIR_WGMMA(ELEMENT, TYPE, 7, 56, 28, 29, 30, 31, 32)                                          \
  CONVIR_WGMMA(ELEMENT, TYPE, 8, 64, 32, 33, 34, 35, 36)                                          \
  CONVIR_WGMMA(ELEMENT, TYPE, 9, 72, 36, 37, 38, 39, 40)                                          \
  CONVIR_WGMMA(ELEMENT, TYPE, 10, 80, 40, 41, 42, 43, 44)                                         \
  CONVIR_WGMMA(ELEMENT, TYPE, 11, 88, 44, 45, 46, 47, 48)                                         \
  CONVIR_WGMMA(ELEMENT, TYPE, 12, 96, 48, 49, 50, 51, 52)                                         \
  CONVIR_WGMMA(ELEMENT, TYPE, 13, 104, 52, 53, 54, 55, 56)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 14, 112, 56, 57, 58, 59, 60)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 15, 120, 60, 61, 62, 63, 64)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 16, 128, 64, 65, 66, 67, 68)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 17, 136, 68, 69, 70, 71, 72)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 18, 144, 72, 73, 74, 75, 76)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 19, 152, 76, 77, 78, 79, 80)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 20, 160, 80, 81, 82, 83, 84)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 21, 168, 84, 85, 86, 87, 88)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 22, 176, 88, 89, 90, 91, 92)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 23, 184, 92, 93, 94, 95, 96)                                        \
  CONVIR_WGMMA(ELEMENT, TYPE, 24, 192, 96, 97, 98, 99, 100)                                       \
  CONVIR_WGMMA(ELEMENT, TYPE, 25, 200, 100, 101, 102, 103, 104)                                   \
  CONVIR_WGMMA(ELEMENT, TYPE, 26, 208, 104, 105, 106, 107, 108)                                   \
  CONVIR_WGMMA(ELEMENT, TYPE, 27, 216, 108, 109, 110, 111, 112)                                   \
  CONVIR_WGMMA(ELEMENT, TYPE, 28, 224, 112, 113, 114, 115, 116)                                   \
  CONVIR_WGMMA(ELEMENT, TYPE, 29, 232, 116, 117, 118, 119, 120)                                   \
  CONVIR_WGMMA(ELEMENT, TYPE, 30, 240, 120, 121, 122, 123, 124)                                   \
  CONVIR_WGMMA(ELEMENT, TYPE, 31, 248, 124, 125, 126, 127, 128)                                   \
  CONVIR_WGMMA(ELEMENT, TYPE, 32, 256, 128, 129, 130, 131, 132)

CONVIR_WGMMAS(__half, "f16")
CONVIR_WGMMAS(__nv_bfloat16, "bf16")

#undef CONVIR_WGMMAS
#undef CONVIR_WGMMA
#undef CONVIR_R32
#undef CONVIR_R31
#undef CONVIR_R30
#undef CONVIR_R29
#undef CONVIR_R28
#undef CONVIR_R27
#undef CONVIR_R26
#undef CONVIR_R25
#undef CONVIR_R24
#undef CONVIR_R23
#undef CONVIR_R22
#undef CONVIR_R21
#undef CONVIR_R20
#undef CONVIR_R19
#undef CONVIR_R18
#undef CONVIR_R17
#undef CONVIR_R16
#undef CONVIR_R15
#undef CONVIR_R14
#undef CONVIR_R13
#undef CONVIR_R12
#undef CONVIR_R11
#undef CONVIR_R10
#undef CONVIR_R9
#undef CONVIR_R8
#undef CONVIR_R7
#undef CONVIR_R6
#undef CONVIR_R5
#undef CONVIR_R4
#undef CONVIR_R3
#undef CONVIR_R2
#undef CONVIR_R1
#undef CONVIR_D32
#undef CONVIR_D31
#undef CONVIR_D30
#undef CONVIR_D29
#undef CONVIR_D28
#undef CONVIR_D27
#undef CONVIR_D26
#undef CONVIR_D25
#undef CONVIR_D24
#undef CONVIR_D23
#undef CONVIR_D22
#undef CONVIR_D21
#undef CONVIR_D20
#undef CONVIR_D19
#undef CONVIR_D18
#undef CONVIR_D17
#undef CONVIR_D16
#undef CONVIR_D15
#undef CONVIR_D14
#undef CONVIR_D13
#undef CONVIR_D12
#undef CONVIR_D11
#undef CONVIR_D10
#undef CONVIR_D9
#undef CONVIR_D8
#undef CONVIR_D7
#undef CONVIR_D6
#undef CONVIR_D5
#undef CONVIR_D4
#undef CONVIR_D3
#undef CONVIR_D2
#undef CONVIR_D1
#undef CONVIR_D

}  // namespace convir::hopper
