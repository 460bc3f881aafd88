// A contraction as a matrix product whose operands are addressed, never copied.
//
// With x an output pixel, t a tap and d a depth:
//   C:  C[x, n] = sum over (t, d) of A[row(x, t), d] * B[t, d, n]       rows are x, reduced (t, d)
//   B:  B[(t, d), n] = sum over x of A[row(x, t), d] * C[x, n]          rows are (t, d), reduced x
// A block computes one tile of one phase and one group; phases come in the order of `Problem`, but
// for the first kInterleavedTiles of each, which come in turns. A phase without taps stores
// zero-filled outputs. `Problem` and `Config` are structs of constants; their fields are described
// in lowering/kernels/cuda/sm80_implicit_gemm/launch.py, which writes them.
#pragma once

#include "epilogue/row_offsets.cuh"
#include "epilogue/vector_store.cuh"
#include "load/contraction_addresses.cuh"
#include "load/pieces.cuh"
#include "load/tiles.cuh"
#include "mma/not_finite.cuh"
#include "mma/simt_tile.cuh"
#include "mma/sm80_split_tile.cuh"
#include "mma/sm80_tile.cuh"
#include "pipeline/multistage.cuh"

namespace convir {
namespace implicit_gemm {

constexpr long long kMostImmediate = 1ll << 31;

// Fills tiles: what lies across the reduction is found once, what lies along it in every tile.
template <class T, class Source>
struct Loader {
  using E = typename T::Element;
  using Fixed = decltype(Source().fixed(0));
  using Walk = decltype(Source().walk(0));
  static constexpr int kFixed = T::kLineIsReduced ? T::kPasses : 1;
  // Whether a thread's vectors lie the same distance apart, all of them inside or none.
  static constexpr long long kLineBytes = Source::kStep * static_cast<long long>(sizeof(E));
  static constexpr bool kIsEven = !T::kLineIsReduced && T::kIsAsync && T::kTurnsAdd &&
                                  kLineBytes != 0 && kLineBytes * T::kLines < kMostImmediate &&
                                  kLineBytes * T::kLines > -kMostImmediate;
  static constexpr int kStepBytes = kIsEven ? static_cast<int>(kLineBytes) : 0;
  Source source;
  Walk walk;
  Fixed fixed[kFixed];
  int line, at, first;  // and the byte of the first vector
  Vector<E, T::kWidth> staged[T::kIsAsync ? 1 : T::kPasses];

  __device__ __forceinline__ Loader(Source from, int outer, int begin)
      : source(from), walk(from.walk(begin)) {
    line = threadIdx.x / T::kVectors;
    at = threadIdx.x % T::kVectors * T::kWidth;
    first = T::byte(line, at);
#pragma unroll
    for (int pass = 0; pass < kFixed; ++pass) {
      const int across = T::kLineIsReduced ? line + pass * T::kLinesAtOnce : at;
      fixed[pass] = source.fixed(outer + across);
    }
  }

  // Begins to fill `tile` with the next part of the reduction.
  __device__ __forceinline__ void fetch(char* tile) {
    if constexpr (T::kLineIsReduced) {
      const auto moving = walk.at(at);
      copy_lines([&](int pass, int, auto copy) { move(tile, pass, fixed[pass], moving, copy); });
    } else if constexpr (kIsEven) {
      bool inside;
      const E* from = source.find(fixed[0], walk.at(line), inside);
      const unsigned to = shared_address(tile);
      static_for<T::kPasses>([&](auto pass) {
        constexpr int kLine = decltype(pass)::value * T::kLinesAtOnce;
        if (T::kLines % T::kLinesAtOnce != 0 && line + kLine >= T::kLines) return;
        copy_async<T::kWidth * sizeof(E), kLine * T::kChunks * 16, kLine * kStepBytes>(
            to + (first ^ (T::turn(kLine) * 16)), from, inside);
      });
    } else {
      copy_lines([&](int pass, int to, auto copy) {
        move(tile, pass, fixed[0], walk.at(to), copy);
      });
    }
    walk.advance();
  }

