// Stages on rows of frames: accumulators of products along frames, and what the blocks of a launch
// share.
#pragma once

#include "arith/scalars.cuh"

namespace convir {

// Elements of rows that a thread holds at once: enough loads in flight to hide their latency.
constexpr int kMostLoads = 48;

// The rows that are loaded together: as many as fit, a divisor of all of them.
constexpr int rows_at_once(int in_channels, int taps) {
  int rows = taps >= kMostLoads ? 1 : kMostLoads / taps;
  if (rows > in_channels) rows = in_channels;
  while (in_channels % rows) --rows;
  return rows;
}

// The taps of a row that are loaded together.
constexpr int taps_at_once(int taps) {
  int some = taps < kMostLoads ? taps : kMostLoads;
  while (taps % some) --some;
  return some;
}

// `kCount` weights, the first of which `kVector` divides the place of, where it is 4.
template <int kCount, int kVector>
struct Weights {
  float of[kCount];
  __device__ __forceinline__ explicit Weights(const float* from) {
    if constexpr (kVector == 4) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(from + i);
        of[i] = four.x, of[i + 1] = four.y, of[i + 2] = four.z, of[i + 3] = four.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) of[i] = from[i];
    }
  }
};

// Adds Σ_d Σ_k w[o, d, k] · x[d · stride + k · reach] to the sum of each of `kChannels` channels.
template <int kChannels, int kInChannels, int kTaps>
__device__ __forceinline__ void add_term(float (&accumulators)[kChannels], const float* x, int stride,
                                         int reach, const float* w) {
  constexpr int kRows = rows_at_once(kInChannels, kTaps), kSome = taps_at_once(kTaps);
  constexpr int kSteps = kRows * kSome, kVector = kSteps % 4 == 0 ? 4 : 1;
#pragma unroll 1
  for (int d = 0; d < kInChannels; d += kRows) {
#pragma unroll 1
    for (int k = 0; k < kTaps; k += kSome) {
      float loaded[kSteps];
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        loaded[i] = x[(d + i / kSome) * stride + (k + i % kSome) * reach];
      }
#pragma unroll
      for (int o = 0; o < kChannels; ++o) {
        const Weights<kSteps, kVector> weights(w + (o * kInChannels + d) * kTaps + k);
#pragma unroll
        for (int i = 0; i < kSteps; ++i) accumulators[o] = fmaf(weights.of[i], loaded[i], accumulators[o]);
      }
    }
  }
}

// The same with one weight for all products.
template <int kChannels, int kInChannels, int kTaps>
__device__ __forceinline__ void add_filled(float (&accumulators)[kChannels], const float* x, int stride,
                                           int reach, float weight) {
  float total = 0;
  for (int d = 0; d < kInChannels; ++d) {
#pragma unroll 4
    for (int k = 0; k < kTaps; ++k) total = fmaf(weight, x[d * stride + k * reach], total);
  }
#pragma unroll
  for (int o = 0; o < kChannels; ++o) accumulators[o] += total;
}

// Copies `kCount` numbers that every frame is computed with into shared memory; both begin at a
// multiple of 16 bytes.
template <int kCount, int kThreads>
__device__ __forceinline__ void keep(float* shared, const float* from) {
  constexpr int kVectors = kCount / 4;
#pragma unroll 16
  for (int i = threadIdx.x; i < kVectors; i += kThreads) {
    reinterpret_cast<float4*>(shared)[i] = reinterpret_cast<const float4*>(from)[i];
  }
}

}  // namespace convir
