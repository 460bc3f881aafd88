// The accumulators of a tile of multi_tap_wgrad/kernel.cuh: multiplied, added up over consumer
// warpgroups and splits, stored.
#pragma once

#include "epilogue/vector_store.cuh"
#include "load/tiles.cuh"
#include "mma/sm80_tile.cuh"
#include "multi_tap_wgrad/tile.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma.cuh"
#include "reduce/consumer_warpgroups.cuh"

namespace convir::multi_tap_wgrad {

// Makes copies that have ended visible to wgmma. It waits for the copies that the same thread has
// under way, which is why those who load leave it to those who multiply.
template <class C>
__device__ __forceinline__ void see_copies() {
  if constexpr (C::kIsWgmma) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <class P, class C>
struct Accumulators {
  using L = Layout<P, C>;
  float of[P::kTaps][C::kN8][4];

  __device__ __forceinline__ const float (&operator()(int tile8) const)[4] {
    return of[tile8 / C::kN8][tile8 % C::kN8];
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int t = 0; t < P::kTaps; ++t) {
#pragma unroll
      for (int j = 0; j < C::kN8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) of[t][j][i] = 0.0f;
      }
    }
  }

  // Adds this group's slabs of a chunk; `ring` is where the chunk's first position lies in dY's
  // ring. `previous` is called when the slab before the first one is done with.
  template <class Previous>
  __device__ __forceinline__ void multiply(const char* shared, int stage, int ring, int tap_group,
                                           int thread, const Previous& previous) {
    const int first = thread / kWarpgroupThreads * kGroupChunk;
    const int lane = thread % 32, warp = thread % kWarpgroupThreads / 32;
    const char* x = shared + stage * L::kStageBytes;
    const int line = first + lane % 8 + lane / 16 * 8;
    const int unit = (2 * warp + lane / 8 % 2) ^ lane % 8;
    const char* row = x + line * (kRows * 2) + unit * 16;
    unsigned a[2][4];
#pragma unroll
    for (int slab = 0; slab < kGroupChunk / kSlab; ++slab) {
      unsigned(&rows)[4] = a[slab % 2];
      load_transposed(rows, row + slab * (kSlab * kRows * 2));
      const int at = ring + first + slab * kSlab;
      if constexpr (C::kIsWgmma) {
        multiply_wgmma(shared, rows, at, tap_group);
        if (slab == 0) previous();
      } else {
        multiply_mma(shared, rows, at, tap_group, lane);
      }
    }
    if constexpr (!C::kIsWgmma) previous();
  }

  static __device__ __forceinline__ int wrapped(int at) {
    return at < 0 ? at + L::kRing : at >= L::kRing ? at - L::kRing : at;
  }

  __device__ __forceinline__ void multiply_wgmma(const char* shared, const unsigned (&rows)[4],
                                                 int at, int tap_group) {
    constexpr unsigned kEightPixels = 8 * 16;
    const unsigned long long planes = hopper::core_descriptor(
        shared_address(shared + L::kRingAt), kEightPixels, L::kPlaneBytes);
    hopper::wgmma_fence();
#pragma unroll
    for (int t = 0; t < P::kTaps; ++t) {
      const int from = wrapped(at - P::kShift[tap_group][t]);
      hopper::Wgmma<typename P::E, 8 * C::kN8, hopper::kMajorK, hopper::kMajorMN>::run(
          of[t][0], rows, planes + from);
    }
    hopper::wgmma_commit();
    hopper::wgmma_wait<1>();
  }

  __device__ __forceinline__ void multiply_mma(const char* shared, const unsigned (&rows)[4],
                                               int at, int tap_group, int lane) {
    const char* ring = shared + L::kRingAt + lane % 16 * 16;
#pragma unroll
    for (int t = 0; t < P::kTaps; ++t) {
      const char* from = ring + wrapped(at - P::kShift[tap_group][t]) * 16;
#pragma unroll
      for (int j = 0; j < C::kN8; j += 2) {
        if (j + 1 < C::kN8) {
          unsigned b[4];
          load_transposed(b, from + (j + lane / 16) * L::kPlaneBytes);
          multiply_add<typename P::E>(of[t][j], rows, b[0], b[1]);
          multiply_add<typename P::E>(of[t][j + 1 < C::kN8 ? j + 1 : j], rows, b[2], b[3]);
        } else {
          unsigned b[2];
          load_transposed(b, from + j * L::kPlaneBytes);
          multiply_add<typename P::E>(of[t][j], rows, b[0], b[1]);
        }
      }
    }
  }

  __device__ __forceinline__ void finish() {
    if constexpr (C::kIsWgmma) {
      hopper::wgmma_wait<0>();
#pragma unroll
      for (int t = 0; t < P::kTaps; ++t) {
#pragma unroll
        for (int j = 0; j < C::kN8; ++j) hopper::hold(of[t][j]);
      }
    }
  }
};

// Stores four accumulators of a thread of a consumer warpgroup: those of block `tile8` of 8
// columns.
template <class P, class C, class Epilogue>
__device__ __forceinline__ void store(typename Epilogue::Stored* out, const Place<P, C>& place,
                                      int tile8, int thread, const float (&accumulators)[4]) {
  const int lane = thread % 32, warp = thread / 32;
  const int in_channels = place.in_channels + warp * 16 + lane / 4;
  const int column = place.column + tile8 % C::kN8 * 8 + lane % 4 * 2;
  const long long weight = P::kWeight[place.set][tile8 / C::kN8];
  if (weight < 0) return;
  out += P::kBGroup * place.group + weight;
  store_four<P, Epilogue>(out, in_channels, column, accumulators);
}

// Puts a tile's splits together and stores it.
template <class P, class C, class S, class Epilogue>
__device__ __forceinline__ void finish_tile(const partition::Work& work, const Place<P, C>& place,
                                            typename Layout<P, C>::Kept& kept, char* shared,
                                            typename Epilogue::Stored* out, float* workspace,
                                            unsigned* flags, int thread) {
  constexpr consumer_warpgroups::Reduction kReduction = C::kHasShares ? consumer_warpgroups::kReduceScatter
                                                : C::kIsTree  ? consumer_warpgroups::kTree
                                                              : consumer_warpgroups::kLinear;
  consumer_warpgroups::finish<kReduction, S::kSplitsOfTile>(
      work, kept, shared, workspace, flags, thread,
      [&](int tile8, int of, const float(&accumulators)[4]) {
        store<P, C, Epilogue>(out, place, tile8, of, accumulators);
      });
}

}  // namespace convir::multi_tap_wgrad
