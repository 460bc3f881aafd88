// Waits that never end, if a kernel is wrong. Defining CONVIR_BOUNDED_WAITS as a number of cycles
// makes such a wait a trap, which a test can report.
#pragma once

namespace convir {

// Asks until is_done().
template <class IsDone>
__device__ __forceinline__ void wait_until(IsDone&& is_done) {
#ifdef CONVIR_BOUNDED_WAITS
  const long long start = clock64();
#endif
  while (!is_done()) {
#ifdef CONVIR_BOUNDED_WAITS
    if (clock64() - start > CONVIR_BOUNDED_WAITS) __trap();
#endif
  }
}

}  // namespace convir
