// Warpgroup matrix multiply-accumulate: D[64, n] += A[64, 16] * B[16, n], both operands in shared
// memory, D in registers; PTX ISA, "wgmma". Of TF32 an instruction takes 8 k, as many bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace convir::hopper {

// Which index of an operand has stride 1: k, or m (of A) and n (of B).
enum Major : int { kMajorK = 0, kMajorMN = 1 };

// Tiles in shared memory have rows of 128 bytes, 64 elements, in the 128-byte swizzle: eight rows
// are an atom of 1024 bytes, to which tiles are aligned. A row is 64 k of one m or n (k major), or
// 64 m or n of one k (MN major); wider MN-major tiles are blocks of 64, one after the other.
constexpr int kSwizzleBytes = 128;
constexpr int kAtomBytes = 1024;

// The descriptor of a tile of `kBlockK` k: address, leading and stride byte offset in units of 16
// bytes, and the 128-byte swizzle.
template <Major kMajor, int kBlockK>
__device__ __forceinline__ unsigned long long tile_descriptor(unsigned address) {
  constexpr unsigned long long leading = kMajor == kMajorMN ? kBlockK * kSwizzleBytes / 16 : 1;
  constexpr unsigned long long stride = kAtomBytes / 16;
  constexpr unsigned long long layout = 1ull << 62 | stride << 32 | leading << 16;
  return layout | (address & 0x3ffff) >> 4;
}

// The descriptor of a tile without a swizzle: 8x8 cores of 128 bytes, whose rows of 16 bytes run
// along k (k major), or along m or n; cores that are neighbours along k lie `along_k` bytes apart,
// those along m or n `along_mn`.
__device__ __forceinline__ unsigned long long core_descriptor(unsigned address, int along_k,
                                                              int along_mn) {
  return static_cast<unsigned long long>(along_mn / 16) << 32 |
         static_cast<unsigned long long>(along_k / 16) << 16 | (address & 0x3ffff) >> 4;
}

// The descriptor of an MN-major tile of narrower blocks: rows of `kRowBytes`, in the swizzle of so
// many.
template <int kRowBytes, int kBlockK>
__device__ __forceinline__ unsigned long long block_descriptor(unsigned address) {
  static_assert(kRowBytes == 128 || kRowBytes == 64 || kRowBytes == 32);
  constexpr unsigned long long swizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
  constexpr unsigned long long leading = kBlockK * kRowBytes / 16, stride = 8 * kRowBytes / 16;
  constexpr unsigned long long layout = swizzle << 62 | stride << 32 | leading << 16;
  return layout | (address & 0x3ffff) >> 4;
}

// Bytes of a row of k that one instruction multiplies.
constexpr int kStepBytes = 32;

// What one instruction's k add to a descriptor.
template <Major kMajor>
constexpr int kDescriptorStep = kMajor == kMajorMN ? 16 * kSwizzleBytes / 16 : kStepBytes / 16;

