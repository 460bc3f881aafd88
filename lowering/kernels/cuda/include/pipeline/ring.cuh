// The state of a pipeline of stages, for whoever fills them and whoever empties them.
#pragma once

namespace convir::hopper {

// A slot of a ring of `kSlots` shared buffers, and the parity of its current round.
template <int kSlots>
struct Ring {
  int slot = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }

  __device__ __forceinline__ void skip(int slots) {
    slot += slots;
    parity ^= slot / kSlots & 1;
    slot %= kSlots;
  }
};

}  // namespace convir::hopper
