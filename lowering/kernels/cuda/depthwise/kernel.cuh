// Depthwise convolution and groups of a few channels, fprop and dgrad: channels as planes in shared memory, a filter row of a
// channel as a banded matrix.
//
// A block computes all phases of a tile: it brings the tile's window of A to planes in shared memory,
// its warps compute channel after channel, and results go back through planes. Of a channel the
// eight outputs of a strip at filter row r are the strip's window in that row times a banded
// matrix, T[k][n] = W[r][k - n * step]: 16 strips are a matrix instruction's rows, and a row of A is
// read once for all filter rows that need it. f32 is multiplied by SIMT units, as IEEE has it.
#pragma once

#include "arith/scalars.cuh"
#include "depthwise/planes.cuh"
#include "epilogue/direct_store.cuh"
#include "load/direct_phase.cuh"

namespace convir {

constexpr int kFiltersAhead = 8;

template <typename P, typename S>
struct Depthwise {
  using T = typename P::Element;
  using In = Planes<T, WindowLayout<P, S>>;
  using Out = Planes<T, ResultLayout<P, S>>;
  using Tile = DepthwiseTile<P, S>;
  using StripOf = Strip<S>;
  static constexpr bool kIsTensor = sizeof(T) == 2;
  static constexpr int kWarps = S::threads / 32;
  static constexpr int kChunks = S::window_chunks;  // of a strip's window in a row
  static constexpr int kMmaRows = 16;
  static constexpr int kStripTiles = divide_up(StripOf::kCount, kIsTensor ? kMmaRows : 32);
  static constexpr int kWindow = (S::unroll - 1) * P::row_step + P::window_rows;
  static constexpr int kOutChannels = P::groups * P::out_channels;
  static constexpr int kChannelBlocks = divide_up(kOutChannels, S::channels);
  // Filters in shared memory: [channel][step][phase][window row][window column], and a zero behind
  // each row.
  static constexpr int kFilterRow = P::window_cols + 1;
  static constexpr int kFilterPhase = P::window_rows * kFilterRow;
  static constexpr int kFilterStep = P::phase_count * kFilterPhase;
  static constexpr int kFilter = Step<P>::kCount * kFilterStep;

  static constexpr bool has_row(int phase, int row) {
    return row >= 0 && row < P::window_rows && row_tap_at<P>(phase, row) >= 0 &&
           P::phases[phase].col_taps > 0;
  }
  // Whether output row `out` of a strip has a tap in row `row` of its window.
  static constexpr bool reads(int phase, int row, int out) {
    return has_row(phase, row - out * P::row_step);
  }

  // The filters of a phase: where element e lies in B, and in shared memory.
  template <int kPhase>
  struct Filters {
    static constexpr EvenTaps kRows = row_taps<P>(kPhase), kCols = col_taps<P>(kPhase);
    static constexpr int kOfCol = larger(1, kCols.count), kOfRow = larger(1, kRows.count);
    static constexpr int kTaps = kOfRow * kOfCol;
    static constexpr int kCount =
        is_zero_fill<P>(kPhase) ? 0 : S::channels * Step<P>::kCount * kTaps;

    static __device__ __forceinline__ T load(const T* __restrict__ b, int channel, int e) {
      const int col = e % kOfCol, row = e / kOfCol % kOfRow;
      const int step = e / kTaps % Step<P>::kCount;
      channel += e / kTaps / Step<P>::kCount;
      if (e >= kCount || channel >= kOutChannels) return T(0.0f);
      return Step<P>(step).weights(b, channel)[kRows.weight + row * kRows.weight_step +
                                               kCols.weight + col * kCols.weight_step];
    }
    static __device__ __forceinline__ void store(T* filters, int e, T value) {
      if (e >= kCount) return;
      const int col = e % kOfCol, row = e / kOfCol % kOfRow;
      const int step = e / kTaps % Step<P>::kCount, c = e / kTaps / Step<P>::kCount;
      filters[c * kFilter + step * kFilterStep + kPhase * kFilterPhase +
              (kRows.first + row * kRows.step) * kFilterRow + kCols.first + col * kCols.step] =
          value;
    }
  };
  // Elements of phase 0 that a thread has under way beside the tile.
  static constexpr int kAhead = smaller(kFiltersAhead, divide_up(Filters<0>::kCount, S::threads));

