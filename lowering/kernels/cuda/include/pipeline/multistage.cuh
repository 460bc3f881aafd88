// The mainloop of a block whose warps all copy (cp.async), then all multiply: copies of the next
// stages are under way meanwhile.
#pragma once

#include "pipeline/state.cuh"
#include "ptx/cp_async.cuh"

namespace convir {

// fill(step, stage) begins to copy what a step multiplies, multiply(step, stage) does, and
// stored(step, stage) ends copies through registers, of the step that was begun before the product.
// arrived() is called when a thread's own copies of a step are there, before it meets the others.
// kUnroll of the first copies are written out. When it ends, nobody reads or writes a stage any
// more.
template <int kStages, int kUnroll, class Fill, class Arrived, class Multiply, class Stored>
__device__ __forceinline__ void multistage(int steps, Fill&& fill, Arrived&& arrived,
                                           Multiply&& multiply, Stored&& stored) {
#pragma unroll kUnroll
  for (int step = 0; step < kStages - 1; ++step) {
    if (step < steps) {
      fill(step, step);
      stored(step, step);
    }
    commit_copies();
  }
  PipelineState<kStages> reading, writing{kStages - 1};
  for (int step = 0; step < steps; ++step) {
    wait_copies<kStages - 2>();
    arrived();
    __syncthreads();
    const int next = step + kStages - 1;
    if (next < steps) fill(next, writing.stage);
    commit_copies();
    multiply(step, reading.stage);
    if (next < steps) stored(next, writing.stage);
    reading.advance();
    writing.advance();
  }
  wait_copies<0>();
  __syncthreads();
}

}  // namespace convir
