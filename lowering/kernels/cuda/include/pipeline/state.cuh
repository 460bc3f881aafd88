// Where a producer or a consumer of a pipeline of stages is.
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

// One thread: the barriers of stages, of 8 bytes each: one that a stage is full, when all producers
// of it have arrived, and one that it is empty, when all consumers have.
template <int kStages>
__device__ __forceinline__ void init_stages(unsigned full, unsigned empty, int producers,
                                            int consumers) {
  for (int i = 0; i < kStages; ++i) {
    init_barrier(full + i * 8, producers);
    init_barrier(empty + i * 8, consumers);
  }
}

}  // namespace convir
