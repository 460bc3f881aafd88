// What is stored by a wgmma contraction: tiles from registers, a row of C per output pixel, and
// the zeros of zero-filled outputs.
#pragma once

#include "arith/scalars.cuh"
#include "epilogue/operands.cuh"
#include "ptx/counter.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mma_sync.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "schedule/wgmma_schedule.cuh"

namespace convir::wgmma {

constexpr int kChunkBytes = 16;
constexpr int kWarpRows = 16;
constexpr unsigned kAllLanes = 0xffffffff;

// The staging buffer of a warp: 16 rows of a tile, `kOutChannels` columns at a time. Rows are
// padded by a chunk, so that eight of them lie in different banks.
template <int kOutChannels, int kElementBytes = 2>
struct Staging {
  static constexpr int kPitch = kOutChannels * kElementBytes + kChunkBytes;
  static constexpr int kBytes = kWarpRows * kPitch;
};

// Where a channel of staged planes has row `row`, a multiple of what is accessed at once, in bytes: a
// channel is 16 rows, whose halves change places every four channels, so that one half of eight
// channels lies in different banks.
__device__ __forceinline__ int place_in_planes(int channel, int row) {
  return channel * (2 * kWarpRows) + ((row / 8 ^ channel / 4) & 1) * kChunkBytes + row % 8 * 2;
}

// The same of rows that are kLines lines, each a box of channels of its own.
template <int kOutChannels, int kLines>
__device__ __forceinline__ int place_in_lines(int channel, int row) {
  if constexpr (kLines == 1) return place_in_planes(channel, row);
  constexpr int kPixels = kWarpRows / kLines;
  return (row / kPixels * kOutChannels + channel) * (2 * kPixels) + row % kPixels * 2;
}

// Two values as they lie in memory.
__device__ __forceinline__ float2 pair(float low, float high) { return make_float2(low, high); }
template <class Stored>
__device__ __forceinline__ unsigned pair(Stored low, Stored high) {
  static_assert(sizeof(Stored) == 2);
  return reinterpret_cast<const unsigned short&>(low) |
         static_cast<unsigned>(reinterpret_cast<const unsigned short&>(high)) << 16;
}

// What is stored for two elements of a zero-filled output, which reads no operands; of no use
// without zero-filled outputs.
template <class Problem>
__device__ __forceinline__ unsigned zero_fill_pair() {
  using Epilogue = typename Problem::Epilogue;
  if constexpr (Problem::kZeroFills + Problem::kCellZeroFills + Problem::kFusedZeroFills == 0) {
    return 0;
  } else {
    const typename Epilogue::Pointers none = {};
    return pair(Epilogue::zero_fill(none, nullptr), Epilogue::zero_fill(none, nullptr));
  }
}

__device__ __forceinline__ uint4 four_words(unsigned x) { return make_uint4(x, x, x, x); }

__device__ __forceinline__ void store_chunk(void* to, const uint4& x) {
  *reinterpret_cast<uint4*>(to) = x;
}

// Whether a place along the axes lies below `sizes`.
__device__ __forceinline__ bool is_below(const int (&at)[kMaxAxes], const int (&sizes)[kMaxAxes]) {
  bool is_inside = true;
#pragma unroll
  for (int axis = 0; axis < kMaxAxes; ++axis) is_inside &= at[axis] < sizes[axis];
  return is_inside;
}

// The place of an output pixel's row of C.
template <class Problem>
struct Row {
  static constexpr int kFusedZeroFills = Problem::kFusedZeroFills;
  static constexpr int kCellZeroFills = Problem::kCellZeroFills;
  template <int kOutChannels>
  static constexpr int kRowChannels =
      kOutChannels < Problem::kOutChannels ? kOutChannels : Problem::kOutChannels;

  long long offset;     // elements
  int pixels;           // that the row covers: itself, and zero-filled outputs right behind it; 0
                        // outside of C
  unsigned zero_fills;  // which of the cell's zero-filled outputs there are

