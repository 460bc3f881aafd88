// Warpgroup matrix multiply-accumulate: D[64, n] += A[64, 16] * B[16, n], with B in shared memory,
// A there or in registers, and D in registers; PTX ISA, "wgmma". Of TF32 an instruction takes 8 k,
// as many bytes.
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
// The next address, or number of bytes, that begins an atom.
template <class Int>
constexpr Int to_atom(Int bytes) {
  return (bytes + kAtomBytes - 1) / kAtomBytes * kAtomBytes;
}

// A descriptor without its address: leading and stride byte offset, and the swizzle of `row_bytes`.
constexpr unsigned long long descriptor_layout(int row_bytes, int leading, int stride) {
  const unsigned long long swizzle = row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3;
  return swizzle << 62 | static_cast<unsigned long long>(stride / 16) << 32 | leading / 16 << 16;
}
__device__ __forceinline__ unsigned long long address_field(unsigned address) {
  return (address & 0x3ffff) >> 4;
}

// The descriptor of a tile of `kBlockK` k.
template <Major kMajor, int kBlockK>
__device__ __forceinline__ unsigned long long tile_descriptor(unsigned address) {
  constexpr int kLeading = kMajor == kMajorMN ? kBlockK * kSwizzleBytes : 16;
  constexpr unsigned long long layout = descriptor_layout(kSwizzleBytes, kLeading, kAtomBytes);
  return layout | address_field(address);
}

// The descriptor of an MN-major tile of narrower blocks: rows of `kRowBytes`, in the swizzle of so
// many.
template <int kRowBytes, int kBlockK>
__device__ __forceinline__ unsigned long long block_descriptor(unsigned address) {
  static_assert(kRowBytes == 128 || kRowBytes == 64 || kRowBytes == 32);
  constexpr unsigned long long layout =
      descriptor_layout(kRowBytes, kBlockK * kRowBytes, 8 * kRowBytes);
  return layout | address_field(address);
}

// The descriptor of one atom of 64 m of eight k, MN major, and of another eight k that lie
// `along_k` bytes behind it.
__device__ __forceinline__ unsigned long long atoms_descriptor(unsigned address, unsigned along_k) {
  return 1ull << 62 | static_cast<unsigned long long>(along_k / 16) << 32 | address_field(address);
}

// The descriptor of a tile without a swizzle: 8x8 core matrices of 128 bytes, whose rows of 16
// bytes run along k (k major), or along m or n; core matrices that are contiguous along k lie
// `along_k` bytes apart, those along m or n `along_mn`. So an MN-major one may begin at any k.
__device__ __forceinline__ unsigned long long core_descriptor(unsigned address, unsigned along_k,
                                                              unsigned along_mn) {
  return static_cast<unsigned long long>(along_mn / 16) << 32 |
         static_cast<unsigned long long>(along_k / 16) << 16 | address_field(address);
}

// What a descriptor says of what lies so many bytes, a multiple of 16, further on.
__device__ __forceinline__ unsigned long long moved(unsigned long long descriptor, int bytes) {
  const unsigned low = static_cast<unsigned>(descriptor) + bytes / 16;
  return descriptor >> 32 << 32 | low;
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

template <int kTiles, int kCount>
__device__ __forceinline__ void hold(float (&d)[kTiles][kCount]) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) hold(d[i]);
}

// D += A * B, or D = A * B if `accumulate` is there and 0. D are kN / 2 values of a thread: of rows
// lane / 4 and lane / 4 + 8 of its warp's 16, columns 8 j + lane % 4 * 2 and the next, d[4 j + 0,
// 1] and d[4 j + 2, 3]. A in registers is the first operand of m16n8k16 in each warp.
template <class Element, int kN, Major kMajorA, Major kMajorB>
struct Wgmma;

