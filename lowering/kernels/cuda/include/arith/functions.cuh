// Functions of f32 that several ops compute together. None of them branches, as a division does for
// rare operands: what is computed of a thread's elements is under way at once.
#pragma once

namespace convir {

// 1 / d of a d that is 1 or more, or NaN: rounded to nearest, twice where that is no normal number.
__device__ inline float inverse_from_one(float d) {
  const float quarter = 0.25f * d;  // Its inverse is a normal number.
#ifdef __CUDA_ARCH__
  float near;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(quarter));
#else
  const float near = 1.0f / quarter;
#endif
  const float inverse = fmaf(fmaf(-quarter, near, 1.0f), near, near);
  return 0.25f * (quarter < 0x1p127f ? inverse : near);  // Of infinity it is 0, or else NaN.
}

// 1 / (1 + e^x), of which 16 bits are kept: its relative error is at most 2^-16. Both summands are
// smaller by `kScale`, so that the inverse is a normal number.
__device__ inline float logistic_to_16_bits(float x) {
  constexpr float kScale = 0x1p-24f;
  const float power = fmaf(x, 1.44269504f, -24.0f);
#ifdef __CUDA_ARCH__
  float scaled, near;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(scaled) : "f"(power));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(kScale + scaled));
#else
  const float near = 1.0f / (kScale + exp2f(power));
#endif
  return kScale * near;
}

// 1 + erf(z) from erfc(|z|) = 2^p, where p is a polynomial of |z| without a constant term, fitted to
// the least absolute error. The error is at most 2 units in the last place above -1/2, and 2^-24
// below, where a sum of 1 and erf(z) in f32 has errors as large.
__device__ inline float one_plus_erf(float z) {
  const float t = fabsf(z);
  float p = -4.53586342e-05f;
  p = fmaf(p, t, 4.45507871e-04f);
  p = fmaf(p, t, -1.48944216e-03f);
  p = fmaf(p, t, -7.74629089e-04f);
  p = fmaf(p, t, 2.82536808e-02f);
  p = fmaf(p, t, -1.48481615e-01f);
  p = fmaf(p, t, -9.18416393e-01f);
  p = fmaf(p, t, -1.62790859e+00f);
  p *= t;
#ifdef __CUDA_ARCH__
  float complement;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(complement) : "f"(p));
#else
  const float complement = exp2f(p);
#endif
  return z < 0.0f ? complement : 2.0f - complement;
}

}  // namespace convir
