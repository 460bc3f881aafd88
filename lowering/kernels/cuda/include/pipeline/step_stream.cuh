// Copies that run steps ahead of the warps that compute.
//
// Step i may begin when what it reads has arrived, and the copies of step i + stages are under way
// during it. `S` is the schedule; `Loads` are the copies: how many `steps()`, and `load_step`.
#pragma once

#include "pipeline/warp_specialized.cuh"
#include "ptx/mma_sync.cuh"
#include "ptx/named_barrier.cuh"

namespace convir {

// Warps of their own copy, or all of them do between two steps.
template <typename S>
struct StepThreads {
  static constexpr bool kHasProducers = S::producer_warps > 0;
  static constexpr int kComputing = S::threads - S::producer_warps * 32;
  static constexpr int kCopying = kHasProducers ? S::producer_warps * 32 : S::threads;

  // Waits for all warps that compute.
  static __device__ __forceinline__ void sync_computing() {
    if constexpr (kHasProducers) {
      named_sync(1, kComputing);
    } else {
      __syncthreads();
    }
  }
};

// Producers fill the stages of `steps` steps: load(step, barrier). Consumers give a stage back
// behind its step.
template <int kStages, typename Load>
__device__ __forceinline__ void produce_steps(const Pipeline<kStages>& pipeline, int steps,
                                              Load&& load) {
  Producer<kStages> fill(pipeline);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (step >= kStages) fill.wait();
    load(step, fill.full());
    fill.at.advance_by_selection();
  }
}
template <int kStages>
__device__ __forceinline__ void release_step(Consumer<kStages>& stages) {
  __syncwarp();
  stages.release(stages.at.stage);
  stages.at.advance_by_selection();
}

// Threads copy: `load_step(step)` issues the copies of a thread.
template <typename S, typename Loads>
class AsyncStream {
  using Threads = StepThreads<S>;

 public:
  static constexpr int kBarriers = S::stages + 1;
  static constexpr int kBytes = Threads::kHasProducers ? Pipeline<kBarriers>::kBytes : 0;

  __device__ __forceinline__ AsyncStream(const Loads& loads, unsigned barriers)
      : loads_(loads), stages_(Pipeline<kBarriers>(barriers)) {}

  // Called by all threads first. Returns false in warps that only copy, when they are done.
  __device__ __forceinline__ bool begin() {
    if constexpr (Threads::kHasProducers) {
      if (threadIdx.x == 0) {
        stages_.pipeline.init(Threads::kCopying, Threads::kComputing / 32 * kWarpArrivals);
      }
      __syncthreads();
      if (threadIdx.x >= Threads::kComputing) {
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

  // Between them a warp may read what the step reads.
  __device__ __forceinline__ void acquire(int step) {
    if constexpr (Threads::kHasProducers) {
      stages_.wait();
    } else {
      wait_copies<S::stages - 1>();
      __syncthreads();
      loads_.load_step(step + S::stages);
      commit_copies();
    }
  }
  __device__ __forceinline__ void release() {
    if constexpr (Threads::kHasProducers) release_step(stages_);
  }

 private:
  __device__ __forceinline__ void load_all() {
    produce_steps(stages_.pipeline, loads_.steps(), [&](int step, unsigned full) {
      loads_.load_step(step);
      arrive_after_copies(full);
    });
  }

  Loads loads_;
  Consumer<kBarriers> stages_;
};

// TMA copies: `load_step(step, barrier)`, called by one thread of a warp of its own,
// returns the bytes that will complete at the barrier.
template <typename S, typename Loads>
class BoxStream {
  using Threads = StepThreads<S>;
  // A whole warpgroup that copies leaves the others most of its registers.
  using Both = Roles<S::producer_warps == 4, kProducerRegisters, S::compute_registers>;

 public:
  static constexpr int kBarriers = S::stages + 1;
  static constexpr int kBytes = Pipeline<kBarriers>::kBytes;

  __device__ __forceinline__ BoxStream(const Loads& loads, unsigned barriers)
      : loads_(loads), stages_(Pipeline<kBarriers>(barriers)) {}

  // Called by all threads first. Returns false in warps that only copy, when they are done. They do
  // not wait for the others: copies begin as soon as there are barriers.
  __device__ __forceinline__ bool begin() {
    static_assert(Threads::kHasProducers);
    if (threadIdx.x < Threads::kComputing) {
      asm volatile("bar.sync 0, %0;" ::"n"(S::threads) : "memory");
      Both::become_consumer();
      return true;
    }
    if (threadIdx.x == Threads::kComputing) {
      stages_.pipeline.init(1, Threads::kComputing / 32 * kWarpArrivals);
      fence_barrier_init();
    }
    __syncwarp();
    asm volatile("bar.arrive 0, %0;" ::"n"(S::threads) : "memory");
    Both::become_producer();
    if (threadIdx.x == Threads::kComputing) load_all();
    return false;
  }

  // Between them a warp may read what the step reads.
  __device__ __forceinline__ void acquire(int /*step*/) { stages_.wait(); }
  __device__ __forceinline__ void release() { release_step(stages_); }

 private:
  __device__ __forceinline__ void load_all() {
    produce_steps(stages_.pipeline, loads_.steps(), [&](int step, unsigned full) {
      arrive_expecting(full, loads_.load_step(step, full));
    });
  }

  Loads loads_;
  Consumer<kBarriers> stages_;
};

template <bool kTma, typename S, typename Loads>
struct StreamOf {
  using Type = AsyncStream<S, Loads>;
};
template <typename S, typename Loads>
struct StreamOf<true, S, Loads> {
  using Type = BoxStream<S, Loads>;
};
template <typename S, typename Loads>
using StepStream = typename StreamOf<S::tma, S, Loads>::Type;

// body(step, i) for the tiles of a warp, kTiles of each step, when what a step reads is there.
template <int kTiles, typename Stream, typename Body>
__device__ __forceinline__ void for_each_tile(Stream& stream, int steps, const Body& body) {
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    stream.acquire(step);
#pragma unroll 1
    for (int i = 0; i < kTiles; ++i) body(step, i);
    stream.release();
  }
  wait_copies<0>();
}

}  // namespace convir