  // Ends it, where copies are not asynchronous.
  __device__ __forceinline__ void finish(char* tile) {
    if constexpr (!T::kIsAsync) {
#pragma unroll
      for (int pass = 0; pass < T::kPasses; ++pass) {
        const int to = line + pass * T::kLinesAtOnce;
        if (to < T::kLines) {
          *reinterpret_cast<Vector<E, T::kWidth>*>(tile + place(pass)) = staged[pass];
        }
      }
    }
  }

  // one(pass, line, copy) for a thread's vectors, one of a line.
  template <class One>
  __device__ __forceinline__ void copy_lines(One&& one) const {
    copy_pieces<T::kLines, T::kLinesAtOnce, T::kIsAsync ? T::kWidth * sizeof(E) : 4>(line, one);
  }
  __device__ __forceinline__ int place(int pass) const {
    return T::byte_of_pass(first, pass, line, at);
  }
  template <class Moving, class Copy>
  __device__ __forceinline__ void move(char* tile, int pass, const Fixed& outer,
                                       const Moving& moving, Copy copy) {
    bool inside;
    const E* from = source.find(outer, moving, inside);
    if constexpr (T::kIsAsync) {
      copy(tile + place(pass), from, inside);
    } else if (inside) {
      staged[pass] = *reinterpret_cast<const Vector<E, T::kWidth>*>(from);
    } else {
#pragma unroll
      for (int i = 0; i < T::kWidth; ++i) staged[pass][i] = narrow<E>(0.0f);
    }
  }
};

// Which tile a block computes.
template <class P, class C>
struct TilePlace {
  int phase, row, group, column;  // first row and column

  static __device__ __forceinline__ int rows_of(int phase) {
    return P::kComputesB ? P::kPhase[phase].taps * P::kInChannels : P::kPhase[phase].pixels;
  }
  static __device__ __forceinline__ int reduced_of(int phase) {
    return P::kComputesB ? P::kPhase[phase].pixels : P::kPhase[phase].taps * P::kInChannels;
  }

  __device__ __forceinline__ explicit TilePlace(int tile) {
    constexpr int kOutChannelTiles = (P::kOutChannels + C::kBN - 1) / C::kBN;
    constexpr int kInterleaved = C::kInterleavedTiles * P::kPhases;
    phase = 0;
    int rest = tile;
    if (tile < kInterleaved) {
      phase = tile % P::kPhases;
      rest = tile / P::kPhases;
    } else if constexpr (P::kPhases > 1) {
      rest -= kInterleaved;
#pragma unroll
      for (int p = 0; p + 1 < P::kPhases; ++p) {
        const int tiles = (rows_of(p) + C::kBM - 1) / C::kBM * P::kGroups * kOutChannelTiles -
                          C::kInterleavedTiles;
        if (phase == p && rest >= tiles) {
          rest -= tiles;
          phase = p + 1;
        }
      }
      rest += C::kInterleavedTiles;
    }
    column = rest % kOutChannelTiles * C::kBN;
    rest /= kOutChannelTiles;
    group = rest % P::kGroups;
    row = rest / P::kGroups * C::kBM;
  }
};

template <class P>
__device__ __forceinline__ long long out_channel_stride() {
  return P::kComputesB ? P::kBOutChannel : P::kCStride;
}

// Stores kVector neighbours of a line of accumulators: along columns, or along rows.
template <class P, class C, class E, int kVector, class Sum>
__device__ __forceinline__ void store_vector(typename E::Stored* out,
                                             const typename E::Pointers& pointers,
                                             const RowOffsets<P, E>* rows, int column,
                                             const Sum (&accumulators)[kVector], bool is_zero_fill) {
  const auto stored = [&](int i) {
    const RowOffsets<P, E>& row = rows[C::kStoredAlongOutChannels ? 0 : i];
    const int n = C::kStoredAlongOutChannels ? column + i : column;
    long long at[E::kOperands > 0 ? E::kOperands : 1] = {};
#pragma unroll
    for (int k = 0; k < E::kOperands; ++k) {
      at[k] = row.of[k] + (P::kComputesB ? P::kBOutChannel : P::kEpilogueColumn[k]) * n;
    }
    return is_zero_fill ? E::zero_fill(pointers, at) : E::apply(accumulators[i], pointers, at);
  };
  store_results<kVector>(out + (rows[0].out + out_channel_stride<P>() * column), stored);
}

template <class P, class C, class E>
struct Product {
  using Sum = typename P::Sum;
  using ATile = Tile<typename P::A, C::kBM, C::kBK, P::kALineIsReduced, C::kAVector, C::kThreads>;
  using BTile =
      Tile<typename P::Other, C::kBN, C::kBK, P::kOtherLineIsReduced, C::kOtherVector, C::kThreads>;
  static constexpr int kStageBytes = ATile::kBytes + BTile::kBytes;
  static constexpr int kOutLine = C::kStoredAlongOutChannels ? C::kBN : C::kBM;
  static constexpr int kOutLines = C::kStoredAlongOutChannels ? C::kBM : C::kBN;
  static constexpr int kPitch = kOutLine + 8;  // staggers the lines over the banks
  static constexpr int kStagingBytes = kOutLines * kPitch * static_cast<int>(sizeof(Sum));
  static constexpr int kPipelineBytes = C::kStages * kStageBytes;
  static constexpr int kTable =
      kPipelineBytes > kStagingBytes ? kPipelineBytes : kStagingBytes;
  static constexpr int kSharedBytes =
      kTable + C::kBM * static_cast<int>(sizeof(RowOffsets<P, E>));
  static_assert(kSharedBytes == C::kSharedBytes, "the host asks for as much as is used");

