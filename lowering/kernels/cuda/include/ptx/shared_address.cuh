// The 32-bit address of the shared window that PTX takes.
#pragma once

namespace convir {

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

}  // namespace convir
