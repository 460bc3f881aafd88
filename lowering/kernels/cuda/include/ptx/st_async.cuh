// Stores to the shared memory of blocks of a cluster that a barrier there counts; PTX ISA,
// "st.async".
#pragma once

#include "ptx/wait.cuh"

namespace convir::hopper {

// Writes 16 bytes to the shared memory of a block of the cluster, without waiting for it: completes
// at the barrier that has address `barrier` there, which counts bytes.
__device__ __forceinline__ void send_to(unsigned address, int rank, const float4& x,
                                        unsigned barrier) {
  asm volatile(
      "{\n.reg .b32 remote, at;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mapa.shared::cluster.u32 at, %2, %1;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [remote], {%3, %4, %5, %6}, [at];"
      "\n}" ::"r"(address),
      "r"(rank), "r"(barrier), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
      : "memory");
}

// The same without a branch where the block may be the thread's own, to whose memory it writes at
// once and counts nothing.
__device__ __forceinline__ void store_async(unsigned address, unsigned barrier, int rank, int own,
                                            const float4& x) {
  asm volatile(
      "{\n.reg .b32 to, bar;\n.reg .pred own;\n"
      "setp.eq.s32 own, %2, %3;\n"
      "mapa.shared::cluster.u32 to, %0, %2;\n"
      "mapa.shared::cluster.u32 bar, %1, %2;\n"
      "@own st.shared::cta.v4.f32 [%0], {%4, %5, %6, %7};\n"
      "@!own st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [to], {%4, %5, %6, %7}, "
      "[bar];\n}" ::"r"(address),
      "r"(barrier), "r"(rank), "r"(own), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
      : "memory");
}

// Waits for the first phase of a barrier that counts what other blocks store.
__device__ __forceinline__ void wait_for_stores(unsigned barrier) {
  wait_until([&] {
    unsigned done;
    asm volatile(
        "{\n.reg .pred done;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], 0;\n"
        "selp.u32 %0, 1, 0, done;\n}"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
    return done != 0;
  });
}

}  // namespace convir::hopper
