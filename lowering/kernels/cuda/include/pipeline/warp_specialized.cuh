// The skeleton of a persistent kernel whose warps have roles: producers load stages of a pipeline,
// consumers multiply them and store, tile after tile.
//
// A kernel has the tiles of its block in order, `Tiles::for_each(body)`, what loads the stages of a
// tile, what multiplies them, and what stores the accumulators.
#pragma once

#include "pipeline/state.cuh"
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

  template <class Produce, class Consume>
  static __device__ __forceinline__ void run(bool produces, Produce&& produce, Consume&& consume) {
    if (produces) {
      become_producer();
      produce();
    } else {
      become_consumer();
      consume();
    }
  }
};

// Where the memory of stages has something else when a tile ends: a barrier at which all consumers
// arrive when they are done with it, tile after tile.
struct Drain {
  unsigned barrier;
  unsigned tiles = 0;

  // Producers, before the first stage of every tile.
  __device__ __forceinline__ void wait() {
    if (tiles > 0) wait_barrier(barrier, tiles - 1 & 1);
    ++tiles;
  }
  __device__ __forceinline__ void arrive() const {
    __syncwarp();
    arrive_for_warp(barrier);
  }
};

// A producer: load(tile, stages) fills the stages of a tile.
template <class Tiles, int kStages, class Load>
__device__ __forceinline__ void produce(const Tiles& tiles, const Pipeline<kStages>& pipeline,
                                        Load&& load) {
  Producer<kStages> stages(pipeline);
  tiles.for_each([&](const auto& tile) { load(tile, stages); });
}

// A consumer: multiply(tile, d, stages) is false for a tile that others have; finish(tile, d)
// stores it.
template <class Accumulators, class Tiles, int kStages, class Multiply, class Finish>
__device__ __forceinline__ void consume(const Tiles& tiles, const Pipeline<kStages>& pipeline,
                                        Multiply&& multiply, Finish&& finish) {
  Consumer<kStages> stages(pipeline);
  tiles.for_each([&](const auto& tile) {
    Accumulators d;
    if (multiply(tile, d, stages)) finish(tile, d);
  });
}

}  // namespace convir