  static __device__ __forceinline__ unsigned zero_fill() { return zero_fill_pair<Problem>(); }
  // That of lane r.
  __device__ __forceinline__ Row of(int r) const {
    return {__shfl_sync(kAllLanes, offset, r), __shfl_sync(kAllLanes, pixels, r),
            __shfl_sync(kAllLanes, zero_fills, r)};
  }
  __device__ __forceinline__ bool has_column(int channel, int out_channels) const {
    return pixels > 0 && channel < out_channels;
  }
  // Whether a chunk is stored, one of kStaged of the row, or one of zeros behind it.
  template <int kStaged, int kPerChunk>
  __device__ __forceinline__ bool has(int chunk, int out_channels) const {
    return chunk < kStaged ? pixels > 0 && chunk * kPerChunk < out_channels
                           : chunk < pixels * kStaged;
  }
};

template <class Problem>
__device__ __forceinline__ Row<Problem> row_at(const Phase& phase, int images, int number) {
  if (number >= images * phase.pixels) return {0, 0, 0};
  int at[kMaxAxes];
  pixels_of(number, phase.sizes, at);
  Row<Problem> row = {phase.out_offset + offset_of(at, phase.out_strides), 1, 0};
  if constexpr (Problem::kFusedZeroFills > 0) {
    constexpr int kPixels = 1 + Problem::kFusedZeroFills;
    row.pixels = min(kPixels, Problem::kRowPixels - at[0] * kPixels);
  }
  if constexpr (Problem::kCellZeroFills > 0) {
#pragma unroll
    for (int i = 0; i < Problem::kCellZeroFills; ++i) {
      row.zero_fills |= is_below(at, Problem::cell_zero_fill(i).sizes) << i;
    }
  }
  return row;
}

// Matrices whose operands are loaded at once: storing one is a barrier to the compiler.
template <class Operands>
constexpr int operands_together() {
  return Operands::kCount == 1 ? 4 : Operands::kCount == 2 ? 2 : 1;
}

// Where the operands of an epilogue are read for two accumulators: those of an element of C, and of
// the channel that it is of.
struct OperandPlace {
  long long element;
  int channel;
};

// The operands of a lane's accumulators: of its rows of C, in the columns that are stored next.
template <class Problem>
struct LaneColumns {
  long long element[2];  // of C, where the lane's rows begin
  long long shift;
  int channel, out_channels;

  __device__ __forceinline__ explicit LaneColumns(const Row<Problem>& row) {
    if constexpr (Problem::Operands::kCount > 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        element[half] = __shfl_sync(kAllLanes, row.offset, threadIdx.x % 32 / 4 + half * 8);
      }
    }
  }

  // The next columns begin `shift` elements behind the row's first, with channel `channel`.
  __device__ __forceinline__ void begin(long long of_shift, int of_channel, int of_columns) {
    shift = of_columns > 0 ? of_shift : 0;
    channel = of_columns > 0 ? of_channel : 0;
    out_channels = of_columns;
  }
  // What lies outside of C reads operands of what does not.
  __device__ __forceinline__ OperandPlace operator()(int half, int column) const {
    const int at = column < out_channels ? column + threadIdx.x % 4 * 2 : 0;
    return {element[half] + shift + at * Problem::kChannelStride, channel + at};
  }
};

// From two accumulators of a lane to what is stored. A lane has rows `lane / 4` and 8 below it of a
// tile, and of every 8 columns those from `lane % 4 * 2`: find(half of the rows, first of 8 columns)
// is an `OperandPlace`, not asked for without operands. What lies outside of C reads operands of
// what does not.
template <class Problem, class Find>
struct Finish {
  using Epilogue = typename Problem::Epilogue;
  using Operands = typename Problem::Operands;
  static constexpr int kTogether = operands_together<Operands>();
  const typename Epilogue::Pointers& pointers;
  Find find;

  template <class Row>
  __device__ __forceinline__ Finish(const typename Epilogue::Pointers& operands, const Row& row)
      : pointers(operands), find{row} {}

