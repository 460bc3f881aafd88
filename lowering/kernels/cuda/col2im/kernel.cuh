// Columns of a product, each a plane of the pixels of A, added where their taps meet: a thread sums
// what all taps have for one output pixel and applies the epilogue. `Problem` is that of
// sm80_implicit_gemm; `Columns` is a struct of constants that
// lowering/kernels/cuda/col2im/family.py writes:
//   kFirst, kStep        the element of B of column 0, elements of B between two columns
//   kPixels, row(axis)   pixels of a plane, those between two along an axis
#pragma once

#include "epilogue/row_offsets.cuh"
#include "ptx/mma_sync.cuh"

namespace convir {
namespace implicit_gemm {

constexpr int kMostUnrolledTaps = 64;

template <class P, class Columns, class E, int kPhase>
__device__ __forceinline__ void add_phase(const typename P::Sum* __restrict__ columns,
                                          typename E::Stored* out,
                                          const typename E::Pointers& pointers) {
  constexpr int kTaps = P::kPhase[kPhase].taps;
  const auto& in = P::kPhase[kPhase];
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= in.pixels) return;
  int corner[P::kAxes];
  along<P>(in.size, x, [&](int axis, int at) {
    corner[axis] = at * in.step[axis] + in.first[axis];
  });
  typename P::Sum sums[P::kOutChannels] = {};
#pragma unroll(kTaps <= kMostUnrolledTaps ? kTaps : 1)
  for (int number = 0; number < kTaps; ++number) {
    bool inside = true;
    int pixel = 0;
    long long weight = in.weight - Columns::kFirst;
    along<P>(in.along, number, [&](int axis, int tap) {
      const int row = corner[axis] + tap * in.tap_step[axis];
      inside &= row >= 0 && row < in.extent[axis];
      pixel += row * Columns::row(axis);
      weight += tap * in.tap_weight[axis];
    });
    if (!inside) continue;
#pragma unroll
    for (int n = 0; n < P::kOutChannels; ++n) {
      const long long column = (weight + n * P::kBOutChannel) / Columns::kStep;
      sums[n] += columns[column * Columns::kPixels + pixel];
    }
  }
  RowOffsets<P, E> row;
  row.find(kPhase, 0, x);
#pragma unroll
  for (int n = 0; n < P::kOutChannels; ++n) {
    long long at[E::kOperands > 0 ? E::kOperands : 1] = {};
#pragma unroll
    for (int k = 0; k < E::kOperands; ++k) at[k] = row.of[k] + P::kEpilogueColumn[k] * n;
    out[row.out + P::kCStride * n] =
        kTaps == 0 ? E::zero_fill(pointers, at) : E::apply(sums[n], pointers, at);
  }
}

// blockIdx.y is the phase.
template <class P, class Columns, class E>
__device__ __forceinline__ void add_columns(const typename P::Sum* __restrict__ columns,
                                            typename E::Stored* out,
                                            const typename E::Pointers& pointers) {
  static_for<P::kPhases>([&](auto phase) {
    constexpr int kPhase = decltype(phase)::value;
    if (blockIdx.y == kPhase) add_phase<P, Columns, E, kPhase>(columns, out, pointers);
  });
}

}  // namespace implicit_gemm
}  // namespace convir