  // A warp's part of a tile on tensor cores, or a thread's on the FMA units.
  static constexpr int kRows = C::kIsMma ? C::kBM / C::kWarpsM / 16 : C::kBM / C::kThreadsM;
  static constexpr int kCols = C::kIsMma ? C::kBN / C::kWarpsN / 8 : C::kBN / C::kThreadsN;
  static constexpr int kEach = C::kIsMma ? 4 : 1;
  Sum accumulators[kRows][kCols][kEach];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
#pragma unroll
        for (int k = 0; k < kEach; ++k) accumulators[i][j][k] = 0;
      }
    }
  }

  __device__ __forceinline__ void multiply(const char* a, const char* b) {
    if constexpr (C::kProducts == 3) {
      const int warp = threadIdx.x / 32;
      multiply_split_matrices<ATile, BTile, C::kBK>(accumulators, a, b,
                                                    warp / C::kWarpsN * (kRows * 16),
                                                    warp % C::kWarpsN * (kCols * 8));
    } else if constexpr (C::kIsMma) {
      const int warp = threadIdx.x / 32;
      multiply_matrices<ATile, BTile, C::kBK>(accumulators, a, b, warp / C::kWarpsN * (kRows * 16),
                                              warp % C::kWarpsN * (kCols * 8));
    } else {
      multiply_quads<ATile, BTile, C::kBK>(accumulators, a, b, row_of, column_of);
    }
  }

  // Row i of a thread: neighbours in fours where a line holds rows, apart where it does not.
  static __device__ __forceinline__ int row_of(int i) {
    const int thread = threadIdx.x / C::kThreadsN;
    if (P::kALineIsReduced) return i * C::kThreadsM + thread;
    return i / 4 * (4 * C::kThreadsM) + thread * 4 + i % 4;
  }
  static __device__ __forceinline__ int column_of(int j) {
    const int thread = threadIdx.x % C::kThreadsN;
    if (P::kOtherLineIsReduced) return j * C::kThreadsN + thread;
    return j / 4 * (4 * C::kThreadsN) + thread * 4 + j % 4;
  }

  // The accumulators, as lines in the order in which they are stored.
  __device__ __forceinline__ void stage(Sum* staging) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        if constexpr (C::kIsMma) {
          const int row = warp / C::kWarpsN * (kRows * 16) + i * 16 + lane / 4;
          const int column = warp % C::kWarpsN * (kCols * 8) + j * 8 + lane % 4 * 2;
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            staging[staged_at(row + k / 2 * 8, column + k % 2)] = accumulators[i][j][k];
          }
        } else {
          staging[staged_at(row_of(i), column_of(j))] = accumulators[i][j][0];
        }
      }
    }
  }
  static __device__ __forceinline__ int staged_at(int row, int column) {
    return C::kStoredAlongOutChannels ? row * kPitch + column : column * kPitch + row;
  }

  // Waits for all that is staged; of `rows` rows, what is not finite is computed again.
  __device__ __forceinline__ void check(Sum* staging, const float* a, const float* b,
                                        const TilePlace<P, C>& tile, int rows, int begin,
                                        int end) const {
    if (!__syncthreads_or(has_not_finite(accumulators))) return;
    for (int i = threadIdx.x; i < kOutLines * kOutLine; i += C::kThreads) {
      const int line = i / kOutLine, at = i % kOutLine;
      const int row = tile.row + (C::kStoredAlongOutChannels ? line : at);
      const int column = tile.column + (C::kStoredAlongOutChannels ? at : line);
      Sum& sum = staging[line * kPitch + at];
      if (row >= rows || column >= P::kOutChannels || isfinite(sum)) continue;
      sum = ieee_sum<P>(a, b, tile.phase, row, column, begin, end);
    }
    __syncthreads();
  }

  // Accumulators over [begin, end) of the reduction, in steps of kBK.
  __device__ __forceinline__ void reduce(char* shared, const typename P::A* a,
                                         const typename P::Other* b, const TilePlace<P, C>& tile,
                                         int begin, int end) {
    Loader<ATile, ASource<P, C::kBK>> rows({tile.phase, a}, tile.row, begin);
    Loader<BTile, OtherSource<P, C::kBK>> out_channels({tile.phase, b}, tile.column, begin);
    const int steps = (end - begin + C::kBK - 1) / C::kBK;
    const auto of_stage = [&](int stage) { return shared + stage * kStageBytes; };
    multistage<C::kStages, C::kStages>(
        steps,
        [&](int, int stage) {
          rows.fetch(of_stage(stage));
          out_channels.fetch(of_stage(stage) + ATile::kBytes);
        },
        [] {},
        [&](int, int stage) { multiply(of_stage(stage), of_stage(stage) + ATile::kBytes); },
        [&](int, int stage) {
          rows.finish(of_stage(stage));
          out_channels.finish(of_stage(stage) + ATile::kBytes);
        });
  }
};

