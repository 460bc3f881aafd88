// Rows of a product whose columns are those of several phases of output pixels: a row is a place of
// each phase.
//
// Problem: `kOutChannels` of a phase, in `kPhaseColumns` columns; offsets[phase], its place in C.
#pragma once

#include "epilogue/wgmma_store.cuh"

namespace convir::wgmma {

// The place of a row's output pixels in C, and which phases have one; of the columns from `kFirst` of
// all phases on.
template <class Problem, int kFirst = 0>
struct PhaseRow {
  static constexpr int kFusedZeroFills = 0, kCellZeroFills = 0;
  template <int kOutChannels>
  static constexpr int kRowChannels = kOutChannels;

  long long offset;
  unsigned phases;

  static __device__ __forceinline__ unsigned zero_fill() { return 0; }
  __device__ __forceinline__ PhaseRow of(int r) const {
    return {__shfl_sync(kAllLanes, offset, r), __shfl_sync(kAllLanes, phases, r)};
  }
  template <int kStaged, int kPerChunk>
  __device__ __forceinline__ bool has(int chunk, int) const {
    const int column = kFirst + chunk * kPerChunk;
    return (phases >> (column / Problem::kPhaseColumns) & 1) &&
           column % Problem::kPhaseColumns < Problem::kOutChannels;
  }
  __device__ __forceinline__ bool has_column(int channel, int out_channels) const {
    return has<0, 1>(channel, out_channels);
  }
};

// The operands of a lane's accumulators.
template <class Problem, int kFirst>
struct PhaseColumns {
  const PhaseRow<Problem, kFirst>& row;  // `threadIdx.x % 16` of the warp's

  // What no position has reads the operands of element 0.
  __device__ __forceinline__ OperandPlace operator()(int half, int column) const {
    const int phase = (kFirst + column) / Problem::kPhaseColumns;
    // Asked for again rather than kept: all other registers have accumulators.
    const int of = threadIdx.x % 32 / 4 + half * 8;
    const int channel = (kFirst + column) % Problem::kPhaseColumns + threadIdx.x % 4 * 2;
    const bool is_inside = (__shfl_sync(kAllLanes, row.phases, of) >> phase & 1) &&
                           channel < Problem::kOutChannels;
    const long long element =
        __shfl_sync(kAllLanes, row.offset, of) + Problem::offsets[phase] +
        channel * Problem::kChannelStride;
    return {is_inside ? element : 0, is_inside ? channel : 0};
  }
};

}  // namespace convir::wgmma
