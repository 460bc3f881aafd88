// Backward weight, all taps of a tile at once.
//
// Input and gradient are walked on one grid of positions, so wide that a tap is a constant distance
// (where windows move by several positions, X is as many planes, and a tile has taps of one):
//
//   dW[tap][d, n] = sum over x of X[x, d] * dY[x - shift(tap), n]
//
// where both are zero outside of their extents, and shift(tap) = kBase + kShift of its group. A block keeps, for 64 depths d, the sums of all taps
// of a group and of 8 * kN8 columns n in registers. So an element of X is read once from memory and
// once from shared memory; dY is a ring of positions, from which each tap multiplies at its own
// distance. The reduction moves a chunk of positions at a time; math groups of four warps share it.
//
// Pipelines: uniform (every warp copies and multiplies), or roles: kLoadWarps warps own addresses
// and copies, the others shared memory, multiplications and the store.
// Partitions: partition.cuh. `P` and `C` are structs of constants, which
// lowering/cuda/contraction/taps_wgrad.py writes.
#pragma once

#include "barriers.cuh"
#include "hopper/wgmma.cuh"
#include "hopper/wgmma_planes.cuh"
#include "partition.cuh"
#include "tiles.cuh"

namespace convir::taps_wgrad {

constexpr int kRows = 64;           // depths of a tile: 16 for each warp of a math group
constexpr int kGroupThreads = 128;  // of a math group
constexpr int kSlab = 16;           // positions of one multiplication
constexpr int kGroupChunk = 64;     // positions of a chunk, for each math group
constexpr int kMathBarrier = 1;
// Registers of a thread where twelve or sixteen warps trade them.
constexpr int kLoadRegisters = 40;
template <int kLoadWarps>
constexpr int kMathRegisters = kLoadWarps == 4 ? 232 : 216;

// Where a position of the grid lies in the plane of X of a tap group (kIsX), or in dY; false if
// outside.
template <class P, bool kIsX>
__device__ __forceinline__ bool find(int position, int group, typename P::Offset& offset) {
  bool inside = static_cast<unsigned>(position) < static_cast<unsigned>(P::kPositions);
  unsigned rest = inside ? position : 0;
  offset = 0;
#pragma unroll
  for (int axis = P::kAxes - 1; axis >= 0; --axis) {
    const unsigned grid = P::kGrid[axis];
    const unsigned at = axis == 0 ? rest : rest % grid;
    rest /= axis == 0 ? 1 : grid;
    const int extent = kIsX ? P::kExtentX[group][axis] : P::kExtentY[axis];
    inside = inside && at < static_cast<unsigned>(extent);
    offset += (kIsX ? P::kStrideX : P::kStrideY)[axis] * static_cast<typename P::Offset>(at);
  }
  return inside;
}

template <class P, class C>
struct Layout {
  static constexpr int kChunk = kGroupChunk * C::kMathGroups;
  static constexpr int kLead = (P::kReach + kChunk - 1) / kChunk;  // chunks of dY before and behind
  static constexpr int kRingChunks = C::kStages + 2 * kLead;
  static constexpr int kRing = kRingChunks * kChunk;
  static constexpr int kPlaneBytes = (kRing + kSlab) * 16;  // the first slab again behind the last
  static constexpr int kStageBytes = kChunk * kRows * 2;
  static constexpr int kRingAt = C::kStages * kStageBytes;
  static constexpr int kPipelineBytes = kRingAt + C::kN8 * kPlaneBytes;

  static constexpr int kTiles8 = P::kTaps * C::kN8;  // of 8 columns
  static constexpr int kKept = (kTiles8 + C::kMathGroups - 1) / C::kMathGroups;  // by a group
  static constexpr int kExchangeBytes = kKept * C::kMathGroups * kGroupThreads * 16;
  static constexpr int kBarriersAt =
      kPipelineBytes > kExchangeBytes ? kPipelineBytes : kExchangeBytes;
  static constexpr int kSharedBytes = kBarriersAt + 8 * (2 * C::kStages + 1);
  static_assert(kSharedBytes == C::kSharedBytes, "the host asks for as much as is used");