// One tile of the product, stored; or, if the reduction is split, the accumulators of one part of
// it.
template <class P, class C, class E>
__device__ __forceinline__ void run(const typename P::A* a, const typename P::Other* b,
                                    typename E::Stored* out, typename P::Sum* parts,
                                    const typename E::Pointers& pointers) {
  using Work = Product<P, C, E>;
  using Sum = typename P::Sum;
  extern __shared__ __align__(128) char shared[];
  const TilePlace<P, C> tile(blockIdx.x);
  const int reduced = TilePlace<P, C>::reduced_of(tile.phase);
  const int rows = TilePlace<P, C>::rows_of(tile.phase);

  auto* table = reinterpret_cast<RowOffsets<P, E>*>(shared + Work::kTable);
  if constexpr (C::kSplit == 1) {
    for (int row = threadIdx.x; row < C::kBM; row += C::kThreads) {
      if (tile.row + row < rows) table[row].find(tile.phase, tile.group, tile.row + row);
    }
  }
  Work work;
  work.clear();
  int begin = 0, end = reduced;
  if constexpr (C::kSplit > 1) {
    const int steps = (reduced + C::kBK - 1) / C::kBK;
    const int part = blockIdx.y;
    begin = static_cast<int>(static_cast<long long>(steps) * part / C::kSplit) * C::kBK;
    const int stop = static_cast<int>(static_cast<long long>(steps) * (part + 1) / C::kSplit);
    end = stop * C::kBK < reduced ? stop * C::kBK : reduced;
  }
  const auto* other = b + (P::kComputesB ? P::kCGroup : P::kBGroup) * tile.group;
  work.reduce(shared, a + P::kAGroup * tile.group, other, tile, begin, end);

  Sum* staging = reinterpret_cast<Sum*>(shared);
  work.stage(staging);
  if constexpr (C::kProducts == 3) {
    work.check(staging, a + P::kAGroup * tile.group, other, tile, rows, begin, end);
  } else {
    __syncthreads();
  }
  constexpr int kVectors = Work::kOutLine / C::kOutVector;
  for (int v = threadIdx.x; v < Work::kOutLines * kVectors; v += C::kThreads) {
    const int line = v / kVectors, at = v % kVectors * C::kOutVector;
    Sum accumulators[C::kOutVector];
#pragma unroll
    for (int i = 0; i < C::kOutVector; ++i) accumulators[i] = staging[line * Work::kPitch + at + i];
    if constexpr (C::kSplit > 1) {
      const long long tiles = static_cast<long long>(blockIdx.y) * gridDim.x + blockIdx.x;
      Sum* to = parts + ((tiles * Work::kOutLines + line) * Work::kOutLine + at);
#pragma unroll
      for (int i = 0; i < C::kOutVector; ++i) to[i] = accumulators[i];
    } else {
      const int row = C::kStoredAlongOutChannels ? line : at, column = C::kStoredAlongOutChannels ? at : line;
      if (tile.row + row < rows && tile.column + column < P::kOutChannels) {
        store_vector<P, C, E, C::kOutVector>(out, pointers, table + row, tile.column + column, accumulators, reduced == 0);
      }
    }
  }
}

