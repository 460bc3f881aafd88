// The order of the tiles of a persistent contraction, and where output pixels lie.
#pragma once

#include "arith/coordinates.cuh"

namespace convir::wgmma {

constexpr int kMaxSpatial = 3;
constexpr int kMaxAxes = kMaxSpatial + 1;

// Output pixels that share their taps. Axes are innermost first; the last one is the batch, whose
// size a launch hands over as `images`: what counts pixels counts those of an image.
struct Phase {
  int pixels;
  int sizes[kMaxAxes];
  long long out_strides[kMaxAxes];  // elements of C
  long long out_offset;
  int map;                  // which tensor map of A
  int corner[kMaxSpatial];  // position of A that output pixel 0 of each spatial axis maps to
  int steps[kMaxSpatial];   // pixels of A per output pixel
  int first_tap, taps;
};

struct Tap {
  int offset[kMaxSpatial];  // pixels of A behind the corner, not negative
  int weight;               // which matrix of B
};

// Neighbouring phases with equally many tiles and taps: their tiles alternate, as they read the
// same rows of A.
struct TileGroup {
  int first_phase, phases;
  int pixels;  // of one phase
};

// The number of a tile, in the table of those that each block computes in turn.
using TileNumber = unsigned short;
constexpr TileNumber kNoTile = 0xffff;

// Other zeros: runs of contiguous bytes, at every position of `sizes`.
struct ZeroFill {
  int chunks;  // of 16 bytes, in a run
  int pieces;  // that a run is cut into
  int runs;    // of an image
  int sizes[kMaxAxes];
  long long strides[kMaxAxes];  // elements of C
  long long offset;
};

// Zeros that belong to the output pixels of the only phase with taps, up to `sizes`: the same
// columns, `delta` elements behind.
struct CellZeroFill {
  int sizes[kMaxAxes];
  long long delta;
};

// Columns of the product that are the row of an output pixel `offset` elements behind.
struct Piece {
  long long offset;
};

// Reads a word that is not used.
__device__ __forceinline__ void touch(int word) { asm volatile("" ::"r"(word)); }

struct Tile {
  int phase;
  int m;
  int n;
};

// A few threads: brings the tables into the multiprocessor's cache, all of it at once. Nothing else
// of a small problem takes as long as their first reads, if one waits for the other.
template <class Problem>
__device__ __forceinline__ void touch_tables(int block, int thread, int threads) {
  if constexpr (Problem::kOrdered > 0) touch(Problem::next(block * Problem::kOrdered));
  for (int i = thread; i < Problem::kTaps; i += threads) touch(Problem::tap(i).weight);
  for (int i = thread; i < Problem::kPhases; i += threads) {
    touch(Problem::phase(i).pixels);
    touch(Problem::phase(i).taps);
  }
  for (int i = thread; i < Problem::kTileGroups; i += threads) {
    touch(Problem::tile_group(i).pixels);
  }
}

// The tile number `t`, or false past the last one. Columns change fastest, contiguous then
// share rows of A while the whole of B stays in the L2 cache.
template <class Problem, int kBlockM>
__device__ __forceinline__ bool tile_at(int t, int n_tiles, int images, Tile& tile) {
  for (int i = 0; i < Problem::kTileGroups; ++i) {
    const TileGroup& group = Problem::tile_group(i);
    const int m_tiles = (images * group.pixels + kBlockM - 1) / kBlockM;
    const int count = m_tiles * group.phases * n_tiles;
    if (t < count) {
      tile.n = t % n_tiles;
      t /= n_tiles;
      tile.phase = group.first_phase + t % group.phases;
      tile.m = t / group.phases;
      return true;
    }
    t -= count;
  }
  return false;
}

// The tile of a block's turn, or false if it has no more: tiles go round the blocks, or a table has
// those of each.
template <class Problem, int kBlockM>
__device__ __forceinline__ bool tile_of(int block, int blocks, int next, int n_tiles, int images,
                                        Tile& tile) {
  if constexpr (Problem::kOrdered > 0) {
    if (next >= Problem::kOrdered) return false;
    const int t = Problem::next(block * Problem::kOrdered + next);
    return t != kNoTile && tile_at<Problem, kBlockM>(t, n_tiles, images, tile);
  } else {
    return tile_at<Problem, kBlockM>(block + next * blocks, n_tiles, images, tile);
  }
}

// The tiles of a block, in order. With kSplits > 1 it has one split of one tile: unit p * tiles + t
// has split p of tile t, so blocks that run together read the same part of B.
template <class Problem, int kBlockM, int kNTiles, int kSplits = 1>
struct Tiles {
  int images;

  static __device__ __forceinline__ int count() { return gridDim.x / kSplits; }
  static __device__ __forceinline__ int number() { return blockIdx.x % count(); }
  static __device__ __forceinline__ int split() { return blockIdx.x / count(); }

  template <class Body>
  __device__ __forceinline__ void for_each(Body&& body) const {
    Tile tile;
    if constexpr (kSplits > 1) {
      static_assert(Problem::kOrdered == 0, "a block has one tile");
      if (tile_at<Problem, kBlockM>(number(), kNTiles, images, tile)) body(tile);
    } else {
      const int block = blockIdx.x, blocks = gridDim.x;
      for (int next = 0; tile_of<Problem, kBlockM>(block, blocks, next, kNTiles, images, tile);
           ++next) {
        body(tile);
      }
    }
  }
};

// Splits a position's number into its place along axes of `sizes`.
__device__ __forceinline__ void pixels_of(int number, const int (&sizes)[kMaxAxes],
                                             int (&at)[kMaxAxes]) {
  split_number<kMaxAxes, false>(
      number, [&](int axis) { return sizes[axis]; }, [&](int axis, int x) { at[axis] = x; });
}

// The pixel of A, behind its channel, that the window of output pixel `number` begins at: the
// coordinates of an im2col copy.
template <int kSpatial, class Sizes, class Steps, class Corner>
__device__ __forceinline__ void window_at(int number, const Sizes& sizes, const Steps& steps,
                                          const Corner& corner, int (&at)[5]) {
  int x[kMaxAxes];
  pixels_of(number, sizes, x);
#pragma unroll
  for (int axis = 0; axis < kSpatial; ++axis) at[1 + axis] = x[axis] * steps[axis] + corner[axis];
  at[1 + kSpatial] = x[kMaxAxes - 1];
}

__device__ __forceinline__ long long offset_of(const int (&at)[kMaxAxes],
                                               const long long (&strides)[kMaxAxes]) {
  long long offset = 0;
#pragma unroll
  for (int axis = 0; axis < kMaxAxes; ++axis) offset += at[axis] * strides[axis];
  return offset;
}

}  // namespace convir::wgmma
