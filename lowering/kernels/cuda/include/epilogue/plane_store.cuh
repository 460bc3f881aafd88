// The store of a wgmma contraction to channels that are planes (channels first): rows of a tile are
// neighbours in C, columns lie kChannelStride elements apart.
//
// Problem (generated):
//   kChannelStride   elements of C between two channels; 1 if channels are neighbours
//   kPlaneWidth      rows of a tile that are stored in one access: from a multiple of them on they
//                    are neighbours in C, at a multiple of them, and all lie inside or none does
//   kPlanePairs      whether columns are those of two phases whose pixels alternate in C
//   kPlaneLines      lines of pixels of a warp's rows, boxes that TMA stores; 0 if lanes store runs
#pragma once

#include "epilogue/wgmma_store.cuh"
#include "load/vectors.cuh"

namespace convir::wgmma {

template <class Problem>
constexpr bool stores_planes() {
  return Problem::kChannelStride != 1;
}

// Lines that rows are staged as.
template <class Problem>
constexpr int staged_lines() {
  return Problem::kPlaneLines > 0 ? Problem::kPlaneLines : stores_planes<Problem>() ? 1 : 0;
}

// Stages channels of a warp's rows by stage(), and stores them by copy(), of one thread, when TMA
// gets to it. The staging may have what was stored before.
template <class Stage, class Copy>
__device__ __forceinline__ void store_boxes(Stage&& stage, Copy&& copy) {
  const bool is_first = threadIdx.x % 32 == 0;
  if (is_first) hopper::wait_stores_read();
  __syncwarp();
  stage();
  hopper::fence_proxy();
  __syncwarp();
  if (is_first) {
    copy();
    hopper::commit_stores();
  }
}
// A warp's staging has been read: before it ends.
template <class Problem>
__device__ __forceinline__ void finish_boxes() {
  if constexpr (Problem::kPlaneLines > 0) {
    if (threadIdx.x % 32 == 0) hopper::wait_stores_read();
  }
}

template <int kElements>
using Run = typename Word<2 * kElements>::Type;

// The rows of a lane's accesses: kWidth from row() on, of channel() and those kTogether further.
template <int kWidth>
struct LaneRows {
  static constexpr int kGroups = kWarpRows / kWidth, kTogether = 32 / kGroups;
  static __device__ __forceinline__ int row() { return threadIdx.x % 32 % kGroups * kWidth; }
  static __device__ __forceinline__ int channel() { return threadIdx.x % 32 / kGroups; }
};

// Stores staged channels of a warp's rows, in runs along the rows. `row.of(r)` is the place of row
// r, and has_column(channel, out_channels) whether C has it.
template <class Problem, int kOutChannels, class Rows>
__device__ __forceinline__ void store_planes(typename Problem::Epilogue::Stored* c,
                                             unsigned staging, const Rows& row, int out_channels) {
  static_assert(sizeof(*c) == 2 && Rows::kFusedZeroFills + Rows::kCellZeroFills == 0);
  using Lane = LaneRows<Problem::kPlaneWidth>;
  const Rows at = row.of(Lane::row());
  __syncwarp();
#pragma unroll 4
  for (int i = 0; i < kOutChannels; i += Lane::kTogether) {
    const int channel = i + Lane::channel();
    Run<Problem::kPlaneWidth> x;
    load_ordered(x, staging + place_in_planes(channel, Lane::row()));
    if (at.has_column(channel, out_channels)) {
      *reinterpret_cast<decltype(x)*>(c + at.offset + channel * Problem::kChannelStride) = x;
    }
  }
  __syncwarp();
}

// The same of the channels of two phases, one behind the other, whose pixels alternate in C.
template <class Problem, int kOutChannels, class Rows>
__device__ __forceinline__ void store_plane_pairs(typename Problem::Epilogue::Stored* c,
                                                  unsigned staging, const Rows& row) {
  constexpr int kWidth = Problem::kPlaneWidth, kOfPhase = kOutChannels / 2;
  using Lane = LaneRows<kWidth>;
  const Rows at = row.of(Lane::row());
  __syncwarp();
#pragma unroll 2
  for (int i = 0; i < kOfPhase; i += Lane::kTogether) {
    const int channel = i + Lane::channel();
    Vector<unsigned short, kWidth> x[2];
    Vector<unsigned short, 2 * kWidth> both;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      Run<kWidth> run;
      load_ordered(run, staging + place_in_planes(channel + j * kOfPhase, Lane::row()));
      memcpy(&x[j], &run, sizeof(run));
    }
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      both[2 * j] = x[0][j];
      both[2 * j + 1] = x[1][j];
    }
    if (at.has_column(channel, kOutChannels)) {
      store(reinterpret_cast<unsigned short*>(c + at.offset) + channel * Problem::kChannelStride,
            both);
    }
  }
  __syncwarp();
}

}  // namespace convir::wgmma