// Eight columns more of D: its operands, and their numbers.
#define CONVIR_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CONVIR_D_8 CONVIR_D8(0)
#define CONVIR_R_8 "%0,%1,%2,%3"
#define CONVIR_D_16 CONVIR_D_8, CONVIR_D8(4)
#define CONVIR_R_16 CONVIR_R_8 "," "%4,%5,%6,%7"
#define CONVIR_D_24 CONVIR_D_16, CONVIR_D8(8)
#define CONVIR_R_24 CONVIR_R_16 "," "%8,%9,%10,%11"
#define CONVIR_D_32 CONVIR_D_24, CONVIR_D8(12)
#define CONVIR_R_32 CONVIR_R_24 "," "%12,%13,%14,%15"
#define CONVIR_D_40 CONVIR_D_32, CONVIR_D8(16)
#define CONVIR_R_40 CONVIR_R_32 "," "%16,%17,%18,%19"
#define CONVIR_D_48 CONVIR_D_40, CONVIR_D8(20)
#define CONVIR_R_48 CONVIR_R_40 "," "%20,%21,%22,%23"
#define CONVIR_D_56 CONVIR_D_48, CONVIR_D8(24)
#define CONVIR_R_56 CONVIR_R_48 "," "%24,%25,%26,%27"
#define CONVIR_D_64 CONVIR_D_56, CONVIR_D8(28)
#define CONVIR_R_64 CONVIR_R_56 "," "%28,%29,%30,%31"
#define CONVIR_D_72 CONVIR_D_64, CONVIR_D8(32)
#define CONVIR_R_72 CONVIR_R_64 "," "%32,%33,%34,%35"
#define CONVIR_D_80 CONVIR_D_72, CONVIR_D8(36)
#define CONVIR_R_80 CONVIR_R_72 "," "%36,%37,%38,%39"
#define CONVIR_D_88 CONVIR_D_80, CONVIR_D8(40)
#define CONVIR_R_88 CONVIR_R_80 "," "%40,%41,%42,%43"
#define CONVIR_D_96 CONVIR_D_88, CONVIR_D8(44)
#define CONVIR_R_96 CONVIR_R_88 "," "%44,%45,%46,%47"
#define CONVIR_D_104 CONVIR_D_96, CONVIR_D8(48)
#define CONVIR_R_104 CONVIR_R_96 "," "%48,%49,%50,%51"
#define CONVIR_D_112 CONVIR_D_104, CONVIR_D8(52)
#define CONVIR_R_112 CONVIR_R_104 "," "%52,%53,%54,%55"
#define CONVIR_D_120 CONVIR_D_112, CONVIR_D8(56)
#define CONVIR_R_120 CONVIR_R_112 "," "%56,%57,%58,%59"
#define CONVIR_D_128 CONVIR_D_120, CONVIR_D8(60)
#define CONVIR_R_128 CONVIR_R_120 "," "%60,%61,%62,%63"
#define CONVIR_D_136 CONVIR_D_128, CONVIR_D8(64)
#define CONVIR_R_136 CONVIR_R_128 "," "%64,%65,%66,%67"
#define CONVIR_D_144 CONVIR_D_136, CONVIR_D8(68)
#define CONVIR_R_144 CONVIR_R_136 "," "%68,%69,%70,%71"
#define CONVIR_D_152 CONVIR_D_144, CONVIR_D8(72)
#define CONVIR_R_152 CONVIR_R_144 "," "%72,%73,%74,%75"
#define CONVIR_D_160 CONVIR_D_152, CONVIR_D8(76)
#define CONVIR_R_160 CONVIR_R_152 "," "%76,%77,%78,%79"
#define CONVIR_D_168 CONVIR_D_160, CONVIR_D8(80)
#define CONVIR_R_168 CONVIR_R_160 "," "%80,%81,%82,%83"
#define CONVIR_D_176 CONVIR_D_168, CONVIR_D8(84)
#define CONVIR_R_176 CONVIR_R_168 "," "%84,%85,%86,%87"
#define CONVIR_D_184 CONVIR_D_176, CONVIR_D8(88)
#define CONVIR_R_184 CONVIR_R_176 "," "%88,%89,%90,%91"
#define CONVIR_D_192 CONVIR_D_184, CONVIR_D8(92)
#define CONVIR_R_192 CONVIR_R_184 "," "%92,%93,%94,%95"
#define CONVIR_D_200 CONVIR_D_192, CONVIR_D8(96)
#define CONVIR_R_200 CONVIR_R_192 "," "%96,%97,%98,%99"
#define CONVIR_D_208 CONVIR_D_200, CONVIR_D8(100)
#define CONVIR_R_208 CONVIR_R_200 "," "%100,%101,%102,%103"
#define CONVIR_D_216 CONVIR_D_208, CONVIR_D8(104)
#define CONVIR_R_216 CONVIR_R_208 "," "%104,%105,%106,%107"
#define CONVIR_D_224 CONVIR_D_216, CONVIR_D8(108)
#define CONVIR_R_224 CONVIR_R_216 "," "%108,%109,%110,%111"
#define CONVIR_D_232 CONVIR_D_224, CONVIR_D8(112)
#define CONVIR_R_232 CONVIR_R_224 "," "%112,%113,%114,%115"
#define CONVIR_D_240 CONVIR_D_232, CONVIR_D8(116)
#define CONVIR_R_240 CONVIR_R_232 "," "%116,%117,%118,%119"
#define CONVIR_D_248 CONVIR_D_240, CONVIR_D8(120)
#define CONVIR_R_248 CONVIR_R_240 "," "%120,%121,%122,%123"
#define CONVIR_D_256 CONVIR_D_248, CONVIR_D8(124)
#define CONVIR_R_256 CONVIR_R_248 "," "%124,%125,%126,%127"