  static constexpr int kColumnTiles = (P::kColumns + 8 * C::kN8 - 1) / (8 * C::kN8);
  static constexpr int kDepthTiles = (P::kDepth + kRows - 1) / kRows;
  static constexpr int kMathThreads = C::kMathGroups * kGroupThreads;
  static constexpr int kLoadThreads = C::kLoadWarps > 0 ? C::kLoadWarps * 32 : kMathThreads;
};

template <class L>
__device__ __forceinline__ void sync_math() {
  asm volatile("bar.sync %0, %1;" ::"n"(kMathBarrier), "n"(L::kMathThreads) : "memory");
}

// Which results a tile has.
template <class P, class C>
struct Place {
  int set, group, column, depth;  // tap group and group of channels; first column and depth

  __device__ __forceinline__ explicit Place(int tile) {
    using L = Layout<P, C>;
    depth = tile % L::kDepthTiles * kRows;
    int rest = tile / L::kDepthTiles;
    column = L::kColumnTiles == 1 ? 0 : rest % L::kColumnTiles * 8 * C::kN8;
    rest /= L::kColumnTiles;
    set = P::kTapGroups == 1 ? 0 : rest % P::kTapGroups;
    group = P::kGroups == 1 ? 0 : rest / P::kTapGroups;
  }
};

// Copies of the warps that load. Positions are taken apart once, by a lane each; the lanes that copy
// pieces of a row ask it.
template <class P, class C>
struct Filler {
  using L = Layout<P, C>;
  using E = typename P::E;
  using Offset = typename P::Offset;
  static constexpr int kWarps = L::kLoadThreads / 32;
  static constexpr int kBlocks = L::kChunk / 32;  // of 32 positions
  static constexpr int kXPieces = kRows * 2 / P::kXPiece;
  static constexpr int kLiveColumns = L::kColumnTiles == 1 ? P::kColumns : 8 * C::kN8;
  static constexpr int kYPieces = (kLiveColumns * 2 + P::kYPiece - 1) / P::kYPiece;

  char* shared;
  const E* x;
  const E* y;
  int thread;

  // Copies rows of 32 positions in kPieces pieces of kBytes; `to(position, piece)` is where one goes.
  template <bool kIsX, int kPieces, int kBytes, class To>
  __device__ __forceinline__ void copy_rows(const Place<P, C>& place, int position, const E* base,
                                            int limit, const To& to) const {
    const int lane = thread % 32;
    Offset own;
    const bool inside = find<P, kIsX>(position + lane, place.set, own);
    if (!inside) own = -1;
#pragma unroll 3
    for (int k = 0; k < kPieces; ++k) {
      const int at = (k * 32 + lane) / kPieces, piece = (k * 32 + lane) % kPieces;
      const Offset row = __shfl_sync(~0u, own, at);
      if (piece * (kBytes / 2) < limit) {
        to(at, piece * kBytes, row < 0 ? base : base + (row + piece * (kBytes / 2)), row >= 0);
      }
    }
  }

  // Fills 32 positions of a stage.
  __device__ __forceinline__ void fill_x(const Place<P, C>& place, int chunk, int stage,
                                         int block) const {
    char* to = shared + stage * L::kStageBytes + block * (32 * kRows * 2);
    const E* from = x + P::kXGroup * place.group + P::kOffsetX[place.set] + place.depth;
    copy_rows<true, kXPieces, P::kXPiece>(
        place, chunk * L::kChunk + block * 32, from, P::kDepth - place.depth,
        [&](int at, int byte, const E* row, bool inside) {
          const int unit = byte / 16 ^ at % 8;
          copy_async<P::kXPiece>(to + at * (kRows * 2) + unit * 16 + byte % 16, row, inside);
        });
  }

