// Scalars of generated kernels: half precision is widened to f32 to compute and rounded back to
// nearest even, as on the host.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "arith/functions.cuh"

namespace convir {

__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }

template <typename To, typename From>
struct Narrow {
  static __device__ To from(From x) { return static_cast<To>(x); }
};
template <>
struct Narrow<__half, float> {
  static __device__ __half from(float x) { return __float2half_rn(x); }
};
template <>
struct Narrow<__half, double> {
  static __device__ __half from(double x) { return __double2half(x); }
};
template <>
struct Narrow<__nv_bfloat16, float> {
  static __device__ __nv_bfloat16 from(float x) { return __float2bfloat16_rn(x); }
};
template <>
struct Narrow<__nv_bfloat16, double> {
  static __device__ __nv_bfloat16 from(double x) { return __double2bfloat16(x); }
};

// Rounds once, to nearest even, from the type that was computed in.
template <typename To, typename From>
__device__ inline To narrow(From x) {
  return Narrow<To, From>::from(x);
}

template <typename To>
__device__ inline To from_bits(unsigned long long bits);
template <>
__device__ inline __half from_bits(unsigned long long bits) {
  return __ushort_as_half(static_cast<unsigned short>(bits));
}
template <>
__device__ inline __nv_bfloat16 from_bits(unsigned long long bits) {
  return __ushort_as_bfloat16(static_cast<unsigned short>(bits));
}
template <>
__device__ inline float from_bits(unsigned long long bits) {
  return __uint_as_float(static_cast<unsigned>(bits));
}
template <>
__device__ inline double from_bits(unsigned long long bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}

// IEEE 754-2019 maximum and minimum: a NaN wins, and -0 is less than +0.
template <typename T>
__device__ inline T maximum(T a, T b) {
  if (a != a || b != b) return a + b;
  return a > b ? a : (b > a ? b : (signbit(a) ? b : a));
}
template <typename T>
__device__ inline T minimum(T a, T b) {
  if (a != a || b != b) return a + b;
  return a < b ? a : (b < a ? b : (signbit(a) ? a : b));
}
#ifdef __CUDA_ARCH__
template <>
__device__ inline float maximum(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
template <>
__device__ inline float minimum(float a, float b) {
  float c;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
#endif
template <>
__device__ inline __half maximum(__half a, __half b) {
  return __hmax_nan(a, b);
}
template <>
__device__ inline __half minimum(__half a, __half b) {
  return __hmin_nan(a, b);
}
template <>
__device__ inline __nv_bfloat16 maximum(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __hmax_nan(a, b);
}
template <>
__device__ inline __nv_bfloat16 minimum(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __hmin_nan(a, b);
}

// On bits, as widening a NaN drops its sign.
__device__ inline float copy_sign(float a, float b) { return copysignf(a, b); }
__device__ inline double copy_sign(double a, double b) { return copysign(a, b); }
__device__ inline __half copy_sign(__half a, __half b) {
  const int bits = (__half_as_ushort(a) & 0x7fff) | (__half_as_ushort(b) & 0x8000);
  return __ushort_as_half(static_cast<unsigned short>(bits));
}
__device__ inline __nv_bfloat16 copy_sign(__nv_bfloat16 a, __nv_bfloat16 b) {
  const int bits = (__bfloat16_as_ushort(a) & 0x7fff) | (__bfloat16_as_ushort(b) & 0x8000);
  return __ushort_as_bfloat16(static_cast<unsigned short>(bits));
}

// Integers wrap. C++ leaves that open for signed ones, and widens small ones to int: all is done in
// an unsigned type that is at least as wide.
template <int kBytes>
struct Wrapping {
  using Type = unsigned;
};
template <>
struct Wrapping<8> {
  using Type = unsigned long long;
};
template <typename Int>
using Wraps = typename Wrapping<sizeof(Int)>::Type;

template <typename Int>
__device__ inline Int add(Int a, Int b) {
  return static_cast<Int>(static_cast<Wraps<Int>>(a) + static_cast<Wraps<Int>>(b));
}
template <typename Int>
__device__ inline Int sub(Int a, Int b) {
  return static_cast<Int>(static_cast<Wraps<Int>>(a) - static_cast<Wraps<Int>>(b));
}
template <typename Int>
__device__ inline Int mul(Int a, Int b) {
  return static_cast<Int>(static_cast<Wraps<Int>>(a) * static_cast<Wraps<Int>>(b));
}
template <typename Int>
__device__ inline Int shl(Int a, Int b) {
  return static_cast<Int>(static_cast<Wraps<Int>>(a) << b);
}
template <typename Int>
__device__ inline Int absolute(Int a) {
  return a < 0 ? sub<Int>(0, a) : a;
}

// Counts of bits; `bits` holds those of an integer, and no others.
__device__ inline int count_ones(unsigned long long bits) { return __popcll(bits); }
template <int kWidth>
__device__ inline int leading_zeros(unsigned long long bits) {
  return __clzll(bits) - (64 - kWidth);
}
template <int kWidth>
__device__ inline int trailing_zeros(unsigned long long bits) {
  return bits == 0 ? kWidth : __ffsll(bits) - 1;
}

// The bits of a value as another type of the same size.
template <typename To, typename From>
__device__ inline To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From), "a bitcast keeps the size");
  To y;
  memcpy(&y, &x, sizeof(To));
  return y;
}

// An integer that f64 cannot hold keeps an odd last bit instead of what is lost, so that rounding
// to a narrower type afterwards is right.
__device__ inline double odd_double(long long x) {
  const bool fits = x >= -(1ll << 53) && x <= (1ll << 53);
  return static_cast<double>(fits ? x : ((x & ~0x7ffll) | ((x & 0x7ff) != 0 ? 0x800 : 0)));
}
__device__ inline double odd_double(unsigned long long x) {
  const bool fits = x <= (1ull << 53);
  return static_cast<double>(fits ? x : ((x & ~0x7ffull) | ((x & 0x7ff) != 0 ? 0x800 : 0)));
}

// a * b + c in f64, where a * b is exact, with an odd last bit if the sum is not (Knuth's TwoSum).
__device__ inline double odd_multiply_add(double a, double b, double c) {
  const double product = a * b;
  const double total = __dadd_rn(product, c);
  const double tail = __dsub_rn(total, product);
  const double lost = __dadd_rn(__dsub_rn(product, __dsub_rn(total, tail)), __dsub_rn(c, tail));
  const long long bits = __double_as_longlong(total);
  if (!(lost < 0 || lost > 0) || (bits & 1) != 0) return total;
  return __longlong_as_double((lost < 0) == (total < 0) ? bits + 1 : bits - 1);
}

template <typename Int>
__device__ inline Int floor_div(Int a, Int b) {
  const Int q = a / b;
  return (a % b != 0 && (a % b < 0) != (b < 0)) ? q - 1 : q;
}
template <typename Int>
__device__ inline Int ceil_div(Int a, Int b) {
  const Int q = a / b;
  return (a % b != 0 && (a % b < 0) == (b < 0)) ? q + 1 : q;
}

}  // namespace convir
