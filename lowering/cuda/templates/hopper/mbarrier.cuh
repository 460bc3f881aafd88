// Barriers in shared memory (mbarrier) that count arrivals and bytes; PTX ISA, "mbarrier".
// Addresses are 32-bit addresses of the shared window. Defining CONVIR_BOUNDED_WAITS makes a wait
// that never ends a trap, which a test can report.
#pragma once

namespace convir::hopper {

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Makes initialised barriers visible to the copy engine and to the other blocks of the cluster.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the barrier that has the same address in another block of the cluster.
__device__ __forceinline__ void arrive_at(unsigned barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ __forceinline__ void arrive_expecting(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ bool has_completed(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{\n.reg .pred done;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity) {
#ifdef CONVIR_BOUNDED_WAITS
  const long long start = clock64();
  while (!has_completed(barrier, parity)) {
    if (clock64() - start > CONVIR_BOUNDED_WAITS) __trap();
  }
#else
  while (!has_completed(barrier, parity)) {
  }
#endif
}

// A slot of a ring of `kSlots` shared buffers, and the parity of its current round.
template <int kSlots>
struct Ring {
  int slot = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }

  __device__ __forceinline__ void skip(int slots) {
    slot += slots;
    parity ^= slot / kSlots & 1;
    slot %= kSlots;
  }
};

}  // namespace convir::hopper
