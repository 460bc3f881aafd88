// Scalars of generated kernels: half precision is widened to f32 to compute and rounded back to
// nearest even, as on the host.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

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