// Operands 0 to n / 2 - 1 are D; o0 to o5 number those that follow.
#define CONVIR_WGMMA_16(ELEMENT, TYPE, n, o0, o1, o2, o3, o4, o5)                                 \
  template <Major kMajorA, Major kMajorB>                                                         \
  struct Wgmma<ELEMENT, n, kMajorA, kMajorB> {                                                    \
    static __device__ __forceinline__ void run(float* d, unsigned long long a,                    \
                                               unsigned long long b, int accumulate) {            \
      asm volatile("{\n.reg .pred use;\nsetp.ne.b32 use, %" #o2 ", 0;\n"                          \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE                \
                   " {" CONVIR_R_##n "}, %" #o0 ", %" #o1 ", use, 1, 1, %" #o3 ", %" #o4 ";\n}\n" \
                   : CONVIR_D_##n                                                                 \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(static_cast<int>(kMajorA)),             \
                     "n"(static_cast<int>(kMajorB)));                                             \
    }                                                                                             \
    static __device__ __forceinline__ void run(float* d, unsigned long long a,                    \
                                               unsigned long long b) {                            \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE                \
                   " {" CONVIR_R_##n "}, %" #o0 ", %" #o1 ", 1, 1, 1, %" #o2 ", %" #o3 ";\n"      \
                   : CONVIR_D_##n                                                                 \
                   : "l"(a), "l"(b), "n"(static_cast<int>(kMajorA)),                              \
                     "n"(static_cast<int>(kMajorB)));                                             \
    }                                                                                             \
    static __device__ __forceinline__ void run(float* d, const unsigned (&a)[4],                  \
                                               unsigned long long b) {                            \
      static_assert(kMajorA == kMajorK, "registers have rows of k");                              \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." TYPE "." TYPE                \
                   " {" CONVIR_R_##n "}, {%" #o0 ", %" #o1 ", %" #o2 ", %" #o3 "}, %" #o4         \
                   ", 1, 1, 1, %" #o5 ";\n"                                                       \
                   : CONVIR_D_##n                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                          \
                     "n"(static_cast<int>(kMajorB)));                                             \
    }                                                                                             \
  };
#define CONVIR_WGMMA_32(ELEMENT, TYPE, n, o0, o1, o2, o3, o4, o5)                                 \
  template <>                                                                                     \
  struct Wgmma<ELEMENT, n, kMajorK, kMajorK> {                                                    \
    static __device__ __forceinline__ void run(float* d, unsigned long long a,                    \
                                               unsigned long long b, int accumulate) {            \
      asm volatile("{\n.reg .pred use;\nsetp.ne.b32 use, %" #o2 ", 0;\n"                          \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32." TYPE "." TYPE                 \
                   " {" CONVIR_R_##n "}, %" #o0 ", %" #o1 ", use, 1, 1;\n}\n"                     \
                   : CONVIR_D_##n                                                                 \
                   : "l"(a), "l"(b), "r"(accumulate));                                            \
    }                                                                                             \
    static __device__ __forceinline__ void run(float* d, const unsigned (&a)[4],                  \
                                               unsigned long long b, int accumulate) {            \
      asm volatile("{\n.reg .pred use;\nsetp.ne.b32 use, %" #o5 ", 0;\n"                          \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32." TYPE "." TYPE                 \
                   " {" CONVIR_R_##n "}, {%" #o0 ", %" #o1 ", %" #o2 ", %" #o3 "}, %" #o4         \
                   ", use, 1, 1;\n}\n"                                                            \
                   : CONVIR_D_##n                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));        \
    }                                                                                             \
  };
#define CONVIR_WGMMAS(WGMMA, ELEMENT, TYPE)                                                       \
  WGMMA(ELEMENT, TYPE, 8, 4, 5, 6, 7, 8, 9)                                                       \
  WGMMA(ELEMENT, TYPE, 16, 8, 9, 10, 11, 12, 13)                                                  \
  WGMMA(ELEMENT, TYPE, 24, 12, 13, 14, 15, 16, 17)                                                \
  WGMMA(ELEMENT, TYPE, 32, 16, 17, 18, 19, 20, 21)                                                \
  WGMMA(ELEMENT, TYPE, 40, 20, 21, 22, 23, 24, 25)                                                \
  WGMMA(ELEMENT, TYPE, 48, 24, 25, 26, 27, 28, 29)                                                \
  WGMMA(ELEMENT, TYPE, 56, 28, 29, 30, 31, 32, 33)                                                \
  WGMMA(ELEMENT, TYPE, 64, 32, 33, 34, 35, 36, 37)                                                \
  WGMMA(ELEMENT, TYPE, 72, 36, 37, 38, 39, 40, 41)                                                \
  WGMMA(ELEMENT, TYPE, 80, 40, 41, 42, 43, 44, 45)                                                \
  WGMMA(ELEMENT, TYPE, 88, 44, 45, 46, 47, 48, 49)                                                \
  WGMMA(ELEMENT, TYPE, 96, 48, 49, 50, 51, 52, 53)                                                \
  WGMMA(ELEMENT, TYPE, 104, 52, 53, 54, 55, 56, 57)                                               \
  WGMMA(ELEMENT, TYPE, 112, 56, 57, 58, 59, 60, 61)                                               \
  WGMMA(ELEMENT, TYPE, 120, 60, 61, 62, 63, 64, 65)                                               \
  WGMMA(ELEMENT, TYPE, 128, 64, 65, 66, 67, 68, 69)                                               \
  WGMMA(ELEMENT, TYPE, 136, 68, 69, 70, 71, 72, 73)                                               \
  WGMMA(ELEMENT, TYPE, 144, 72, 73, 74, 75, 76, 77)                                               \
  WGMMA(ELEMENT, TYPE, 152, 76, 77, 78, 79, 80, 81)                                               \
  WGMMA(ELEMENT, TYPE, 160, 80, 81, 82, 83, 84, 85)                                               \
  WGMMA(ELEMENT, TYPE, 168, 84, 85, 86, 87, 88, 89)                                               \
  WGMMA(ELEMENT, TYPE, 176, 88, 89, 90, 91, 92, 93)                                               \
  WGMMA(ELEMENT, TYPE, 184, 92, 93, 94, 95, 96, 97)                                               \
  WGMMA(ELEMENT, TYPE, 192, 96, 97, 98, 99, 100, 101)                                             \
  WGMMA(ELEMENT, TYPE, 200, 100, 101, 102, 103, 104, 105)                                         \
  WGMMA(ELEMENT, TYPE, 208, 104, 105, 106, 107, 108, 109)                                         \
  WGMMA(ELEMENT, TYPE, 216, 108, 109, 110, 111, 112, 113)                                         \
  WGMMA(ELEMENT, TYPE, 224, 112, 113, 114, 115, 116, 117)                                         \
  WGMMA(ELEMENT, TYPE, 232, 116, 117, 118, 119, 120, 121)                                         \
  WGMMA(ELEMENT, TYPE, 240, 120, 121, 122, 123, 124, 125)                                         \
  WGMMA(ELEMENT, TYPE, 248, 124, 125, 126, 127, 128, 129)                                         \
  WGMMA(ELEMENT, TYPE, 256, 128, 129, 130, 131, 132, 133)

CONVIR_WGMMAS(CONVIR_WGMMA_16, __half, "f16")
CONVIR_WGMMAS(CONVIR_WGMMA_16, __nv_bfloat16, "bf16")
CONVIR_WGMMAS(CONVIR_WGMMA_32, float, "tf32")

}  // namespace convir::hopper