// Adds the parts of the tiles in order, and stores: blockIdx.y is a slice of a tile.
template <class P, class C, class E>
__device__ __forceinline__ void add_parts(const typename P::Sum* parts, typename E::Stored* out,
                                          const typename E::Pointers& pointers) {
  using Work = Product<P, C, E>;
  using Sum = typename P::Sum;
  const TilePlace<P, C> tile(blockIdx.x);
  const int reduced = TilePlace<P, C>::reduced_of(tile.phase);
  const int rows = TilePlace<P, C>::rows_of(tile.phase);
  constexpr int kVectors = Work::kOutLine / C::kAddVector;
  const int v = blockIdx.y * blockDim.x + threadIdx.x;
  if (v >= Work::kOutLines * kVectors) return;
  const int line = v / kVectors, at = v % kVectors * C::kAddVector;
  const int row = tile.row + (C::kStoredAlongOutChannels ? line : at);
  const int column = tile.column + (C::kStoredAlongOutChannels ? at : line);
  if (row >= rows || column >= P::kOutChannels) return;
  Sum accumulators[C::kAddVector] = {};
#pragma unroll 16
  for (int part = 0; part < C::kSplit; ++part) {
    const long long tiles = static_cast<long long>(part) * gridDim.x + blockIdx.x;
    const Sum* from = parts + ((tiles * Work::kOutLines + line) * Work::kOutLine + at);
#pragma unroll
    for (int i = 0; i < C::kAddVector; ++i) accumulators[i] += from[i];
  }
  constexpr int kOffsets = C::kStoredAlongOutChannels ? 1 : C::kAddVector;
  RowOffsets<P, E> offsets[kOffsets];
#pragma unroll
  for (int i = 0; i < kOffsets; ++i) offsets[i].find(tile.phase, tile.group, row + i);
  store_vector<P, C, E, C::kAddVector>(out, pointers, offsets, column, accumulators, reduced == 0);
}

}  // namespace implicit_gemm
}  // namespace convir
