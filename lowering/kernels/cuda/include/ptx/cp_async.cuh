// Copies of a thread from global to shared memory without registers in between (sm_80); PTX ISA,
// "cp.async".
#pragma once

#include "ptx/shared_address.cuh"

namespace convir {

// Copies kBytes, or zeros if `inside` is false; then `source` is not read. Both places lie so many
// bytes ahead, as immediates of the instruction.
template <int kBytes = 16, int kSharedAhead = 0, int kAhead = 0>
__device__ __forceinline__ void copy_async(unsigned shared, const void* source, bool inside) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async copies 4, 8 or 16 bytes");
  const int size = inside ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0+%3], [%1+%4], 16, %2;" ::"r"(shared), "l"(source),
                 "r"(size), "n"(kSharedAhead), "n"(kAhead)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0+%4], [%1+%5], %2, %3;" ::"r"(shared), "l"(source),
                 "n"(kBytes), "r"(size), "n"(kSharedAhead), "n"(kAhead)
                 : "memory");
  }
}
template <int kBytes = 16>
__device__ __forceinline__ void copy_async(void* shared, const void* source, bool inside) {
  copy_async<kBytes>(shared_address(shared), source, inside);
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `kPending` of the newest groups of this thread are under way.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace convir
