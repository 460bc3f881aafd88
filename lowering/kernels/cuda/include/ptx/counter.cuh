// A counter in shared memory that one thread advances and others watch. Its accesses are relaxed
// atomics: they order nothing but themselves.
#pragma once

namespace convir::hopper {

__device__ __forceinline__ void counter_init(unsigned counter) {
  asm volatile("st.shared::cta.u32 [%0], 0;" ::"r"(counter) : "memory");
}

__device__ __forceinline__ void counter_advance(unsigned counter) {
  asm volatile("red.relaxed.cta.shared::cta.add.u32 [%0], 1;" ::"r"(counter) : "memory");
}

__device__ __forceinline__ int counter_read(unsigned counter) {
  int value;
  asm volatile("atom.relaxed.cta.shared::cta.or.b32 %0, [%1], 0;"
               : "=r"(value)
               : "r"(counter)
               : "memory");
  return value;
}

// A warp waits until the counter is `due` or more; one lane looks, now and then.
__device__ __forceinline__ void counter_wait(unsigned counter, int due) {
  constexpr int kPauseNs = 256;
  if (threadIdx.x % 32 == 0) {
    while (counter_read(counter) < due) __nanosleep(kPauseNs);
  }
  __syncwarp();
}

}  // namespace convir::hopper
