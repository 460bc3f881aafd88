// Copies that run steps ahead of the warps that compute.
#pragma once

#include "mma_sync.cuh"

namespace convir {

// S: the schedule. Loads: the copies of each step, `load_step(step)`, and how many `steps()`.
// Hands rows to the steps that read them. Step i may begin when its rows have arrived, and those
// of step i + stages are under way during it.
template <typename S, typename Loads>
class StepStream {
 public:
  static constexpr int kBarriers = S::stages + 1;
  static constexpr bool kHasLoaders = S::loaders > 0;
  static constexpr int kComputeThreads = S::threads - S::loaders * 32;
  static constexpr int kCopyThreads = kHasLoaders ? S::loaders * 32 : S::threads;
  static constexpr int kBytes = kHasLoaders ? 2 * kBarriers * 8 : 0;

  __device__ __forceinline__ StepStream(const Loads& loads, unsigned barriers)
      : loads_(loads), full_(barriers), empty_(barriers + kBarriers * 8) {}

  // Called by all threads first. Returns false in warps that only copy, when they are done.
  __device__ __forceinline__ bool begin() {
    if constexpr (kHasLoaders) {
      if (threadIdx.x == 0) {
        for (int i = 0; i < kBarriers; ++i) {
          init_barrier(full_ + i * 8, kCopyThreads);
          init_barrier(empty_ + i * 8, kComputeThreads / 32);
        }
      }
      __syncthreads();
      if (threadIdx.x >= kComputeThreads) {
        load_all();
        return false;
      }
    } else {
#pragma unroll 1
      for (int step = 0; step < S::stages; ++step) {
        loads_.load_step(step);
        commit_copies();
      }
    }
    return true;
  }

  // Between them a warp may read the rows of the step.
  __device__ __forceinline__ void acquire(int step) {
    if constexpr (kHasLoaders) {
      wait_barrier(full_ + slot_ * 8, parity_);
    } else {
      wait_copies<S::stages - 1>();
      __syncthreads();
      loads_.load_step(step + S::stages);
      commit_copies();
    }
  }
  __device__ __forceinline__ void release() {
    if constexpr (kHasLoaders) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(empty_ + slot_ * 8);
      next();
    }
  }

 private:
  __device__ __forceinline__ void load_all() {
    const int steps = loads_.steps();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      if (step >= kBarriers) wait_barrier(empty_ + slot_ * 8, parity_ ^ 1);
      loads_.load_step(step);
      arrive_after_copies(full_ + slot_ * 8);
      next();
    }
  }
  __device__ __forceinline__ void next() {
    slot_ = slot_ + 1 == kBarriers ? 0 : slot_ + 1;
    if (slot_ == 0) parity_ ^= 1;
  }

  Loads loads_;
  unsigned full_, empty_;
  int slot_ = 0;
  unsigned parity_ = 0;
};

}  // namespace convir
