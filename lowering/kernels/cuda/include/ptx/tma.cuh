// Copies of the tensor memory accelerator; PTX ISA, "cp.async.bulk". Coordinates are innermost
// first. A load completes at a barrier, which counts its bytes.
#pragma once

namespace convir::hopper {

// A CUtensorMap, without CUDA's driver header.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Loads of a box. kOnce: what is read once, in lines of the L2 cache that are given up first, before
// those of others that wait to be written back.
#define CONVIR_LOAD_BOX(kRank, kBox, kHint, ...)                                                    \
  if constexpr (kOnce) {                                                                           \
    unsigned long long policy;                                                                     \
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));                    \
    asm volatile("cp.async.bulk.tensor." kRank                                                     \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"        \
                 " [%0], [%1, {" kBox "}], [%2], %" kHint ";" ::"r"(to),                           \
                 "l"(map), "r"(barrier), __VA_ARGS__, "l"(policy)                                  \
                 : "memory");                                                                      \
  } else {                                                                                         \
    asm volatile("cp.async.bulk.tensor." kRank                                                     \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"                       \
                 " [%0], [%1, {" kBox "}], [%2];" ::"r"(to),                                       \
                 "l"(map), "r"(barrier), __VA_ARGS__                                               \
                 : "memory");                                                                      \
  }
template <bool kOnce = false>
__device__ __forceinline__ void load_2d(unsigned to, const TensorMap* map, unsigned barrier, int x,
                                        int y) {
  CONVIR_LOAD_BOX("2d", "%3, %4", "5", "r"(x), "r"(y))
}
template <bool kOnce = false>
__device__ __forceinline__ void load_3d(unsigned to, const TensorMap* map, unsigned barrier, int x,
                                        int y, int z) {
  CONVIR_LOAD_BOX("3d", "%3, %4, %5", "6", "r"(x), "r"(y), "r"(z))
}
template <bool kOnce = false>
__device__ __forceinline__ void load_4d(unsigned to, const TensorMap* map, unsigned barrier, int x,
                                        int y, int z, int w) {
  CONVIR_LOAD_BOX("4d", "%3, %4, %5, %6", "7", "r"(x), "r"(y), "r"(z), "r"(w))
}
template <bool kOnce = false>
__device__ __forceinline__ void load_5d(unsigned to, const TensorMap* map, unsigned barrier, int x,
                                        int y, int z, int w, int v) {
  CONVIR_LOAD_BOX("5d", "%3, %4, %5, %6, %7", "8", "r"(x), "r"(y), "r"(z), "r"(w), "r"(v))
}
#undef CONVIR_LOAD_BOX

// Loads through an im2col map: `at` is (channel, position along each spatial axis, batch) of the
// first pixel and `offset` the tap's output pixels behind the pixel, innermost axis first.
template <int kSpatial>
__device__ __forceinline__ void load_im2col(unsigned to, const TensorMap* map, unsigned barrier,
                                            const int (&at)[5], const int (&offset)[3]) {
  if constexpr (kSpatial == 1) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5}], [%2], {%6};" ::"r"(to),
        "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]),
        "h"(static_cast<unsigned short>(offset[0]))
        : "memory");
  } else if constexpr (kSpatial == 2) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
        "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
        "h"(static_cast<unsigned short>(offset[0])), "h"(static_cast<unsigned short>(offset[1]))
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to),
        "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
        "h"(static_cast<unsigned short>(offset[0])), "h"(static_cast<unsigned short>(offset[1])),
        "h"(static_cast<unsigned short>(offset[2]))
        : "memory");
  }
}

// Loads contiguous bytes, a multiple of 16 at addresses that are multiples of 16.
__device__ __forceinline__ void load_bulk(unsigned to, const void* from, int bytes,
                                          unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Stores contiguous bytes, a multiple of 16 at addresses that are multiples of 16, when TMA
// gets to it; part of the thread's current group.
__device__ __forceinline__ void store_bulk(void* to, unsigned from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}

// The same for a box of shared memory, as far as it lies in the tensor.
__device__ __forceinline__ void store_3d(const TensorMap* map, unsigned from, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          map),
      "r"(from), "r"(x), "r"(y), "r"(z)
      : "memory");
}

__device__ __forceinline__ void store_4d(const TensorMap* map, unsigned from, int x, int y, int z,
                                         int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::
          "l"(map),
      "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

__device__ __forceinline__ void store_5d(const TensorMap* map, unsigned from, int x, int y, int z,
                                         int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::
          "l"(map),
      "r"(from), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until the shared memory that the thread's stores read may be written again.
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Orders the thread's own writes to shared memory before later accesses of TMA and of
// the tensor cores.
__device__ __forceinline__ void fence_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace convir::hopper