  __device__ __forceinline__ auto operator()(float low, float high, int half, int column) const {
    if constexpr (Operands::kCount == 0) {
      return pair(Epilogue::apply(low, pointers, nullptr), Epilogue::apply(high, pointers, nullptr));
    } else {
      return finish(low, high, half, column, [](auto&) {});
    }
  }
  // The same, given the two elements of the operand that is loaded a row at a time.
  __device__ __forceinline__ auto operator()(float low, float high, int half, int column,
                                             unsigned of_row) const {
    return finish(low, high, half, column, [&](auto& run) { run.put_row(of_row); });
  }

 private:
  template <class Put>
  __device__ __forceinline__ auto finish(float low, float high, int half, int column,
                                         Put&& put) const {
    const OperandPlace at = find(half, column);
    auto run = Operands::template run<2>(pointers, at.element, at.channel);
    put(run);
    typename Epilogue::Stored both[2];
    const float sums[2] = {low, high};
    finish_run<Epilogue>(both, sums, run, false);
    return pair(both[0], both[1]);
  }
};

// What is stored for two accumulators by an epilogue without operands.
template <class Epilogue>
__device__ __forceinline__ unsigned finished(float low, float high) {
  const typename Epilogue::Pointers none = {};
  return pair(Epilogue::apply(low, none, nullptr), Epilogue::apply(high, none, nullptr));
}

// Columns `first` to `first + kOutChannels` of a warp's accumulators, as they are stored: `finish`
// turns two accumulators of a half of the rows into a word, or a pair of them, given the first of
// their 8 columns, as `Finish`; `kTogether` matrices are finished before they are stored; with
// kLines > 0 rows are neighbours of a column there, in so many lines; with kHasRows rows of an operand
// lie where results go, and `finish` gets the words of those two.
template <int kOutChannels, int kTogether = 1, int kLines = 0, bool kHasRows = false, int kValues,
          class Finisher>
__device__ __forceinline__ void stage(unsigned staging, const float (&d)[kValues], int first,
                                      const Finisher& finish) {
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(finish(0, 0, 0, 0)) == sizeof(float2)) {
    const unsigned to = staging + lane / 4 * Staging<kOutChannels, 4>::kPitch + lane % 4 * 8;
#pragma unroll
    for (int column = 0; column < kOutChannels; column += 8) {
      const int i = (first + column) / 2;
      store_shared(to + column * 4, finish(d[i], d[i + 1], 0, column));
      store_shared(to + 8 * Staging<kOutChannels, 4>::kPitch + column * 4,
                   finish(d[i + 2], d[i + 3], 1, column));
    }
  } else {
    constexpr bool kArePlanes = kLines > 0;
    constexpr int kColumnBytes = 2 * (kArePlanes ? kWarpRows / (kArePlanes ? kLines : 1) : 1);
    const unsigned to =
        staging + (kArePlanes ? place_in_lines<kOutChannels, kArePlanes ? kLines : 1>(
                                    lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)
                              : lane % kWarpRows * Staging<kOutChannels>::kPitch +
                                    lane / kWarpRows * kChunkBytes);
    constexpr int kMatrices = kOutChannels / 16 % kTogether == 0 ? kTogether : 1;
#pragma unroll
    for (int column = 0; column < kOutChannels; column += 16 * kMatrices) {
      unsigned x[kMatrices][4];
#pragma unroll
      for (int j = 0; j < kMatrices; ++j) {
        const int at = column + j * 16, i = (first + at) / 2;
        if constexpr (kHasRows) {
          load_matrices(x[j], to + at * kColumnBytes);
          x[j][0] = finish(d[i], d[i + 1], 0, at, x[j][0]);
          x[j][1] = finish(d[i + 2], d[i + 3], 1, at, x[j][1]);
          x[j][2] = finish(d[i + 4], d[i + 5], 0, at + 8, x[j][2]);
          x[j][3] = finish(d[i + 6], d[i + 7], 1, at + 8, x[j][3]);
        } else {
          x[j][0] = finish(d[i], d[i + 1], 0, at);
          x[j][1] = finish(d[i + 2], d[i + 3], 1, at);
          x[j][2] = finish(d[i + 4], d[i + 5], 0, at + 8);
          x[j][3] = finish(d[i + 6], d[i + 7], 1, at + 8);
        }
      }
#pragma unroll
      for (int j = 0; j < kMatrices; ++j) {
        store_matrices<kArePlanes>(to + (column + j * 16) * kColumnBytes, x[j]);
      }
    }
  }
}

