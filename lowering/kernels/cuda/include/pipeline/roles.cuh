// The roles of the warps of a persistent kernel: those that produce stages of a pipeline, and those that
// consume them.
#pragma once

#include "ptx/cluster.cuh"

namespace convir {

constexpr int kProducerRegisters = 40;  // of a thread, where a warpgroup produces

// The body of a kernel behind the setup of its barriers. Both roles are whole warpgroups if they trade
// registers: producers keep kProducer of a thread, so that consumers have kConsumer. What a role does
// until its warps may go on, start(), comes before the trade.
template <bool kTrades, int kProducer, int kConsumer>
struct Roles {
  static __device__ __forceinline__ void become_producer() {
    if constexpr (kTrades) hopper::shrink_registers<kProducer>();
  }
  static __device__ __forceinline__ void become_consumer() {
    if constexpr (kTrades) hopper::grow_registers<kConsumer>();
  }
  template <class Start, class Produce>
  static __device__ __forceinline__ void produce(Start&& start, Produce&& produce) {
    start();
    become_producer();
    produce();
  }
  template <class Start, class Consume>
  static __device__ __forceinline__ void consume(Start&& start, Consume&& consume) {
    start();
    become_consumer();
    consume();
  }
  // A thread of a block does the one or the other.
  template <class Produce, class Consume>
  static __device__ __forceinline__ void run(bool is_producer, Produce&& produces,
                                             Consume&& consumes) {
    if (is_producer) {
      produce([] {}, produces);
    } else {
      consume([] {}, consumes);
    }
  }
};

}  // namespace convir
