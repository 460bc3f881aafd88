// Products of tiles of f32 in shared memory by a warpgroup, as products of TF32 (sm_90a), the rows
// of A in registers.
//
// x = high + low as in mma/sm80_split_tile.cuh: of A in registers, of B in two tiles. wgmma adds the
// products of a step, the small ones first; the FMA units add these sums, which rounds to nearest.
#pragma once

#include "arith/sizes.cuh"
#include "mma/sm80_split_tile.cuh"
#include "mma/sm90_tile.cuh"
#include "ptx/named_barrier.cuh"

namespace convir::mma {

// The byte of 16 bytes of a line of k, of a tile in the 128-byte swizzle. flipped() is that of
// chunk ^ `by` of a line, where that of `chunk` is known: addresses are found when they are used, as
// registers are few.
__device__ __forceinline__ int byte_of_line(int line, int chunk) {
  return line * hopper::kSwizzleBytes + (chunk ^ line % 8) * 16;
}
__device__ __forceinline__ unsigned flipped(unsigned address, int by) { return address ^ by * 16; }

// What a lane reads of the warpgroup's 64 lines of k at `tile`: where that begins, and 8 k of its
// warp's 16 lines, which begin with 8 `k`.
__device__ __forceinline__ unsigned first_of_lines(unsigned tile) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  return tile + byte_of_line(warp * 16 + lane % 16, lane / 16);
}
__device__ __forceinline__ void load_lines(unsigned (&to)[4], unsigned first, int k) {
  load_matrices(to, flipped(first, 2 * k));
}

// Two warpgroups that multiply in turn: one adds the sums of a step, and loads and splits the next
// one's rows, while the other multiplies. Else the tensor cores alternate between both, which end
// together and then leave them idle. Barriers kBarrier and the next one are theirs.
template <int kBarrier>
struct Turns {
  int consumer;  // 0 or 1

  __device__ __forceinline__ explicit Turns(int of) : consumer(of) {
    if (consumer == 1) pass();
  }
  __device__ __forceinline__ void wait() const {
    named_sync(kBarrier + consumer, 2 * kWarpgroupThreads);
  }
  __device__ __forceinline__ void pass() const {
    named_arrive(kBarrier + 1 - consumer, 2 * kWarpgroupThreads);
  }
};

// d += the products of a step: of 64 rows, which load(x, k) loads, and kN columns, whose tiles begin
// at b and `to_low` bytes behind; ready() when these may be read, read() when they were.
template <int kN, int kSteps, class Turns, class Load, class Ready, class Read>
__device__ __forceinline__ void multiply_split(float (&d)[kN / 2], unsigned b, int to_low,
                                               const Turns& turns, Load&& load, Ready&& ready,
                                               Read&& read) {
  using Multiply = hopper::Wgmma<float, kN, hopper::kMajorK, hopper::kMajorK>;
  constexpr unsigned long long kStep = hopper::kDescriptorStep<hopper::kMajorK>;
  unsigned high[kSteps][4], low[kSteps][4];
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    load(high[k], k);
    split_operands(high[k], low[k]);
  }
  ready();
  turns.wait();
  const auto of_high = hopper::tile_descriptor<hopper::kMajorK, kSteps * 8>(b);
  const auto of_low = hopper::moved(of_high, to_low);
  float sums[kN / 2];
  hopper::hold(sums);
  hopper::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) Multiply::run(sums, low[k], of_high + k * kStep, k > 0);
#pragma unroll
  for (int k = 0; k < kSteps; ++k) Multiply::run(sums, high[k], of_low + k * kStep, 1);
  hopper::wgmma_commit();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) Multiply::run(sums, high[k], of_high + k * kStep, 1);
  hopper::wgmma_commit();
  hopper::hold(sums);
  // The last third is still to be done when the other warpgroup begins.
  hopper::wgmma_wait<1>();
  turns.pass();
  hopper::wgmma_wait<0>();
  hopper::hold(sums);
  read();
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) d[i] += sums[i];
}

// d += the products of a step, of elements that are TF32: one for three above.
template <int kN, int kSteps, class Load, class Ready, class Read>
__device__ __forceinline__ void multiply_lines(float (&d)[kN / 2], unsigned b, Load&& load,
                                               Ready&& ready, Read&& read) {
  using Multiply = hopper::Wgmma<float, kN, hopper::kMajorK, hopper::kMajorK>;
  constexpr unsigned long long kStep = hopper::kDescriptorStep<hopper::kMajorK>;
  unsigned a[kSteps][4];
#pragma unroll
  for (int k = 0; k < kSteps; ++k) load(a[k], k);
  ready();
  const auto from = hopper::tile_descriptor<hopper::kMajorK, kSteps * 8>(b);
  hopper::hold(d);
  hopper::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) Multiply::run(d, a[k], from + k * kStep, 1);
  hopper::wgmma_commit();
  hopper::hold(d);
  hopper::wgmma_wait<0>();
  hopper::hold(d);
  read();
}

template <int kCount>
__device__ __forceinline__ void clear(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) d[i] = 0.0f;
}

// Whether no accumulator is infinite or NaN.
template <int kCount>
__device__ __forceinline__ bool are_finite(const float (&d)[kCount]) {
  float zero = 0.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) zero = fmaf(d[i], 0.0f, zero);
  return !isnan(zero);
}

// Replaces those that are not by sum(row, column), where is_inside(row, column) says that they
// count: of the warpgroup's 64 rows and kN columns.
template <int kCount, class Inside, class Sum>
__device__ __forceinline__ void compute_again(float (&d)[kCount], Inside&& is_inside, Sum&& sum) {
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll 1
  for (int i = 0; i < kCount; ++i) {
    float x = 0.0f;
#pragma unroll
    for (int j = 0; j < kCount; ++j) x = i == j ? d[j] : x;
    const int row = first + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (isfinite(x) || !is_inside(row, column)) continue;
    x = sum(row, column);
#pragma unroll
    for (int j = 0; j < kCount; ++j) d[j] = i == j ? x : d[j];
  }
}

}  // namespace convir::mma
