// Named barriers for warps that do something else than others without a branch: one between
// multiplications of wgmma would serialise them.
#pragma once

namespace convir::hopper {

// Waits, if `does`, until `threads` have waited or arrived.
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

}  // namespace convir::hopper
