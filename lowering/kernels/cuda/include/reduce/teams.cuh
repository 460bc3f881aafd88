// Threads of a block that compute one value together.
#pragma once

namespace convir {

// The values of all members of a team, combined in pairs in an order that is always the same; the
// result is that of member 0. All threads of the block come here together.
// kAdjacent: a team's members are contiguous; else every kThreads / kMembers-th thread is one.
template <int kThreads, int kMembers, bool kAdjacent, typename T, typename Combine>
__device__ inline T join(T value, int member, Combine combine) {
  constexpr int kStride = kAdjacent ? 1 : kThreads / kMembers;
  constexpr bool kOneWarp = kAdjacent && kMembers <= 32;
  __shared__ T slots[kThreads];
  slots[threadIdx.x] = value;
#pragma unroll
  for (int half = kMembers / 2; half > 0; half /= 2) {
    if (kOneWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
    if (member < half) {
      value = combine(value, slots[threadIdx.x + half * kStride]);
      slots[threadIdx.x] = value;
    }
  }
  // The slots are free for the next value when everybody has read.
  if (kOneWarp) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  return value;
}

}  // namespace convir
