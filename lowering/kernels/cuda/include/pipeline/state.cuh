// A pipeline of stages in shared memory: warps that load fill a stage, warps that compute empty it.
#pragma once

#include "ptx/mbarrier.cuh"

namespace convir {

// A stage, and the parity of the round that it is in: what waits for an mbarrier asks for it.
template <int kStages>
struct PipelineState {
  int stage = 0;
  unsigned phase = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }

  // The same without a branch.
  __device__ __forceinline__ void advance_by_selection() {
    stage = stage + 1 == kStages ? 0 : stage + 1;
    if (stage == 0) phase ^= 1;
  }

  __device__ __forceinline__ void advance(int stages) {
    stage += stages;
    phase ^= stage / kStages & 1;
    stage %= kStages;
  }
};

// The barriers of the stages, of 8 bytes each: one that a stage is full, when all producers of it
// have arrived, and one that it is empty, when all consumers have.
template <int kStages>
struct Pipeline {
  static constexpr int kBytes = 2 * kStages * 8;

  unsigned full, empty;  // of stage 0

  __device__ __forceinline__ explicit Pipeline(unsigned barriers)
      : full(barriers), empty(barriers + kStages * 8) {}

  // One thread.
  __device__ __forceinline__ void init(int producers, int consumers) const {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(full + i * 8, producers);
      init_barrier(empty + i * 8, consumers);
    }
  }
};

// Where a thread that loads is in a pipeline.
template <int kStages>
struct Producer {
  Pipeline<kStages> pipeline;
  PipelineState<kStages> at;

  __device__ __forceinline__ explicit Producer(const Pipeline<kStages>& of) : pipeline(of) {}

  // Waits until the stage is empty.
  __device__ __forceinline__ void wait() const {
    wait_barrier(pipeline.empty + at.stage * 8, at.phase ^ 1);
  }
  // The barrier at which the loads of the stage arrive.
  __device__ __forceinline__ unsigned full() const { return pipeline.full + at.stage * 8; }

  // Fills the next stage: load(stage, barrier).
  template <class Load>
  __device__ __forceinline__ void operator()(Load&& load) {
    wait();
    load(at.stage, full());
    at.advance();
  }
};

// Where a warp that computes is.
template <int kStages>
struct Consumer {
  Pipeline<kStages> pipeline;
  PipelineState<kStages> at;

  __device__ __forceinline__ explicit Consumer(const Pipeline<kStages>& of) : pipeline(of) {}

  // Waits until the stage is full.
  __device__ __forceinline__ void wait() const {
    wait_barrier(pipeline.full + at.stage * 8, at.phase);
  }
  // All lanes of the warp have read a stage.
  __device__ __forceinline__ void release(int stage) const {
    arrive_for_warp(pipeline.empty + stage * 8);
  }
};

}  // namespace convir
