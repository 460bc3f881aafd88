// Sums of blocks that share an output: each publishes its own, and the last one of them to arrive
// adds all up, always in the same order.
#pragma once

#include "arith/sizes.cuh"

namespace convir {

// Adds up kSums floats, whole groups of four, of kSplits blocks of kThreads threads, and calls
// store(i, total) for each. `sums` are those of this block in shared memory, `split` is its number.
// `parts` and `counter` are those of the output; `scratch` is shared memory of kThreads float4, and
// may be where `sums` are.
template <int kThreads, int kSplits, int kSums, class Store>
__device__ __forceinline__ void add_up_in_last_block(float* parts, unsigned* counter,
                                                     const float* sums, int split, float4* scratch,
                                                     Store&& store) {
  static_assert(kSums % 4 == 0);
  constexpr int kVectors = kSums / 4;
  // Groups of threads that add up parts side by side.
  constexpr int kGroups = smaller(kSplits, larger(1, kThreads / kVectors));
  float4* const all = reinterpret_cast<float4*>(parts);
  for (int i = threadIdx.x; i < kVectors; i += kThreads) {
    __stcg(all + split * kVectors + i, reinterpret_cast<const float4*>(sums)[i]);
  }
  __threadfence();
  __syncthreads();
  unsigned* const flag = reinterpret_cast<unsigned*>(scratch);
  if (threadIdx.x == 0) {
    *flag = atomicAdd(counter, 1u);
    __threadfence();
  }
  __syncthreads();
  const bool is_last = *flag == kSplits - 1;
  __syncthreads();
  if (!is_last) return;
  if (threadIdx.x == 0) *counter = 0;
  const auto add = [](float4& to, const float4& x) {
    to.x += x.x;
    to.y += x.y;
    to.z += x.z;
    to.w += x.w;
  };
  const auto total_of = [&](int i, int first) {
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 16
    for (int from = first; from < kSplits; from += kGroups) add(total, __ldcg(all + from * kVectors + i));
    return total;
  };
  const auto store_four = [&](int i, const float4& total) {
    const float four[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) store(i * 4 + e, four[e]);
  };
  if constexpr (kGroups == 1) {
    for (int i = threadIdx.x; i < kVectors; i += kThreads) store_four(i, total_of(i, 0));
  } else {
    const int group = threadIdx.x / kVectors, i = threadIdx.x % kVectors;
    if (group < kGroups) scratch[threadIdx.x] = total_of(i, group);
    __syncthreads();
    if (group > 0) return;
    float4 total = scratch[i];
#pragma unroll 1
    for (int g = 1; g < kGroups; ++g) add(total, scratch[g * kVectors + i]);
    store_four(i, total);
  }
}

}  // namespace convir
