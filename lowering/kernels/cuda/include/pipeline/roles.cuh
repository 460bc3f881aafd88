// The roles of the warps of a persistent kernel: those that produce stages of a pipeline, and those
// that consume them.
#pragma once

#include "ptx/cluster.cuh"

namespace convir {

constexpr int kProducerRegisters = 40;  // of a thread, where a warpgroup produces

// What the warps of both roles do where they part. They are whole warpgroups if they trade
// registers: producers keep kProducer of a thread, so that consumers have kConsumer.
template <bool kTrades, int kProducer, int kConsumer>
struct Roles {
  static __device__ __forceinline__ void become_producer() {
    if constexpr (kTrades) hopper::shrink_registers<kProducer>();
  }
  static __device__ __forceinline__ void become_consumer() {
    if constexpr (kTrades) hopper::grow_registers<kConsumer>();
  }
};

}  // namespace convir
