// Named barriers of a block; PTX ISA, "bar".
#pragma once

namespace convir {

// Waits until `threads` have synced or arrived.
__device__ __forceinline__ void named_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// The same for warps that do something else than others, without a branch: one between
// multiplications of wgmma would serialise them.
__device__ __forceinline__ void named_sync_if(bool does, int barrier, int threads) {
  asm volatile("{\n.reg .pred does;\nsetp.ne.s32 does, %0, 0;\n@does bar.sync %1, %2;\n}" ::"r"(
                   static_cast<int>(does)),
               "r"(barrier), "r"(threads)
               : "memory");
}
__device__ __forceinline__ void named_arrive_if(bool does, int barrier, int threads) {
  asm volatile("{\n.reg .pred does;\nsetp.ne.s32 does, %0, 0;\n@does bar.arrive %1, %2;\n}" ::"r"(
                   static_cast<int>(does)),
               "r"(barrier), "r"(threads)
               : "memory");
}

}  // namespace convir
