// The bodies of kernels of `sm90_wgrad/mainloop.cuh`: with roles, or uniform. Tiles have `steps`.
#pragma once

#include "ptx/named_barrier.cuh"
#include "sm90_wgrad/lines.cuh"
#include "sm90_wgrad/producer.cuh"

namespace convir::wgrad {

// Consumer warps come first, then those that load.
template <class Problem, class Config>
__device__ __forceinline__ void run(typename Problem::Epilogue::Stored* out, float* workspace,
                                    unsigned* flags, int steps, const TensorMap& c,
                                    const TensorMap& a) {
  using Kernel = wgrad::Kernel<Problem, Config>;
  static_assert(Kernel::kSharedBytes == Problem::kSharedBytes);
  extern __shared__ char memory[];
  const Kernel kernel(memory, steps);
  if (threadIdx.x == 0) kernel.init_barriers();
  if (threadIdx.x == Config::kConsumerThreads) {
    hopper::prefetch_map(&c);
    hopper::prefetch_map(&a);
  }
  __syncwarp();
  if constexpr (Config::kIsClustered && Kernel::kDrained == 0) hopper::cluster_arrive_relaxed();
  Roles<Config::kTradesRegisters, kProducerRegisters, kConsumerRegisters>::run(
      threadIdx.x >= Config::kConsumerThreads,
      [&] {
        // Where copies begin is found while the barriers are made.
        Producer<Problem, Config, Config::kProducerWarps, 1> ask(kernel, c, a);
        named_sync(kReady, Config::kThreads);
        while (ask.is_left()) ask();
        __syncwarp();
        if constexpr (Config::kIsClustered) {
          // Over drained stages nobody writes before consumer warps have arrived, which have read
          // all that is loaded there. What they still read is loaded to stages that they have given
          // back, so these warps are here soon, even if arriving is to wait for all others: under
          // racecheck it does.
          if constexpr (Kernel::kDrained > 0) hopper::cluster_arrive_relaxed();
          hopper::cluster_wait();
        }
      },
      [&] {
        named_sync(kReady, Config::kThreads);
        kernel.consume(out, workspace, flags, [] {});
      });
}

// Consumer warps ask between two multiplications, into the stage that all have just given back.
// Warpgroups take turns: one multiplies while the other asks.
template <class Problem, class Config>
__device__ __forceinline__ void run_uniform(typename Problem::Epilogue::Stored* out,
                                            float* workspace, unsigned* flags, int steps,
                                            const TensorMap& c, const TensorMap& a) {
  using Kernel = wgrad::Kernel<Problem, Config>;
  static_assert(Kernel::kSharedBytes == Problem::kSharedBytes);
  static_assert(!Kernel::kStaggers || Kernel::kLag < Kernel::kStages,
                "a warpgroup asks for all that the other one needs before it waits for its turn");
  extern __shared__ char memory[];
  const Kernel kernel(memory, steps);
  if (threadIdx.x == 0) {
    hopper::prefetch_map(&c);
    hopper::prefetch_map(&a);
    kernel.init_barriers();
  }
  __syncwarp();
  if constexpr (Config::kIsClustered && Kernel::kDrained == 0) hopper::cluster_arrive_relaxed();
  Producer<Problem, Config, kWarpgroupThreads / 32, Config::kConsumers> ask(kernel, c, a);
  named_sync(kReady, Config::kThreads);
  for (int i = 0; i < Kernel::kStages; ++i) ask();
  kernel.consume(out, workspace, flags, ask);
}

// f32: warps that load also convert what they have loaded of A, some steps behind. The elements of
// A and C are those of the tensor maps.
template <class Problem, class Config>
__device__ __forceinline__ void run_lines(typename Problem::Epilogue::Stored* out,
                                          float* workspace, unsigned* flags, int steps,
                                          const Elements& elements, const TensorMap& c,
                                          const TensorMap& a) {
  using Kernel = wgrad::LinesKernel<Problem, Config>;
  static_assert(Kernel::kSharedBytes == Problem::kSharedBytes);
  extern __shared__ char memory[];
  const Kernel kernel(memory, steps);
  if (threadIdx.x == 0) kernel.init_barriers();
  if (threadIdx.x == Config::kConsumerThreads) {
    hopper::prefetch_map(&c);
    hopper::prefetch_map(&a);
  }
  __syncwarp();
  Roles<true, kConverterRegisters, kLinesConsumerRegisters>::run(
      threadIdx.x >= Config::kConsumerThreads,
      [&] {
        Producer<Problem, Config, Config::kProducerWarps, 1> ask(kernel, c, a);
        named_sync(kReady, Config::kThreads);
        PipelineState<Kernel::kStages> at;
        int asked = 0;
        const auto ask_next = [&] {
          if (!ask.is_left()) return;
          ask();
          ++asked;
          __syncwarp();
        };
        for (int i = 0; i < Problem::kLinesAhead; ++i) ask_next();
        for (int step = 0; step < asked; ++step) {
          ask_next();
          kernel.convert(at);
          at.advance();
        }
      },
      [&] {
        named_sync(kReady, Config::kThreads);
        kernel.consume(out, workspace, flags, elements);
      });
}

}  // namespace convir::wgrad
