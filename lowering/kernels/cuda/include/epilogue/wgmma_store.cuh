// What is stored by a wgmma contraction: tiles from registers, a row of C per output position, and
// the zeros of holes.
#pragma once

#include "arith/scalars.cuh"
#include "epilogue/operands.cuh"
#include "ptx/counter.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
#include "schedule/wgmma_schedule.cuh"

namespace convir::wgmma {

constexpr int kChunkBytes = 16;
constexpr int kWarpRows = 16;
constexpr unsigned kAllLanes = 0xffffffff;

// The staging buffer of a warp: 16 rows of a tile, `kColumns` columns at a time. Rows are padded
// by a chunk, so that eight of them lie in different banks.
template <int kColumns, int kElementBytes = 2>
struct Staging {
  static constexpr int kPitch = kColumns * kElementBytes + kChunkBytes;
  static constexpr int kBytes = kWarpRows * kPitch;
};

// Two values as they lie in memory.
__device__ __forceinline__ float2 pair(float low, float high) { return make_float2(low, high); }
template <class Stored>
__device__ __forceinline__ unsigned pair(Stored low, Stored high) {
  static_assert(sizeof(Stored) == 2);
  return reinterpret_cast<const unsigned short&>(low) |
         static_cast<unsigned>(reinterpret_cast<const unsigned short&>(high)) << 16;
}

// What is stored for two elements of a hole, which reads no operands; of no use without holes.
template <class Problem>
__device__ __forceinline__ unsigned hole_pair() {
  using Epilogue = typename Problem::Epilogue;
  if constexpr (Problem::kHoles + Problem::kCellHoles + Problem::kFusedHoles == 0) {
    return 0;
  } else {
    const typename Epilogue::Pointers none = {};
    return pair(Epilogue::hole(none, nullptr), Epilogue::hole(none, nullptr));
  }
}

// Stores four 8x8 matrices; a lane has the address of one row of one of them.
__device__ __forceinline__ void store_matrices(unsigned to, const unsigned (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

// Two sums of a lane, stored as they are.
__device__ __forceinline__ void store_pair(unsigned to, const float2& x) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x.x), "f"(x.y) : "memory");
}

__device__ __forceinline__ uint4 load_chunk(unsigned from) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}

__device__ __forceinline__ void fill_chunk(unsigned to, unsigned x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(x) : "memory");
}

__device__ __forceinline__ void store_chunk(void* to, const uint4& x) {
  *reinterpret_cast<uint4*>(to) = x;
}

// The place of an output position's row of C.
struct Row {
  long long offset;  // elements
  int pixels;        // that the row covers: itself, and holes right behind it; 0 outside of C
  unsigned holes;    // which of the cell's holes there are
};

template <class Problem>
__device__ __forceinline__ Row row_at(const Phase& phase, int number) {
  if (number >= phase.positions) return {0, 0, 0};
  int at[kMaxAxes];
  positions_of(number, phase.sizes, at);
  Row row = {phase.out_offset + offset_of(at, phase.out_strides), 1, 0};
  if constexpr (Problem::kFusedHoles > 0) {
    constexpr int kPixels = 1 + Problem::kFusedHoles;
    row.pixels = min(kPixels, Problem::kRowPixels - at[0] * kPixels);
  }
  if constexpr (Problem::kCellHoles > 0) {
#pragma unroll
    for (int i = 0; i < Problem::kCellHoles; ++i) {
      const CellHole& hole = Problem::cell_hole(i);
      bool is_inside = true;
#pragma unroll
      for (int axis = 0; axis < kMaxAxes; ++axis) is_inside &= at[axis] < hole.sizes[axis];
      row.holes |= is_inside << i;
    }
  }
  return row;
}

// Matrices whose operands are loaded at once: storing one is a barrier to the compiler.
template <class Operands>
constexpr int operands_together() {
  return Operands::kCount == 1 ? 4 : Operands::kCount == 2 ? 2 : 1;
}

// From two sums of a lane to what is stored. A lane has rows `lane / 4` and 8 below it of a tile,
// and of every 8 columns those from `lane % 4 * 2`.
template <class Problem>
struct Finish {
  using Epilogue = typename Problem::Epilogue;
  using Operands = typename Problem::Operands;
  const typename Epilogue::Pointers& pointers;
  long long element[2];  // of C, column 0 of the lane's rows
  long long shift;
  int channel, columns;

