// Backward weight, all taps of a tile at once.
//
// Input and gradient are walked on one grid of output pixels, so wide that a tap is a constant
// distance (where windows move by several output pixels, X is as many planes, and a tile has taps
// of one):
//
//   dW[tap][d, n] = sum over x of X[x, d] * dY[x - shift(tap), n]
//
// where both are zero outside of their extents, and shift(tap) = kBase + kShift of its group. A
// block keeps, for 64 input channels d, the accumulators of all taps of a group and of 8 * kN8
// columns n in registers. So an element of X is read once from memory and once from shared memory;
// dY is a ring of output pixels, from which each tap multiplies at its own distance. The reduction
// moves a chunk of output pixels at a time; consumer warpgroups of four warps share it.
//
// Pipelines: uniform (every warp copies and multiplies), or roles: kLoadWarps warps own addresses
// and copies, the others shared memory, multiplications and the store.
// Partitions: schedule/partition.cuh. `P` and `C` are structs of constants, which
// lowering/kernels/cuda/multi_tap_wgrad/launch.py writes.
#pragma once

#include "arith/coordinates.cuh"
#include "load/pieces.cuh"
#include "multi_tap_wgrad/accumulators.cuh"
#include "multi_tap_wgrad/tile.cuh"
#include "pipeline/multistage.cuh"
#include "pipeline/warp_specialized.cuh"
#include "ptx/mbarrier.cuh"
#include "schedule/partition.cuh"

namespace convir::multi_tap_wgrad {

// Where a position of the grid lies in the plane of X of a tap group (kIsX), or in dY; false if
// outside.
template <class P, bool kIsX>
__device__ __forceinline__ bool find(int position, int group, typename P::Offset& offset) {
  bool inside = static_cast<unsigned>(position) < static_cast<unsigned>(P::kPixels);
  const unsigned number = inside ? position : 0;
  offset = 0;
  const auto grid = [](int axis) { return static_cast<unsigned>(P::kGrid[axis]); };
  split_number<P::kAxes, true>(number, grid, [&](int axis, unsigned at) {
    const int extent = kIsX ? P::kExtentX[group][axis] : P::kExtentY[axis];
    inside = inside && at < static_cast<unsigned>(extent);
    offset += (kIsX ? P::kStrideX : P::kStrideY)[axis] * static_cast<typename P::Offset>(at);
  });
  return inside;
}

// Copies of the producer warps. Output pixels are taken apart once, by a lane each; the lanes that
// copy pieces of a row ask it.
template <class P, class C>
struct Filler {
  using L = Layout<P, C>;
  using E = typename P::E;
  using Offset = typename P::Offset;
  static constexpr int kWarps = L::kLoadThreads / 32;
  static constexpr int kBlocks = L::kChunk / 32;  // of 32 output pixels
  static constexpr int kXPieces = kRows * 2 / P::kXPiece;
  static constexpr int kLiveOutChannels = L::kOutChannelTiles == 1 ? P::kOutChannels : 8 * C::kN8;
  static constexpr int kYPieces = (kLiveOutChannels * 2 + P::kYPiece - 1) / P::kYPiece;

  char* shared;
  const E* x;
  const E* y;
  int thread;

  // Copies rows of 32 output pixels in kPieces pieces of kBytes; to(position, byte, copy) calls
  // copy(place) where the one at a byte of a row goes.
  template <bool kIsX, int kPieces, int kBytes, class To>
  __device__ __forceinline__ void copy_rows(const Place<P, C>& place, int position, const E* base,
                                            int limit, const To& to) const {
    const int lane = thread % 32;
    Offset own;
    const bool inside = find<P, kIsX>(position + lane, place.set, own);
    if (!inside) own = -1;
    copy_pieces<32 * kPieces, 32, kBytes, 3>(lane, [&](int, int i, auto copy) {
      const int at = i / kPieces, piece = i % kPieces;
      const Offset row = __shfl_sync(~0u, own, at);
      if (piece * (kBytes / 2) >= limit) return;
      const E* from = row < 0 ? base : base + (row + piece * (kBytes / 2));
      to(at, piece * kBytes, [&](char* place) { copy(place, from, row >= 0); });
    });
  }

  // Fills 32 output pixels of a stage.
  __device__ __forceinline__ void fill_x(const Place<P, C>& place, int chunk, int stage,
                                         int block) const {
    char* to = shared + stage * L::kStageBytes + block * (32 * kRows * 2);
    const E* from = x + P::kXGroup * place.group + P::kOffsetX[place.set] + place.in_channels;
    copy_rows<true, kXPieces, P::kXPiece>(
        place, chunk * L::kChunk + block * 32, from, P::kInChannels - place.in_channels,
        [&](int at, int byte, auto copy) {
          const int unit = byte / 16 ^ at % 8;
          copy(to + at * (kRows * 2) + unit * 16 + byte % 16);
        });
  }

