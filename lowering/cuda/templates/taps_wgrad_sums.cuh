// The sums of a tile of taps_wgrad.cuh: multiplied, added up over math groups and parts, stored.
#pragma once

#include "barriers.cuh"
#include "hopper/wgmma.cuh"
#include "hopper/wgmma_planes.cuh"
#include "partition.cuh"
#include "taps_wgrad_tile.cuh"
#include "tiles.cuh"

namespace convir::taps_wgrad {

// Makes copies that have ended visible to wgmma. It waits for the copies that the same thread has
// under way, which is why those who load leave it to those who multiply.
template <class C>
__device__ __forceinline__ void see_copies() {
  if constexpr (C::kIsWgmma) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <class P, class C>
struct Sums {
  using L = Layout<P, C>;
  float of[P::kTaps][C::kN8][4];

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
    const int first = thread / kGroupThreads * kGroupChunk;
    const int lane = thread % 32, warp = thread % kGroupThreads / 32;
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
    const unsigned long long planes =
        hopper::planes_descriptor(shared_address(shared + L::kRingAt), L::kPlaneBytes);
    hopper::wgmma_fence();
#pragma unroll
    for (int t = 0; t < P::kTaps; ++t) {
      const int from = wrapped(at - P::kShift[tap_group][t]);
      hopper::WgmmaPlanes<typename P::E, C::kN8>::run(of[t], rows, planes + from);
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

// The sums that a thread keeps when the math groups have added theirs up: of kKept of the tile's
// kTiles8 times 8 columns.
template <class P, class C>
struct Kept {
  using L = Layout<P, C>;
  float of[L::kKept][4];

  __device__ __forceinline__ Kept(const Sums<P, C>& sums, char* shared, int thread) {
    if constexpr (C::kMathGroups == 1) {
#pragma unroll
      for (int i = 0; i < L::kTiles8; ++i) copy(of[i], tile8(sums, i));
    } else {
      const int group = thread / kGroupThreads;
      float4* to = reinterpret_cast<float4*>(shared) + thread % kGroupThreads;
      const float4* from = to;
      if (group == 0) {
        keep<0, L::kKept>(sums, to, from + L::kKept * kGroupThreads);
      } else {
        keep<L::kKept, 0>(sums, to + L::kKept * kGroupThreads, from);
      }
    }
  }

  static __device__ __forceinline__ const float (&tile8(const Sums<P, C>& sums, int i))[4] {
    return sums.of[i / C::kN8][i % C::kN8];
  }
  static __device__ __forceinline__ void copy(float (&to)[4], const float (&from)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) to[k] = from[k];
  }

  // Keeps kKept tiles from kOwn on, and gives away those from kOther on.
  template <int kOwn, int kOther>
  __device__ __forceinline__ void keep(const Sums<P, C>& sums, float4* to, const float4* from) {
#pragma unroll
    for (int i = 0; i < L::kKept; ++i) {
      if (kOther + i < L::kTiles8) {
        const float(&given)[4] = tile8(sums, kOther + i);
        to[i * kGroupThreads] = make_float4(given[0], given[1], given[2], given[3]);
      }
    }
    sync_math<L>();
#pragma unroll
    for (int i = 0; i < L::kKept; ++i) {
      if (kOwn + i < L::kTiles8) {
        copy(of[i], tile8(sums, kOwn + i));
        const float4 other = from[i * kGroupThreads];
        of[i][0] += other.x;
        of[i][1] += other.y;
        of[i][2] += other.z;
        of[i][3] += other.w;
      }
    }
  }
};

// Stores vector v of a tile: four sums of thread v % kMathThreads, in the numbering of partition.cuh.
template <class P, class C, class Epilogue>
__device__ __forceinline__ void store(typename Epilogue::Stored* out, const Place<P, C>& place,
                                      int v, const float (&sums)[4]) {
  using L = Layout<P, C>;
  const int thread = v % L::kMathThreads;
  const int tile8 = thread / kGroupThreads * L::kKept + v / L::kMathThreads;
  if (tile8 >= L::kTiles8) return;
  const int lane = thread % 32, warp = thread % kGroupThreads / 32;
  const int depth = place.depth + warp * 16 + lane / 4;
  const int column = place.column + tile8 % C::kN8 * 8 + lane % 4 * 2;
  const long long weight = P::kWeight[place.set][tile8 / C::kN8];
  if (weight < 0) return;
  out += P::kBGroup * place.group + weight;
  const typename Epilogue::Pointers none{};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int d = depth + i / 2 * 8, n = column + i % 2;
    if (d < P::kDepth && n < P::kColumns) {
      out[P::kBDepth * d + P::kBColumn * n] = Epilogue::apply(sums[i], none, nullptr);
    }
  }
}

// Puts a tile's parts together and stores it. Sums pass through shared memory, each thread's own: a
// loop over them needs the addresses of four at a time, not of all.
template <class P, class C, class Epilogue>
__device__ __forceinline__ void finish_tile(const partition::Work& work, const Place<P, C>& place,
                                            Kept<P, C>& kept, char* shared,
                                            typename Epilogue::Stored* out, float* workspace,
                                            unsigned* flags, int thread) {
  using L = Layout<P, C>;
  const auto sum = [&](int i) -> float& { return kept.of[i / 4][i % 4]; };
  if constexpr (C::kHasSlices) {
    const partition::Slices<L::kMathThreads, 4 * L::kKept, kMathBarrier> slices{workspace, flags,
                                                                               thread};
    slices(work, sum, [&](int v, const float4& total) {
      store<P, C, Epilogue>(out, place, v, {total.x, total.y, total.z, total.w});
    });
  } else {
    const partition::FixUp<L::kMathThreads, 4 * L::kKept, C::kIsTree, kMathBarrier> fix_up{
        workspace, flags, thread};
    if (!fix_up(work, sum)) return;
    float4* own = reinterpret_cast<float4*>(shared) + thread;
#pragma unroll
    for (int i = 0; i < L::kKept; ++i) {
      own[i * L::kMathThreads] =
          make_float4(kept.of[i][0], kept.of[i][1], kept.of[i][2], kept.of[i][3]);
    }
#pragma unroll 1
    for (int i = 0; i < L::kKept; ++i) {
      const float4 total = own[i * L::kMathThreads];
      store<P, C, Epilogue>(out, place, i * L::kMathThreads + thread,
                            {total.x, total.y, total.z, total.w});
    }
  }
}

}  // namespace convir::taps_wgrad
