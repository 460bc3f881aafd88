// The accumulators of a consumer warpgroup of sm90_row_packed_wgrad/kernel.cuh: how slabs are
// multiplied, and where results lie.
#pragma once

#include "epilogue/vector_store.cuh"
#include "load/tiles.cuh"
#include "ptx/mma_sync.cuh"
#include "ptx/wgmma.cuh"
#include "sm90_row_packed_wgrad/tile.cuh"

namespace convir::row_packed_wgrad {

// A stage's X and dY, as wgmma finds them.
template <class P, class C>
struct Operands {
  using L = Layout<P, C>;
  unsigned x;
  unsigned long long from_x, from_y;

  __device__ __forceinline__ Operands(unsigned of_x, unsigned of_y)
      : x(of_x),
        from_x(hopper::atoms_descriptor(of_x, L::kAlongX)),
        from_y(hopper::core_descriptor(of_y, L::kAlongY, L::kPlaneBytes)) {}
};

// X in memory is a descriptor of what lies m innermost; else registers have it.
template <class X>
constexpr hopper::Major kMajorX = sizeof(X) == sizeof(unsigned long long) ? hopper::kMajorMN
                                                                          : hopper::kMajorK;

template <class P, class C>
struct Accumulators {
  using L = Layout<P, C>;
  using Operands = row_packed_wgrad::Operands<P, C>;
  float accumulators[C::kTapCols][L::kStack8][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < L::kTiles8; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) accumulators[i / L::kStack8][i % L::kStack8][k] = 0.0f;
    }
  }
  __device__ __forceinline__ const float (&operator()(int tile8) const)[4] {
    return accumulators[tile8 / L::kStack8][tile8 % L::kStack8];
  }

  // Adds one slab of a stage's X and dY; `shift` has where the taps of a row begin.
  __device__ __forceinline__ void multiply(const Operands& of, int slab,
                                           const int (&shift)[C::kTapCols]) {
    multiply_by(hopper::moved(of.from_x, x_of(slab)), of, slab, shift);
  }

  // The same with X's slab in registers.
  __device__ __forceinline__ void multiply(const Operands& of, int slab,
                                           const int (&shift)[C::kTapCols], unsigned (&a)[4]) {
    load_x(a, of.x, slab);
    multiply_by(a, of, slab, shift);
  }
  template <class X>
  __device__ __forceinline__ void multiply_by(const X& x, const Operands& of, int slab,
                                              const int (&shift)[C::kTapCols]) {
    const auto from_y = hopper::moved(of.from_y, y_of(slab));
    hopper::wgmma_fence();
#pragma unroll
    for (int s = 0; s < C::kTapCols; ++s) {
      hopper::Wgmma<typename P::E, 8 * L::kStack8, kMajorX<X>, hopper::kMajorMN>::run(
          accumulators[s][0], x, hopper::moved(from_y, 16 * shift[s]));
    }
    hopper::wgmma_commit();
  }

  __device__ __forceinline__ void hold() {
#pragma unroll
    for (int i = 0; i < L::kTiles8; ++i) hopper::hold(accumulators[i / L::kStack8][i % L::kStack8]);
  }

  // Where a slab begins; groups that have rows of their own have every other slab.
  static __device__ __forceinline__ int row_of(int slab) {
    constexpr int kEvery = L::kBetweenRows;
    return slab / kEvery / L::kSlabsOfRow * (kEvery * C::kSlabRows) + slab % kEvery;
  }
  static __device__ __forceinline__ int col_of(int slab) {
    return slab / L::kBetweenRows % L::kSlabsOfRow * L::kSlabCols;
  }
  // Bytes of a stage's X, and of its dY, before a slab.
  static __device__ __forceinline__ int x_of(int slab) {
    return row_of(slab) * L::kXRowBytes + col_of(slab) * hopper::kSwizzleBytes;
  }
  static __device__ __forceinline__ int y_of(int slab) {
    return L::y_of(row_of(slab)) + col_of(slab) * 16;
  }
  static __device__ __forceinline__ void load_x(unsigned (&a)[4], unsigned of_x, int slab) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int chunk = (2 * warp + lane / 8 % 2) ^ lane % 8;
    load_transposed(a, of_x + x_of(slab) + lane % 8 * hopper::kSwizzleBytes +
                           lane / 16 * L::kAlongX + chunk * 16);
  }
};

// Stores four accumulators of a thread of a consumer warpgroup: those of eight `tile8` of columns.
template <class P, class C, class Epilogue>
__device__ __forceinline__ void store(typename Epilogue::Stored* out, const Place<P, C>& place,
                                      int tile8, int thread, const float (&accumulators)[4]) {
  using L = Layout<P, C>;
  const int lane = thread % 32, warp = thread / 32;
  const int tap_col = place.tap_col + tile8 / L::kStack8;
  int packed = tile8 % L::kStack8 * kEight + lane % 4 * 2;
  if constexpr (L::kIsShifted) {
    if (tile8 == L::Groups::kKept && L::Kept::is_given(lane)) return;
    if (tile8 >= L::Groups::kKept) packed -= kEight / 2;
  }
  if (L::kIsPacked && (packed < 0 || packed >= C::kTapRows * C::kOutChannels)) return;
  const int tap_row = place.tap_row + C::kTapRows - 1 - packed / C::kOutChannels;
  if (tap_col >= P::kAllTapCols || tap_row >= P::kAllTapRows) return;
  const int in_channels = place.in_channels + warp * 16 + lane / 4;
  const int column = place.column + packed % C::kOutChannels;
  out += P::kBGroup * place.group + entry(P::kWeightOfRow, tap_row) +
         entry(P::kWeightOfCol, tap_col);
  store_four<P, Epilogue>(out, in_channels, column, accumulators);
}

}  // namespace convir::row_packed_wgrad