  // Fills 32 output pixels of chunk `ring` of the ring with dY's chunk `chunk`, which may lie
  // outside.
  __device__ __forceinline__ void fill_y(const Place<P, C>& place, int chunk, int ring,
                                         int block) const {
    const int slot = ring * L::kChunk + block * 32;
    char* to = shared + L::kRingAt + slot * 16;
    const bool is_first = slot == 0;  // which is repeated behind the last
    copy_rows<false, kYPieces, P::kYPiece>(
        place, chunk * L::kChunk + block * 32 - P::kBase[place.set],
        y + P::kYGroup * place.group + place.column, P::kOutChannels - place.column,
        [&](int at, int byte, auto copy) {
          char* piece = to + byte / 16 * L::kPlaneBytes + at * 16 + byte % 16;
          copy(piece);
          if (is_first && at < kSlab) copy(piece + L::kRing * 16);
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

template <class P, class C, class S>
__device__ __forceinline__ void load_role(const Filler<P, C>& filler,
                                          const Pipeline<C::kStages>& pipeline, Drain drain) {
  const partition::Tiles<S> tiles = {static_cast<int>(blockIdx.x)};
  produce(tiles, pipeline, [&](const partition::Work& work, Producer<C::kStages>& fill) {
    const Place<P, C> place(work.tile);
    drain.wait();
    const int steps = work.end - work.begin;
    filler.fill_lead(place, work.begin);
    for (int step = 0; step < steps; ++step) {
      fill([&](int stage, unsigned full) {
        filler.fill_step(place, work.begin, step, stage);
        arrive_after_copies(full);
      });
    }
  });
}

template <class P, class C, class S, class Epilogue>
__device__ __forceinline__ void consumer_role(char* shared, typename Epilogue::Stored* out,
                                          float* workspace, unsigned* flags, int thread,
                                          const Pipeline<C::kStages>& pipeline,
                                          const Drain& drain) {
  using L = Layout<P, C>;
  PipelineState<C::kStages> done;
  const auto multiply = [&](const partition::Work& work, Accumulators<P, C>& accumulators,
                            Consumer<C::kStages>& full) {
    const Place<P, C> place(work.tile);
    const int steps = work.end - work.begin;
    accumulators.clear();
    int ring = L::kLead;
    const auto release = [&](int stage) {
      __syncwarp();
      full.release(stage);
      done.advance();
    };
    for (int step = 0; step < steps; ++step) {
      full.wait();
      see_copies<C>();
      accumulators.multiply(shared, full.at.stage, ring * L::kChunk, place.set, thread, [&] {
        if (C::kIsWgmma ? step > 0 : true) release(done.stage);
      });
      full.at.advance();
      ring = ring + 1 == L::kRingChunks ? 0 : ring + 1;
    }
    accumulators.finish();
    if (C::kIsWgmma) release(done.stage);
    return true;
  };
  const partition::Tiles<S> tiles = {static_cast<int>(blockIdx.x)};
  consume<Accumulators<P, C>>(
      tiles, pipeline, multiply,
      [&](const partition::Work& work, const Accumulators<P, C>& accumulators) {
        L::Groups::sync();  // nobody reads the pipeline any more
        typename L::Kept kept(accumulators, shared, thread);
        L::Groups::sync();  // the exchanged accumulators have been read
        finish_tile<P, C, S, Epilogue>(work, Place<P, C>(work.tile), kept, shared, out, workspace,
                                       flags, thread);
        drain.arrive();
      });
}

template <class P, class C, class S, class Epilogue>
__device__ __forceinline__ void run_with_roles(char* shared, const typename P::E* x,
                                               const typename P::E* y,
                                               typename Epilogue::Stored* out, float* workspace,
                                               unsigned* flags) {
  using L = Layout<P, C>;
  constexpr int kConsumerWarps = L::kConsumerThreads / 32;
  const Pipeline<C::kStages> pipeline(shared_address(shared + L::kBarriersAt));
  const Drain drain{pipeline.full + pipeline.kBytes};
  if (threadIdx.x == 0) {
    pipeline.init(L::kLoadThreads, kConsumerWarps * kWarpArrivals);
    init_barrier(drain.barrier, kConsumerWarps * kWarpArrivals);
  }
  __syncthreads();
  Roles<C::kTradesRegisters, kProducerRegisters, kConsumerRegisters<C::kLoadWarps>>::run(
      threadIdx.x < L::kLoadThreads,
      [&] {
        const Filler<P, C> filler{shared, x, y, static_cast<int>(threadIdx.x)};
        load_role<P, C, S>(filler, pipeline, drain);
      },
      [&] {
        consumer_role<P, C, S, Epilogue>(shared, out, workspace, flags,
                                         threadIdx.x - L::kLoadThreads, pipeline, drain);
      });
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
    Accumulators<P, C> accumulators;
    accumulators.clear();
    filler.fill_lead(place, work.begin);
    int ring = L::kLead;
    multistage<C::kStages, 1>(
        steps, [&](int step, int stage) { filler.fill_step(place, work.begin, step, stage); },
        [] { see_copies<C>(); },
        [&](int, int stage) {
          accumulators.multiply(shared, stage, ring * L::kChunk, place.set, thread, [] {});
          accumulators.finish();
          ring = ring + 1 == L::kRingChunks ? 0 : ring + 1;
        },
        [](int, int) {});
    typename L::Kept kept(accumulators, shared, thread);
    __syncthreads();
    finish_tile<P, C, S, Epilogue>(work, place, kept, shared, out, workspace, flags, thread);
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

}  // namespace convir::multi_tap_wgrad