  static __device__ __forceinline__ void stage_filters(const T* __restrict__ b, T* filters,
                                                       int channel, const T* ahead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      Filters<0>::store(filters, i * S::threads + threadIdx.x, ahead[i]);
    }
    static_for<P::phase_count>([&](auto phase) {
      using Of = Filters<decltype(phase)::value>;
      constexpr int kFirst = decltype(phase)::value == 0 ? kAhead * S::threads : 0;
#pragma unroll 8
      for (int e = kFirst + threadIdx.x; e < Of::kCount; e += S::threads) {
        Of::store(filters, e, Of::load(b, channel, e));
      }
    });
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, const Target<P>& out) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* const shared = reinterpret_cast<T*>(memory);
    const int channel = static_cast<int>(blockIdx.x % kChannelBlocks) * S::channels;
    const Tile tile(blockIdx.x / kChannelBlocks);
    T ahead[larger(1, kAhead)];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      ahead[i] = Filters<0>::load(b, channel, i * S::threads + threadIdx.x);
    }
    // Zeros, behind them filters.
    for (int i = threadIdx.x; i < S::planes_at * static_cast<int>(sizeof(T)) / 16; i += S::threads) {
      reinterpret_cast<uint4*>(memory)[i] = make_uint4(0, 0, 0, 0);
    }
    In::template load<S::threads, P::slice_tap_step>(
        a, shared + S::planes_at, tile.template window<typename In::Origin>(channel));
    __syncthreads();
    stage_filters(b, shared + S::filters_at, channel, ahead);
    __syncthreads();
    // A warp's channels of the tile.
    const int last = min(S::channels, kOutChannels - channel);
    if constexpr (kIsTensor) compute_banded(shared, channel, last, tile, out);
    else compute_simt(shared, channel, last, tile, out);
    __syncthreads();
    if constexpr (S::col_phases > 1) {
      Out::template store<S::threads>(
          shared + S::results_at, out.c,
          {channel, tile.image, tile.slice, tile.row * S::row_phases, tile.col * S::col_phases},
          phase_rows(), phase_cols());
      return;
    }
    static_for<P::phase_count>([&](auto phase) {
      constexpr int kPhase = decltype(phase)::value;
      Out::template store<S::threads>(
          shared + S::results_at + kPhase * S::out_phase, out.c + P::phases[kPhase].offset,
          {channel, tile.image, tile.slice, tile.row, tile.col}, P::phases[kPhase].rows,
          P::phases[kPhase].cols);
    });
  }

  // Rows and columns of all phases that alternate.
  static constexpr int phase_rows() {
    int rows = 0;
    for (int i = 0; i < S::row_phases; ++i) rows += P::phases[i * S::col_phases].rows;
    return rows;
  }
  static constexpr int phase_cols() {
    int cols = 0;
    for (int i = 0; i < S::col_phases; ++i) cols += P::phases[i].cols;
    return cols;
  }

  // What is stored of a strip's row for two neighbouring outputs, or in f32 for eight.
  template <int kPhase, int kCount>
  static __device__ __forceinline__ void finish(T* shared, const float* sums, const Strip<S>& strip,
                                                int row, int col, int c, int channel,
                                                const Tile& tile, const Target<P>& out) {
    // Phases that alternate lie in shared memory as they do in C.
    constexpr int kRowPhase = S::col_phases > 1 ? kPhase / S::col_phases : 0;
    constexpr int kColPhase = S::col_phases > 1 ? kPhase % S::col_phases : 0;
    T* to = shared + S::results_at + kPhase * S::out_phase + Out::plane(c) +
            strip.image * S::out_image + (row * S::row_phases + kRowPhase) * S::out_row;
    if constexpr (S::col_phases > 1) {
      to += (strip.chunk * kDepthwiseChunk + col) * S::col_phases + kColPhase;
    } else {
      to = to + strip.chunk * kDepthwiseChunk + col;
    }
    Vector<T, kCount> stored;
    if constexpr (P::rounds_only) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) stored[i] = narrow<T>(sums[i]);
    } else {
      const int image = tile.image + strip.image, out_row = tile.row + row;
      const int first = tile.col + strip.chunk * kDepthwiseChunk + col;
      const bool is_inside = image < P::images && out_row < P::phases[kPhase].rows;
      const long long element = image * P::c_image + tile.slice * P::c_slice +
                                P::phases[kPhase].offset + out_row * P::c_row_stride +
                                channel * P::c_channel;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        stored[i] = T(0.0f);
        if (is_inside && first + i < P::phases[kPhase].cols) {
          stored[i] = result<P>(sums[i], out,
                                element + static_cast<long long>(first + i) * P::c_col_stride,
                                channel, is_zero_fill<P>(kPhase));
        }
      }
    }
    if constexpr (S::col_phases > 1) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) to[i * S::col_phases] = stored[i];
    } else {
      convir::store(to, stored);
    }
  }

  // All strips of a warp's channels: those of the tile before `last`, from `channel` on.
  static __device__ __forceinline__ void compute_banded(T* shared, int channel, int last,
                                                        const Tile& tile, const Target<P>& out) {
    const int lane = threadIdx.x % 32;
    // Where the lane's elements of a banded matrix lie in a row of the filter.
    int taps[kChunks][2];
#pragma unroll
    for (int i = 0; i < kChunks * 2; ++i) {
      const int k = i / 2 * kDepthwiseChunk + lane % 4 * 2 + i % 2;
      const int tap = k - S::shift - lane / 4 * P::col_step;
      taps[i / 2][i % 2] =
          static_cast<unsigned>(tap) < static_cast<unsigned>(P::window_cols) ? tap : P::window_cols;
    }
    const unsigned zeros = shared_address(shared + lane / 16 * kDepthwiseChunk);
#pragma unroll 1
    for (int m = 0; m < kStripTiles * kMmaRows; m += kMmaRows) {
      const Strip<S> strip(min(m + lane % kMmaRows, StripOf::kCount - 1));
      const T* first = shared + S::planes_at + strip.image * S::in_image +
                       strip.chunk * P::col_step * kDepthwiseChunk + lane / 16 * kDepthwiseChunk;
      if constexpr (!S::is_whole) first += strip.row * P::row_step * S::in_row;
      const int origin = (tile.row + strip.row) * P::row_step + P::row_origin;
      const Strip<S> to[2] = {Strip<S>(m + lane / 4), Strip<S>(m + lane / 4 + 8)};
#pragma unroll 1
      for (int c = threadIdx.x / 32; c < last; c += kWarps) {
        const unsigned short* filter =
            reinterpret_cast<const unsigned short*>(shared + S::filters_at + c * kFilter);
        unsigned bands[P::phase_count][P::window_rows][kChunks];
        float sums[P::phase_count][S::unroll][4] = {};
#pragma unroll 1
        for (int step = 0; step < Step<P>::kCount; ++step) {
          const unsigned of_step =
              shared_address(first + Step<P>(step).template window<In, S>(c));
          static_for<kWindow>([&](auto row) {
            constexpr int kRow = decltype(row)::value;
            unsigned x[kChunks][2];
            load_window(x, WindowRow<P, S>::at(zeros, of_step, origin, kRow,
                                               S::in_row * sizeof(T)));
            static_for<P::phase_count>([&](auto phase) {
              constexpr int kPhase = decltype(phase)::value;
              if constexpr (has_row(kPhase, kRow)) {
                const unsigned short* from =
                    filter + step * kFilterStep + kPhase * kFilterPhase + kRow * kFilterRow;
#pragma unroll
                for (int i = 0; i < kChunks; ++i) {
                  bands[kPhase][kRow][i] =
                      from[taps[i][0]] | static_cast<unsigned>(from[taps[i][1]]) << 16;
                }
              }
              static_for<S::unroll>([&](auto output) {
                constexpr int kOut = decltype(output)::value;
                if constexpr (reads(kPhase, kRow, kOut)) {
                  multiply(sums[kPhase][kOut], x, bands[kPhase][kRow - kOut * P::row_step]);
                }
              });
            });
          });
        }
        __syncwarp();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (m + half * 8 + lane / 4 >= StripOf::kCount) continue;
          static_for<P::phase_count>([&](auto phase) {
            constexpr int kPhase = decltype(phase)::value;
#pragma unroll
            for (int i = 0; i < S::unroll; ++i) {
              finish<kPhase, 2>(shared, sums[kPhase][i] + half * 2, to[half], to[half].row + i,
                                lane % 4 * 2, c, channel + c, tile, out);
            }
          });
        }
      }
    }
  }

  // A row of the windows of 16 strips, a chunk in two registers.
  static __device__ __forceinline__ void load_window(unsigned (&x)[kChunks][2],
                                                     unsigned address) {
#pragma unroll
    for (int i = 0; i + 1 < kChunks; i += 2) {
      unsigned both[4];
      load_matrices(both, address + i * 16);
      x[i][0] = both[0];
      x[i][1] = both[1];
      x[i + 1][0] = both[2];
      x[i + 1][1] = both[3];
    }
    if constexpr (kChunks % 2 == 1) load_matrices(x[kChunks - 1], address + (kChunks - 1) * 16);
  }
  static __device__ __forceinline__ void multiply(float (&sums)[4],
                                                  const unsigned (&x)[kChunks][2],
                                                  const unsigned (&band)[kChunks]) {
#pragma unroll
    for (int i = 0; i + 1 < kChunks; i += 2) {
      const unsigned both[4] = {x[i][0], x[i][1], x[i + 1][0], x[i + 1][1]};
      multiply_add<T>(sums, both, band[i], band[i + 1]);
    }
    if constexpr (kChunks % 2 == 1) multiply_add<T>(sums, x[kChunks - 1], band[kChunks - 1]);
  }

  // The same without tensor cores: a lane computes a strip.
  static __device__ __forceinline__ void compute_simt(T* shared, int channel, int last,
                                                      const Tile& tile, const Target<P>& out) {
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int m = 0; m < kStripTiles * 32; m += 32) {
      const bool has_work = m + lane < StripOf::kCount;
      const Strip<S> strip(min(m + lane, StripOf::kCount - 1));
      const T* first = shared + S::planes_at + strip.image * S::in_image +
                       strip.chunk * P::col_step * kDepthwiseChunk;
      if constexpr (!S::is_whole) first += strip.row * P::row_step * S::in_row;
      const int origin = (tile.row + strip.row) * P::row_step + P::row_origin;
#pragma unroll 1
      for (int c = threadIdx.x / 32; c < last; c += kWarps) {
        const T* filter = shared + S::filters_at + c * kFilter;
        float sums[P::phase_count][S::unroll][kDepthwiseChunk] = {};
#pragma unroll 1
        for (int step = 0; step < Step<P>::kCount; ++step) {
          const T* const of_step = first + Step<P>(step).template window<In, S>(c);
          static_for<kWindow>([&](auto row) {
            constexpr int kRow = decltype(row)::value;
            float x[kChunks * kDepthwiseChunk];
            load_row(x, WindowRow<P, S>::template at<const T*>(shared, of_step, origin, kRow,
                                                               S::in_row));
            static_for<P::phase_count>([&](auto phase) {
              constexpr int kPhase = decltype(phase)::value;
              static_for<S::unroll>([&](auto output) {
                constexpr int kOut = decltype(output)::value;
                if constexpr (reads(kPhase, kRow, kOut)) {
                  constexpr EvenTaps kCols = col_taps<P>(kPhase);
                  const T* weights = filter + step * kFilterStep + kPhase * kFilterPhase +
                                     (kRow - kOut * P::row_step) * kFilterRow;
                  static_for<kCols.count>([&](auto tap) {
                    constexpr int kAt = kCols.position(decltype(tap)::value);
                    const float weight = widen(weights[kAt]);
#pragma unroll
                    for (int q = 0; q < kDepthwiseChunk; ++q) {
                      float& sum = sums[kPhase][kOut][q];
                      sum = fmaf(x[S::shift + kAt + q * P::col_step], weight, sum);
                    }
                  });
                }
              });
            });
          });
        }
        __syncwarp();
        if (!has_work) continue;
        static_for<P::phase_count>([&](auto phase) {
          constexpr int kPhase = decltype(phase)::value;
#pragma unroll
          for (int i = 0; i < S::unroll; ++i) {
#pragma unroll
            for (int q = 0; q < kDepthwiseChunk; q += 4) {
              finish<kPhase, 4>(shared, sums[kPhase][i] + q, strip, strip.row + i, q, c,
                                channel + c, tile, out);
            }
          }
        });
      }
    }
  }
};

}  // namespace convir