  __device__ __forceinline__ Finish(const typename Epilogue::Pointers& operands, const Row& row)
      : pointers(operands) {
    if constexpr (Operands::kCount > 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        element[half] = __shfl_sync(kAllLanes, row.offset, threadIdx.x % 32 / 4 + half * 8);
      }
    }
  }

  static constexpr int kTogether = operands_together<Operands>();

  // The next columns begin `shift` elements behind column 0, with channel `channel`.
  __device__ __forceinline__ void begin(long long of_shift, int of_channel, int of_columns) {
    shift = of_columns > 0 ? of_shift : 0;
    channel = of_columns > 0 ? of_channel : 0;
    columns = of_columns;
  }

  // `column` is the first of 8; what lies outside of C reads operands of what does not.
  __device__ __forceinline__ auto operator()(float low, float high, int half, int column) const {
    if constexpr (Operands::kCount == 0) {
      return pair(Epilogue::apply(low, pointers, nullptr), Epilogue::apply(high, pointers, nullptr));
    } else {
      const int at = column < columns ? column + threadIdx.x % 4 * 2 : 0;
      typename Epilogue::Stored both[2];
      finish_pair<Epilogue, Operands>(both, low, high, pointers, element[half] + shift + at,
                                      channel + at, false);
      return pair(both[0], both[1]);
    }
  }
};

// What is stored for two sums by an epilogue without operands.
template <class Epilogue>
__device__ __forceinline__ unsigned finished(float low, float high) {
  const typename Epilogue::Pointers none = {};
  return pair(Epilogue::apply(low, none, nullptr), Epilogue::apply(high, none, nullptr));
}

// Columns `first` to `first + kColumns` of a warp's accumulators, as they are stored: `finish` turns
// two sums of a half of the rows into a word, or a pair of them, given the first of their 8 columns;
// `kTogether` matrices are finished before they are stored.
template <int kColumns, int kTogether = 1, int kValues, class Finisher>
__device__ __forceinline__ void stage(unsigned staging, const float (&d)[kValues], int first,
                                      const Finisher& finish) {
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(finish(0, 0, 0, 0)) == sizeof(float2)) {
    const unsigned to = staging + lane / 4 * Staging<kColumns, 4>::kPitch + lane % 4 * 8;
#pragma unroll
    for (int column = 0; column < kColumns; column += 8) {
      const int i = (first + column) / 2;
      store_pair(to + column * 4, finish(d[i], d[i + 1], 0, column));
      store_pair(to + 8 * Staging<kColumns, 4>::kPitch + column * 4,
                 finish(d[i + 2], d[i + 3], 1, column));
    }
  } else {
    const unsigned to =
        staging + lane % kWarpRows * Staging<kColumns>::kPitch + lane / kWarpRows * kChunkBytes;
    constexpr int kMatrices = kColumns / 16 % kTogether == 0 ? kTogether : 1;
#pragma unroll
    for (int column = 0; column < kColumns; column += 16 * kMatrices) {
      unsigned x[kMatrices][4];
#pragma unroll
      for (int j = 0; j < kMatrices; ++j) {
        const int at = column + j * 16, i = (first + at) / 2;
        x[j][0] = finish(d[i], d[i + 1], 0, at);
        x[j][1] = finish(d[i + 2], d[i + 3], 1, at);
        x[j][2] = finish(d[i + 4], d[i + 5], 0, at + 8);
        x[j][3] = finish(d[i + 6], d[i + 7], 1, at + 8);
      }
#pragma unroll
      for (int j = 0; j < kMatrices; ++j) store_matrices(to + (column + j * 16) * 2, x[j]);
    }
  }
}

// The same by an epilogue without operands.
template <class Epilogue, int kColumns, int kValues>
__device__ __forceinline__ void stage(unsigned staging, const float (&d)[kValues], int first) {
  stage<kColumns>(staging, d, first, [](float low, float high, int, int) {
    return finished<Epilogue>(low, high);
  });
}