// The same by an epilogue without operands.
template <class Epilogue, int kOutChannels, int kValues>
__device__ __forceinline__ void stage(unsigned staging, const float (&d)[kValues], int first) {
  stage<kOutChannels>(staging, d, first, [](float low, float high, int, int) {
    return finished<Epilogue>(low, high);
  });
}

// A load of what no thread of the kernel writes before it is read, which the compiler does not move to
// where it is used.
__device__ __forceinline__ uint4 load_now(const void* from) {
  uint4 x;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

// Rows of an operand that follows the result: 16 bytes a lane as rows are stored, in columns that are
// staged at a time, and through the staging buffer to the lanes that finish them. Two elements that a
// lane has accumulators of are half a sector.
template <class Problem, int kOutChannels, bool kStoresRows>
struct RowOperand {
  using Operands = typename Problem::Operands;
  static constexpr bool kIsLoaded = kStoresRows && Operands::kRow >= 0;
  static constexpr int kPerChunk = kChunkBytes / 2, kPerRow = kOutChannels / kPerChunk;
  static constexpr int kLoads = kWarpRows * kPerRow / 32;
  uint4 loaded[kLoads];

  // Columns that begin `shift` elements behind the first of each row.
  template <class Rows>
  __device__ __forceinline__ void load(const typename Problem::Epilogue::Pointers& operands,
                                       const Rows& row, long long shift, int out_channels) {
    if constexpr (kIsLoaded) {
      const auto* const from = Operands::row(operands) + shift;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = threadIdx.x % 32 + i * 32, column = at % kPerRow * kPerChunk;
        const Rows of = row.of(at / kPerRow);
        loaded[i] = four_words(0);
        if (of.has_column(column, out_channels)) {
          loaded[i] = load_now(from + of.offset + column);
        }
      }
    }
  }
  __device__ __forceinline__ void put(unsigned staging) const {
    if constexpr (kIsLoaded) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = threadIdx.x % 32 + i * 32;
        store_shared(staging + at / kPerRow * Staging<kOutChannels>::kPitch +
                         at % kPerRow * kChunkBytes,
                     loaded[i]);
      }
      __syncwarp();
    }
  }
};

// Stores `out_channels` staged columns of every row, and zeros into the zero-filled outputs that
// are fused with it. Row r is `row.of(r)`: its offset, and which of its chunks there are.
template <class Problem, int kOutChannels, class Rows>
__device__ __forceinline__ void store_rows(typename Problem::Epilogue::Stored* c, unsigned staging,
                                           const Rows& row, int out_channels) {
  using Stored = typename Problem::Epilogue::Stored;
  constexpr int kPerChunk = kChunkBytes / static_cast<int>(sizeof(Stored));
  constexpr int kStaged = Rows::template kRowChannels<kOutChannels> / kPerChunk;
  constexpr int kChunks = kStaged * (1 + Rows::kFusedZeroFills);
  const int lane = threadIdx.x % 32;
  const uint4 zeros = four_words(Rows::zero_fill());
  __syncwarp();
#pragma unroll 4
  for (int i = lane; i < (kWarpRows * kChunks + 31) / 32 * 32; i += 32) {
    const int r = i / kChunks, chunk = i % kChunks;
    const Rows at = row.of(r);
    const bool is_inside = r < kWarpRows && at.template has<kStaged, kPerChunk>(chunk, out_channels);
    uint4 x = zeros;
    if (chunk < kStaged && r < kWarpRows) {
      x = load_ordered(staging + r * Staging<kOutChannels, sizeof(Stored)>::kPitch +
                     chunk * kChunkBytes);
    }
    Stored* const to = c + at.offset + chunk * kPerChunk;
    if (is_inside) store_chunk(to, x);
    if constexpr (Rows::kFusedZeroFills > 0 && Rows::kCellZeroFills > 0) {
#pragma unroll
      for (int zero_fill = 0; zero_fill < Rows::kCellZeroFills; ++zero_fill) {
        if (is_inside && (at.zero_fills >> zero_fill & 1)) {
          store_chunk(to + Problem::cell_zero_fill(zero_fill).delta, zeros);
        }
      }
    }
  }
  __syncwarp();
}

