// Pieces of an operand that threads copy to shared memory without registers in between (cp.async),
// but for single 16-bit elements: one loop, over an iterator that knows where the pieces of a kernel
// lie.
#pragma once

#include "arith/sizes.cuh"
#include "ptx/cp_async.cuh"

namespace convir {

// Copies a 16-bit element through a register, or a zero if `inside` is false.
__device__ __forceinline__ void copy_element(unsigned shared, const void* source, bool inside) {
  const unsigned short bits = inside ? *static_cast<const unsigned short*>(source) : 0;
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(shared), "h"(bits) : "memory");
}

// kPieces pieces of kBytes by kThreads threads, of which `thread` is one; a thread has every
// kThreads-th, `kUnroll` of them at once, or if 0 as many as the compiler finds best. at(turn, i,
// copy) is for piece i, the thread's `turn`-th: it calls copy(to, from, inside), which copies, or
// writes zeros if `inside` is false; or it does not, for what nobody reads.
template <int kPieces, int kThreads, int kBytes, int kUnroll = divide_up(kPieces, kThreads),
          class Iterator>
__device__ __forceinline__ void copy_pieces(int thread, Iterator&& at) {
  constexpr int kTurns = divide_up(kPieces, kThreads);
  const auto copy = [](auto to, const void* from, bool inside) {
    if constexpr (kBytes == 2) {
      copy_element(to, from, inside);
    } else {
      copy_async<kBytes>(to, from, inside);
    }
  };
  if constexpr (kUnroll == 0) {
    for (int turn = 0, i = thread; i < kPieces; ++turn, i += kThreads) at(turn, i, copy);
  } else {
#pragma unroll kUnroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int i = turn * kThreads + thread;
      if (kPieces % kThreads == 0 || turn < kTurns - 1 || i < kPieces) at(turn, i, copy);
    }
  }
}

// Fills memory with zeros: all kThreads threads, 16 bytes each at a time.
template <int kThreads>
__device__ __forceinline__ void clear_shared(void* shared, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += kThreads) {
    reinterpret_cast<uint4*>(shared)[i] = make_uint4(0, 0, 0, 0);
  }
}

}  // namespace convir