// Stores `columns` staged columns of every row, and zeros into the holes that are fused with it.
template <class Problem, int kColumns>
__device__ __forceinline__ void store_rows(typename Problem::Epilogue::Stored* c, unsigned staging,
                                           const Row& row, int columns) {
  using Stored = typename Problem::Epilogue::Stored;
  constexpr int kPerChunk = kChunkBytes / static_cast<int>(sizeof(Stored));
  constexpr int kColumnChunks =
      (kColumns < Problem::kColumns ? kColumns : Problem::kColumns) / kPerChunk;
  constexpr int kChunks = kColumnChunks * (1 + Problem::kFusedHoles);
  const int lane = threadIdx.x % 32;
  const unsigned hole_value = hole_pair<Problem>();
  const uint4 zeros = make_uint4(hole_value, hole_value, hole_value, hole_value);
  __syncwarp();
#pragma unroll 4
  for (int i = lane; i < (kWarpRows * kChunks + 31) / 32 * 32; i += 32) {
    const int r = i / kChunks, chunk = i % kChunks;
    const long long offset = __shfl_sync(kAllLanes, row.offset, r);
    const int pixels = __shfl_sync(kAllLanes, row.pixels, r);
    const unsigned holes = __shfl_sync(kAllLanes, row.holes, r);
    const bool is_inside =
        r < kWarpRows && (chunk < kColumnChunks ? pixels > 0 && chunk * kPerChunk < columns
                                                : chunk < pixels * kColumnChunks);
    uint4 x = zeros;
    if (chunk < kColumnChunks && r < kWarpRows) {
      x = load_chunk(staging + r * Staging<kColumns, sizeof(Stored)>::kPitch +
                     chunk * kChunkBytes);
    }
    Stored* const to = c + offset + chunk * kPerChunk;
    if (is_inside) store_chunk(to, x);
    if constexpr (Problem::kFusedHoles > 0 && Problem::kCellHoles > 0) {
#pragma unroll
      for (int hole = 0; hole < Problem::kCellHoles; ++hole) {
        if (is_inside && (holes >> hole & 1)) {
          store_chunk(to + Problem::cell_hole(hole).delta, zeros);
        }
      }
    }
  }
  __syncwarp();
}

// Zeros for the cell holes of a tile's rows, by TMA, from zeros in shared memory; by a
// few warps, no faster than the block's loads progress, so that their share of the memory's
// bandwidth is spread over the tile. The tiles of one row of tiles share its rows, as whole rows of
// C are longer runs than their columns.
template <class Problem, int kRows, int kTiles, int kZeroBytes>
__device__ __forceinline__ void fill_cells(typename Problem::Epilogue::Stored* c,
                                           const Phase& phase, int m, int tile, unsigned zeros,
                                           unsigned progress, int before, int iterations,
                                           int warp, int warps) {
  constexpr int kShare = (kRows + kTiles - 1) / kTiles;
  constexpr int kUnits = (kShare + 31) / 32;
  constexpr int kBytes = Problem::kColumns * 2;
  for (int unit = warp; unit < kUnits * Problem::kCellHoles; unit += warps) {
    const int hole = unit % Problem::kCellHoles;
    const int r = (unit / Problem::kCellHoles * 32 + threadIdx.x % 32) * kTiles + tile;
    hopper::counter_wait(progress,
                         before + unit * iterations / (kUnits * Problem::kCellHoles));
    const Row row = row_at<Problem>(phase, r < kRows ? m + r : phase.positions);
    if (row.holes >> hole & 1) {
      char* const to = reinterpret_cast<char*>(c + row.offset + Problem::cell_hole(hole).delta);
      for (int done = 0; done < kBytes; done += kZeroBytes) {
        hopper::store_bulk(to + done, zeros, min(kZeroBytes, kBytes - done));
      }
    }
    hopper::commit_stores();
  }
}

// Zeros for the other holes, by a few warps, no faster than the block's loads progress: their share
// of the memory's bandwidth is spread over the whole kernel.
template <class Problem>
__device__ __forceinline__ void fill_holes(typename Problem::Epilogue::Stored* c,
                                           unsigned progress, int iterations, int warp,
                                           int warps) {
  constexpr int kPieceChunks = Problem::kPieceChunks;
  const int lane = threadIdx.x % 32;
  const unsigned hole_value = hole_pair<Problem>();
  const uint4 zeros = make_uint4(hole_value, hole_value, hole_value, hole_value);
  for (int i = 0; i < Problem::kHoles; ++i) {
    const Hole& hole = Problem::hole(i);
    // Short runs share a warp.
    int lanes = 32;
    while (lanes > 1 && lanes / 2 >= hole.chunks) lanes /= 2;
    const int together = 32 / lanes;
    const int pieces = hole.runs * hole.pieces;
    const int batches = (pieces + together - 1) / together;
    const int mine = batches / gridDim.x + 1;
    for (int j = warp; j < mine; j += warps) {
      const int due = static_cast<int>(static_cast<long long>(i * mine + j) * iterations /
                                       (mine * Problem::kHoles));
      hopper::counter_wait(progress, due);
      const int piece =
          (j * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x)) * together +
          lane / lanes;
      if (piece >= pieces) continue;
      const int run = piece / hole.pieces;
      const int first = (piece - run * hole.pieces) * kPieceChunks;
      int at[kMaxAxes];
      positions_of(run, hole.sizes, at);
      uint4* const to = reinterpret_cast<uint4*>(c + hole.offset + offset_of(at, hole.strides));
      const int last = min(first + kPieceChunks, hole.chunks);
      for (int chunk = first + lane % lanes; chunk < last; chunk += lanes) {
        store_chunk(to + chunk, zeros);
      }
    }
  }
}

}  // namespace convir::wgmma