  // Fills 32 positions of chunk `ring` of the ring with dY's chunk `chunk`, which may lie outside.
  __device__ __forceinline__ void fill_y(const Place<P, C>& place, int chunk, int ring,
                                         int block) const {
    const int slot = ring * L::kChunk + block * 32;
    char* to = shared + L::kRingAt + slot * 16;
    const bool is_first = slot == 0;  // which is repeated behind the last
    copy_rows<false, kYPieces, P::kYPiece>(
        place, chunk * L::kChunk + block * 32 - P::kBase[place.set],
        y + P::kYGroup * place.group + place.column, P::kColumns - place.column, [&](int at, int byte, const E* row, bool inside) {
          char* piece = to + byte / 16 * L::kPlaneBytes + at * 16 + byte % 16;
          copy_async<P::kYPiece>(piece, row, inside);
          if (is_first && at < kSlab) {
            copy_async<P::kYPiece>(piece + L::kRing * 16, row, inside);
          }
        });
  }

  // What step 0 needs of dY beside what every step copies.
  __device__ __forceinline__ void fill_lead(const Place<P, C>& place, int begin) const {
    for (int i = thread / 32; i < 2 * L::kLead * kBlocks; i += kWarps) {
      const int chunk = i / kBlocks;
      fill_y(place, begin - L::kLead + chunk, chunk, i % kBlocks);
    }
  }
  __device__ __forceinline__ void fill_step(const Place<P, C>& place, int begin, int step,
                                            int stage) const {
    const int ring = (step + 2 * L::kLead) % L::kRingChunks;
#pragma unroll 1
    for (int i = thread / 32; i < 2 * kBlocks; i += kWarps) {
      if (i < kBlocks) {
        fill_x(place, begin + step, stage, i);
      } else {
        fill_y(place, begin + step + L::kLead, ring, i - kBlocks);
      }
    }
  }
};

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

template <int kSlots>
struct Slot {
  int at = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++at == kSlots) {
      at = 0;
      parity ^= 1;
    }
  }
};

template <class P, class C, class S>
__device__ __forceinline__ void load_role(const Filler<P, C>& filler, unsigned full, unsigned empty,
                                          unsigned drained) {
  Slot<C::kStages> filling;
  partition::Work work;
  unsigned tiles = 0;
  for (typename S::Walk walk(blockIdx.x); walk.next(work); ++tiles) {
    const Place<P, C> place(work.tile);
    if (tiles > 0) wait_barrier(drained, tiles - 1 & 1);
    const int steps = work.end - work.begin;
    filler.fill_lead(place, work.begin);
    for (int step = 0; step < steps; ++step) {
      wait_barrier(empty + 8 * filling.at, filling.parity ^ 1);
      filler.fill_step(place, work.begin, step, filling.at);
      arrive_after_copies(full + 8 * filling.at);
      filling.advance();
    }
  }
}

template <class P, class C, class S, class Epilogue>
__device__ __forceinline__ void math_role(char* shared, typename Epilogue::Stored* out,
                                          float* workspace, unsigned* flags, int thread,
                                          unsigned full, unsigned empty, unsigned drained) {
  using L = Layout<P, C>;
  Slot<C::kStages> reading, done;
  partition::Work work;
  for (typename S::Walk walk(blockIdx.x); walk.next(work);) {
    const Place<P, C> place(work.tile);
    const int steps = work.end - work.begin;
    Sums<P, C> sums;
    sums.clear();
    int ring = L::kLead;
    const auto release = [&] {
      __syncwarp();
      if (thread % 32 == 0) arrive(empty + 8 * done.at);
      done.advance();
    };
    for (int step = 0; step < steps; ++step) {
      wait_barrier(full + 8 * reading.at, reading.parity);
      see_copies<C>();
      sums.multiply(shared, reading.at, ring * L::kChunk, place.set, thread, [&] {
        if (C::kIsWgmma ? step > 0 : true) release();
      });
      reading.advance();
      ring = ring + 1 == L::kRingChunks ? 0 : ring + 1;
    }
    sums.finish();
    if (C::kIsWgmma) release();
    sync_math<L>();  // nobody reads the pipeline any more
    Kept<P, C> kept(sums, shared, thread);
    sync_math<L>();  // the exchanged sums have been read
    finish_tile<P, C, Epilogue>(work, place, kept, shared, out, workspace, flags, thread);
    __syncwarp();
    if (thread % 32 == 0) arrive(drained);
  }
}