__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving accesses to accumulators past this point.
template <int kCount>
__device__ __forceinline__ void hold(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// D = A * B + (accumulate ? D : 0). A thread's values of D: of rows lane / 4 and lane / 4 + 8 of
// its warp's 16, columns 8 j + lane % 4 * 2 and the next, d[4 j + 0, 1] and d[4 j + 2, 3].
template <class Element, int kN, Major kMajorA, Major kMajorB>
struct Wgmma;

#define CONVIR_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CONVIR_D16(i) CONVIR_D4(i), CONVIR_D4(i + 4), CONVIR_D4(i + 8), CONVIR_D4(i + 12)
#define CONVIR_D32(i) CONVIR_D16(i), CONVIR_D16(i + 16)
#define CONVIR_D64(i) CONVIR_D32(i), CONVIR_D32(i + 32)
#define CONVIR_R0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define CONVIR_R1 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define CONVIR_R2 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define CONVIR_R3 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define CONVIR_R4 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define CONVIR_R5 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define CONVIR_R6 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define CONVIR_R7 "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// What follows the scales: which index of A and B has stride 1, where the type lets it be chosen.
#define CONVIR_MAJORS(ta, tb) ", %" #ta ", %" #tb
#define CONVIR_K_MAJOR(ta, tb) ""

// Operands 0 to n / 2 - 1 are the accumulators; `a` to `tb` number the five that follow.
#define CONVIR_WGMMA(ELEMENT, TYPES, MAJORS, n, registers, a, b, use, ta, tb, ...)                \
  template <Major kMajorA, Major kMajorB>                                                         \
  struct Wgmma<ELEMENT, n, kMajorA, kMajorB> {                                                    \
    static_assert(sizeof(ELEMENT) == 2 || (kMajorA == kMajorK && kMajorB == kMajorK));            \
    static __device__ __forceinline__ void run(float (&d)[n / 2], unsigned long long descriptor_a, \
                                               unsigned long long descriptor_b, int accumulate) { \
      asm volatile("{\n.reg .pred use;\nsetp.ne.b32 use, %" #use ", 0;\n"                         \
                   "wgmma.mma_async.sync.aligned.m64n" #n TYPES " {" registers "}, %" #a ", %" #b \
                   ", use, 1, 1" MAJORS(ta, tb) ";\n}\n"                                         \
                   : __VA_ARGS__                                                                  \
                   : "l"(descriptor_a), "l"(descriptor_b), "r"(accumulate),                       \
                     "n"(static_cast<int>(kMajorA)), "n"(static_cast<int>(kMajorB)));             \
    }                                                                                             \
  };

#define CONVIR_WGMMAS(ELEMENT, TYPES, MAJORS)                                                     \
  CONVIR_WGMMA(ELEMENT, TYPES, MAJORS, 32, CONVIR_R0, 16, 17, 18, 19, 20, CONVIR_D16(0))          \
  CONVIR_WGMMA(ELEMENT, TYPES, MAJORS, 64, CONVIR_R0 "," CONVIR_R1, 32, 33, 34, 35, 36, CONVIR_D32(0)) \
  CONVIR_WGMMA(ELEMENT, TYPES, MAJORS, 96, CONVIR_R0 "," CONVIR_R1 "," CONVIR_R2, 48, 49, 50, 51, 52, \
               CONVIR_D32(0), CONVIR_D16(32))                                                     \
  CONVIR_WGMMA(ELEMENT, TYPES, MAJORS, 128, CONVIR_R0 "," CONVIR_R1 "," CONVIR_R2 "," CONVIR_R3, 64, 65, \
               66, 67, 68, CONVIR_D64(0))                                                         \
  CONVIR_WGMMA(ELEMENT, TYPES, MAJORS, 160,                                                       \
               CONVIR_R0 "," CONVIR_R1 "," CONVIR_R2 "," CONVIR_R3 "," CONVIR_R4, 80, 81, 82, 83, \
               84, CONVIR_D64(0), CONVIR_D16(64))                                                 \
  CONVIR_WGMMA(ELEMENT, TYPES, MAJORS, 192,                                                       \
               CONVIR_R0 "," CONVIR_R1 "," CONVIR_R2 "," CONVIR_R3 "," CONVIR_R4 "," CONVIR_R5,   \
               96, 97, 98, 99, 100, CONVIR_D64(0), CONVIR_D32(64))                                \
  CONVIR_WGMMA(ELEMENT, TYPES, MAJORS, 224,                                                       \
               CONVIR_R0 "," CONVIR_R1 "," CONVIR_R2 "," CONVIR_R3 "," CONVIR_R4 "," CONVIR_R5    \
                         "," CONVIR_R6,                                                           \
               112, 113, 114, 115, 116, CONVIR_D64(0), CONVIR_D32(64), CONVIR_D16(96))            \
  CONVIR_WGMMA(ELEMENT, TYPES, MAJORS, 256,                                                       \
               CONVIR_R0 "," CONVIR_R1 "," CONVIR_R2 "," CONVIR_R3 "," CONVIR_R4 "," CONVIR_R5    \
                         "," CONVIR_R6 "," CONVIR_R7,                                             \
               128, 129, 130, 131, 132, CONVIR_D64(0), CONVIR_D64(64))

CONVIR_WGMMAS(__half, "k16.f32.f16.f16", CONVIR_MAJORS)
CONVIR_WGMMAS(__nv_bfloat16, "k16.f32.bf16.bf16", CONVIR_MAJORS)
CONVIR_WGMMAS(float, "k8.f32.tf32.tf32", CONVIR_K_MAJOR)

#undef CONVIR_WGMMAS
#undef CONVIR_WGMMA
#undef CONVIR_K_MAJOR
#undef CONVIR_MAJORS
#undef CONVIR_R7
#undef CONVIR_R6
#undef CONVIR_R5
#undef CONVIR_R4
#undef CONVIR_R3
#undef CONVIR_R2
#undef CONVIR_R1
#undef CONVIR_R0
#undef CONVIR_D64
#undef CONVIR_D32
#undef CONVIR_D16
#undef CONVIR_D4

}  // namespace convir::hopper
