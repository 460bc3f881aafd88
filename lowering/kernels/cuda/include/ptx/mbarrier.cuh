// Barriers in shared memory that count arrivals, and on sm_90 bytes; PTX ISA, "mbarrier". Addresses
// are 32-bit addresses of the shared window.
//
// Defining CONVIR_RACECHECK lets every lane arrive where one arrives for its warp: racecheck takes
// an arrival to order what that lane did, and nothing that was ordered before it.
#pragma once

#include "ptx/shared_address.cuh"
#include "ptx/wait.cuh"

namespace convir {

__device__ __forceinline__ void init_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// sm_90: makes initialised barriers visible to TMA and to the other blocks of the cluster.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// How often a warp arrives, whose lanes have met.
#ifdef CONVIR_RACECHECK
constexpr int kWarpArrivals = 32;
#else
constexpr int kWarpArrivals = 1;
#endif
__device__ __forceinline__ void arrive_for_warp(unsigned barrier) {
  if (threadIdx.x % 32 < kWarpArrivals) arrive(barrier);
}
// The thread arrives when all of its copies so far have.
__device__ __forceinline__ void arrive_after_copies(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
// sm_90: arrives, and so many bytes of TMA will.
__device__ __forceinline__ void arrive_expecting(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ bool has_completed(unsigned barrier, unsigned parity) {
  unsigned done;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
#else
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
#endif
  return done != 0;
}

__device__ __forceinline__ void wait_barrier(unsigned barrier, unsigned parity) {
  wait_until([&] { return has_completed(barrier, parity); });
}

}  // namespace convir