template <class P, class C, class S, class Epilogue>
__device__ __forceinline__ void run_with_roles(char* shared, const typename P::E* x,
                                               const typename P::E* y,
                                               typename Epilogue::Stored* out, float* workspace,
                                               unsigned* flags) {
  using L = Layout<P, C>;
  constexpr int kMathWarps = L::kMathThreads / 32;
  const unsigned full = shared_address(shared + L::kBarriersAt);
  const unsigned empty = full + 8 * C::kStages;
  const unsigned drained = empty + 8 * C::kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::kStages; ++i) {
      init_barrier(full + 8 * i, L::kLoadThreads);
      init_barrier(empty + 8 * i, kMathWarps);
    }
    init_barrier(drained, kMathWarps);
  }
  __syncthreads();
  if (threadIdx.x < L::kLoadThreads) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (C::kTradesRegisters) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kLoadRegisters));
    }
#endif
    const Filler<P, C> filler{shared, x, y, static_cast<int>(threadIdx.x)};
    load_role<P, C, S>(filler, full, empty, drained);
  } else {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (C::kTradesRegisters) {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMathRegisters<C::kLoadWarps>));
    }
#endif
    math_role<P, C, S, Epilogue>(shared, out, workspace, flags, threadIdx.x - L::kLoadThreads,
                                 full, empty, drained);
  }
}

template <class P, class C, class S, class Epilogue>
__device__ __forceinline__ void run_uniform(char* shared, const typename P::E* x,
                                            const typename P::E* y, typename Epilogue::Stored* out,
                                            float* workspace, unsigned* flags) {
  using L = Layout<P, C>;
  const int thread = threadIdx.x;
  const Filler<P, C> filler{shared, x, y, thread};
  partition::Work work;
  for (typename S::Walk walk(blockIdx.x); walk.next(work);) {
    const Place<P, C> place(work.tile);
    const int steps = work.end - work.begin;
    Sums<P, C> sums;
    sums.clear();
    filler.fill_lead(place, work.begin);
    for (int step = 0; step < C::kStages - 1; ++step) {
      if (step < steps) filler.fill_step(place, work.begin, step, step);
      commit_copies();
    }
    int reading = 0, writing = C::kStages - 1, ring = L::kLead;
    for (int step = 0; step < steps; ++step) {
      wait_copies<C::kStages - 2>();
      see_copies<C>();
      __syncthreads();
      if (step + C::kStages - 1 < steps) {
        filler.fill_step(place, work.begin, step + C::kStages - 1, writing);
      }
      commit_copies();
      sums.multiply(shared, reading, ring * L::kChunk, place.set, thread, [] {});
      sums.finish();
      reading = reading + 1 == C::kStages ? 0 : reading + 1;
      writing = writing + 1 == C::kStages ? 0 : writing + 1;
      ring = ring + 1 == L::kRingChunks ? 0 : ring + 1;
    }
    wait_copies<0>();
    __syncthreads();
    Kept<P, C> kept(sums, shared, thread);
    __syncthreads();
    finish_tile<P, C, Epilogue>(work, place, kept, shared, out, workspace, flags, thread);
    __syncthreads();
  }
}

template <class P, class C, class S, class Epilogue>
__device__ __forceinline__ void run(const typename P::E* x, const typename P::E* y,
                                    typename Epilogue::Stored* out, float* workspace,
                                    unsigned* flags) {
  extern __shared__ __align__(128) char shared[];
  if constexpr (C::kLoadWarps > 0) {
    run_with_roles<P, C, S, Epilogue>(shared, x, y, out, workspace, flags);
  } else {
    run_uniform<P, C, S, Epilogue>(shared, x, y, out, workspace, flags);
  }
}

}  // namespace convir::taps_wgrad