// Zeros for the cell zero-filled outputs of a tile's rows, by TMA, from zeros in shared memory; by
// a few warps, no faster than the block's loads progress, so that their share of the memory's
// bandwidth is spread over the tile. The tiles of one row of tiles share its rows, as whole rows of
// C are longer runs than their columns.
template <class Problem, int kRows, int kTiles, int kZeroBytes>
__device__ __forceinline__ void fill_cells(typename Problem::Epilogue::Stored* c,
                                           const Phase& phase, int images, int m, int tile, unsigned zeros,
                                           unsigned progress, int before, int iterations,
                                           int warp, int warps) {
  constexpr int kShare = (kRows + kTiles - 1) / kTiles;
  constexpr int kUnits = (kShare + 31) / 32;
  constexpr int kBytes = Problem::kOutChannels * 2;
  for (int unit = warp; unit < kUnits * Problem::kCellZeroFills; unit += warps) {
    const int zero_fill = unit % Problem::kCellZeroFills;
    const int r = (unit / Problem::kCellZeroFills * 32 + threadIdx.x % 32) * kTiles + tile;
    hopper::counter_wait(progress,
                         before + unit * iterations / (kUnits * Problem::kCellZeroFills));
    const auto row = row_at<Problem>(phase, images, r < kRows ? m + r : images * phase.pixels);
    if (row.zero_fills >> zero_fill & 1) {
      char* const to = reinterpret_cast<char*>(c + row.offset + Problem::cell_zero_fill(zero_fill).delta);
      for (int done = 0; done < kBytes; done += kZeroBytes) {
        hopper::store_bulk(to + done, zeros, min(kZeroBytes, kBytes - done));
      }
    }
    hopper::commit_stores();
  }
}

// Zeros for the other zero-filled outputs, by a few warps, no faster than the block's loads
// progress: their share of the memory's bandwidth is spread over the whole kernel.
template <class Problem>
__device__ __forceinline__ void store_zero_fills(typename Problem::Epilogue::Stored* c,
                                           int images, unsigned progress, int iterations, int warp,
                                           int warps) {
  constexpr int kPieceChunks = Problem::kPieceChunks;
  const int lane = threadIdx.x % 32;
  const uint4 zeros = four_words(zero_fill_pair<Problem>());
  for (int i = 0; i < Problem::kZeroFills; ++i) {
    const ZeroFill& zero_fill = Problem::zero_fill(i);
    // Short runs share a warp.
    int lanes = 32;
    while (lanes > 1 && lanes / 2 >= zero_fill.chunks) lanes /= 2;
    const int together = 32 / lanes;
    const int pieces = images * zero_fill.runs * zero_fill.pieces;
    const int batches = (pieces + together - 1) / together;
    const int mine = batches / gridDim.x + 1;
    for (int j = warp; j < mine; j += warps) {
      const int due = static_cast<int>(static_cast<long long>(i * mine + j) * iterations /
                                       (mine * Problem::kZeroFills));
      hopper::counter_wait(progress, due);
      const int piece =
          (j * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x)) * together +
          lane / lanes;
      if (piece >= pieces) continue;
      const int run = piece / zero_fill.pieces;
      const int first = (piece - run * zero_fill.pieces) * kPieceChunks;
      int at[kMaxAxes];
      pixels_of(run, zero_fill.sizes, at);
      uint4* const to = reinterpret_cast<uint4*>(c + zero_fill.offset + offset_of(at, zero_fill.strides));
      const int last = min(first + kPieceChunks, zero_fill.chunks);
      for (int chunk = first + lane % lanes; chunk < last; chunk += lanes) {
        store_chunk(to + chunk, zeros);
      }
    }
  }
}

}  // namespace convir::wgmma
