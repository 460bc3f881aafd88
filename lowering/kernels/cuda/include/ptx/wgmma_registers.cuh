// Warpgroup matrix multiply-accumulate with its first operand in registers; PTX ISA, "wgmma".
#pragma once

#include "ptx/wgmma.cuh"

namespace convir::hopper {

// D += A * B with A in registers: the first operand of m16n8k16 in each warp. `d` are kN / 2 sums, as
// those of `Wgmma`.
template <class Element, int kN, Major kMajorB>
struct WgmmaRegisters;

#define CONVIR_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CONVIR_R8 "%0,%1,%2,%3"
#define CONVIR_S8 CONVIR_D4(0)
#define CONVIR_R16 CONVIR_R8 ",%4,%5,%6,%7"
#define CONVIR_S16 CONVIR_S8, CONVIR_D4(4)
#define CONVIR_R24 CONVIR_R16 ",%8,%9,%10,%11"
#define CONVIR_S24 CONVIR_S16, CONVIR_D4(8)
#define CONVIR_R32 CONVIR_R24 ",%12,%13,%14,%15"
#define CONVIR_S32 CONVIR_S24, CONVIR_D4(12)
#define CONVIR_R40 CONVIR_R32 ",%16,%17,%18,%19"
#define CONVIR_S40 CONVIR_S32, CONVIR_D4(16)
#define CONVIR_R48 CONVIR_R40 ",%20,%21,%22,%23"
#define CONVIR_S48 CONVIR_S40, CONVIR_D4(20)
#define CONVIR_R56 CONVIR_R48 ",%24,%25,%26,%27"
#define CONVIR_S56 CONVIR_S48, CONVIR_D4(24)
#define CONVIR_R64 CONVIR_R56 ",%28,%29,%30,%31"
#define CONVIR_S64 CONVIR_S56, CONVIR_D4(28)
#define CONVIR_R72 CONVIR_R64 ",%32,%33,%34,%35"
#define CONVIR_S72 CONVIR_S64, CONVIR_D4(32)
#define CONVIR_R80 CONVIR_R72 ",%36,%37,%38,%39"
#define CONVIR_S80 CONVIR_S72, CONVIR_D4(36)
#define CONVIR_R88 CONVIR_R80 ",%40,%41,%42,%43"
#define CONVIR_S88 CONVIR_S80, CONVIR_D4(40)
#define CONVIR_R96 CONVIR_R88 ",%44,%45,%46,%47"
#define CONVIR_S96 CONVIR_S88, CONVIR_D4(44)
#define CONVIR_R104 CONVIR_R96 ",%48,%49,%50,%51"
#define CONVIR_S104 CONVIR_S96, CONVIR_D4(48)
#define CONVIR_R112 CONVIR_R104 ",%52,%53,%54,%55"
#define CONVIR_S112 CONVIR_S104, CONVIR_D4(52)
#define CONVIR_R120 CONVIR_R112 ",%56,%57,%58,%59"
#define CONVIR_S120 CONVIR_S112, CONVIR_D4(56)
#define CONVIR_R128 CONVIR_R120 ",%60,%61,%62,%63"
#define CONVIR_S128 CONVIR_S120, CONVIR_D4(60)
#define CONVIR_R136 CONVIR_R128 ",%64,%65,%66,%67"
#define CONVIR_S136 CONVIR_S128, CONVIR_D4(64)
#define CONVIR_R144 CONVIR_R136 ",%68,%69,%70,%71"
#define CONVIR_S144 CONVIR_S136, CONVIR_D4(68)
#define CONVIR_R152 CONVIR_R144 ",%72,%73,%74,%75"
#define CONVIR_S152 CONVIR_S144, CONVIR_D4(72)
#define CONVIR_R160 CONVIR_R152 ",%76,%77,%78,%79"
#define CONVIR_S160 CONVIR_S152, CONVIR_D4(76)
#define CONVIR_R168 CONVIR_R160 ",%80,%81,%82,%83"
#define CONVIR_S168 CONVIR_S160, CONVIR_D4(80)
#define CONVIR_R176 CONVIR_R168 ",%84,%85,%86,%87"
#define CONVIR_S176 CONVIR_S168, CONVIR_D4(84)
#define CONVIR_R184 CONVIR_R176 ",%88,%89,%90,%91"
#define CONVIR_S184 CONVIR_S176, CONVIR_D4(88)
#define CONVIR_R192 CONVIR_R184 ",%92,%93,%94,%95"
#define CONVIR_S192 CONVIR_S184, CONVIR_D4(92)

#define CONVIR_WGMMA_RS(ELEMENT, TYPE, n, a0, a1, a2, a3, b, tb)                                   \
  template <Major kMajorB>                                                                         \
  struct WgmmaRegisters<ELEMENT, n, kMajorB> {                                                     \
    static __device__ __forceinline__ void run(float* d, const unsigned (&a)[4],                   \
                                               unsigned long long descriptor_b) {                  \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE " {" CONVIR_R##n \
                   "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", 1, 1, 1, %" #tb ";\n"    \
                   : CONVIR_S##n                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor_b),                \
                     "n"(static_cast<int>(kMajorB)));                                              \
    }                                                                                              \
  };
#define CONVIR_WGMMAS_RS(ELEMENT, TYPE) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 8, 4, 5, 6, 7, 8, 9) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 16, 8, 9, 10, 11, 12, 13) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 24, 12, 13, 14, 15, 16, 17) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 32, 16, 17, 18, 19, 20, 21) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 40, 20, 21, 22, 23, 24, 25) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 48, 24, 25, 26, 27, 28, 29) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 56, 28, 29, 30, 31, 32, 33) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 64, 32, 33, 34, 35, 36, 37) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 72, 36, 37, 38, 39, 40, 41) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 80, 40, 41, 42, 43, 44, 45) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 88, 44, 45, 46, 47, 48, 49) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 96, 48, 49, 50, 51, 52, 53) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 104, 52, 53, 54, 55, 56, 57) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 112, 56, 57, 58, 59, 60, 61) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 120, 60, 61, 62, 63, 64, 65) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 128, 64, 65, 66, 67, 68, 69) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 136, 68, 69, 70, 71, 72, 73) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 144, 72, 73, 74, 75, 76, 77) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 152, 76, 77, 78, 79, 80, 81) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 160, 80, 81, 82, 83, 84, 85) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 168, 84, 85, 86, 87, 88, 89) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 176, 88, 89, 90, 91, 92, 93) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 184, 92, 93, 94, 95, 96, 97) \
  CONVIR_WGMMA_RS(ELEMENT, TYPE, 192, 96, 97, 98, 99, 100, 101)

CONVIR_WGMMAS_RS(__half, "f16")
CONVIR_WGMMAS_RS(__nv_bfloat16, "bf16")

#undef CONVIR_WGMMAS_RS
#undef CONVIR_WGMMA_RS
#undef CONVIR_R8
#undef CONVIR_S8
#undef CONVIR_R16
#undef CONVIR_S16
#undef CONVIR_R24
#undef CONVIR_S24
#undef CONVIR_R32
#undef CONVIR_S32
#undef CONVIR_R40
#undef CONVIR_S40
#undef CONVIR_R48
#undef CONVIR_S48
#undef CONVIR_R56
#undef CONVIR_S56
#undef CONVIR_R64
#undef CONVIR_S64
#undef CONVIR_R72
#undef CONVIR_S72
#undef CONVIR_R80
#undef CONVIR_S80
#undef CONVIR_R88
#undef CONVIR_S88
#undef CONVIR_R96
#undef CONVIR_S96
#undef CONVIR_R104
#undef CONVIR_S104
#undef CONVIR_R112
#undef CONVIR_S112
#undef CONVIR_R120
#undef CONVIR_S120
#undef CONVIR_R128
#undef CONVIR_S128
#undef CONVIR_R136
#undef CONVIR_S136
#undef CONVIR_R144
#undef CONVIR_S144
#undef CONVIR_R152
#undef CONVIR_S152
#undef CONVIR_R160
#undef CONVIR_S160
#undef CONVIR_R168
#undef CONVIR_S168
#undef CONVIR_R176
#undef CONVIR_S176
#undef CONVIR_R184
#undef CONVIR_S184
#undef CONVIR_R192
#undef CONVIR_S192
#undef CONVIR_D4

}  // namespace convir::hopper
