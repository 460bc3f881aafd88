// Roles of the blocks and warps of a Hopper kernel; PTX ISA, "barrier.cluster" and "setmaxnreg".
#pragma once

#include "ptx/shared_address.cuh"

namespace convir::hopper {

__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// The same of a thread that has written nothing that others read.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
// Waits until all threads of the cluster have arrived, whose writes become visible.
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// What lies at `at` of the shared memory of the block of this rank.
template <class T>
__device__ __forceinline__ T of_block(const T* at, int rank) {
  static_assert(sizeof(T) % 4 == 0);
  constexpr unsigned kStep = alignof(T) % 16 == 0 ? 4 : 1;
  unsigned words[sizeof(T) / 4], remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(remote)
               : "r"(shared_address(at)), "r"(rank));
#pragma unroll
  for (unsigned i = 0; i < sizeof(T) / 4; i += kStep) {
    if constexpr (kStep == 4) {
      asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[i]), "=r"(words[i + 1]), "=r"(words[i + 2]), "=r"(words[i + 3])
                   : "r"(remote + 4 * i));
    } else {
      asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(words[i]) : "r"(remote + 4 * i));
    }
  }
  T found;
  memcpy(&found, words, sizeof(T));
  return found;
}

// Whether the thread is the one of its warp that asks for what all of it wants once; all of them
// call it.
__device__ __forceinline__ bool is_elected() {
  unsigned elected;
  asm volatile(
      "{\n.reg .pred elected;\nelect.sync _|elected, 0xffffffff;\nselp.u32 %0, 1, 0, elected;\n}"
      : "=r"(elected));
  return elected != 0;
}

// Registers of a thread from here on; all warps of a warpgroup call it together. Other
// architectures leave them as they are.
template <int kRegisters>
__device__ __forceinline__ void grow_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void shrink_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

}  // namespace convir::hopper
