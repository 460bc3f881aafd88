// Direct convolution of many small groups, and every phase of its strided backward data pass.
//
// A block keeps the weights of its channels in registers and streams rows of A through shared
// memory. A warp multiplies 16 output positions by the groups of 32 output channels: rows of
// ldmatrix are pixels at any offset, so every tap is an immediate of one address. With 8 channels a
// group, two taps make one step of 16 products.
#pragma once

#include "row_ring.cuh"

namespace convir {

constexpr int kTile = 16;  // output positions of a matrix instruction

template <typename P, typename S>
struct GroupedDirect {
  using T = typename P::Element;

  static constexpr int kGroups = S::channels / P::columns;      // of a block
  static constexpr int kDepth = kGroups * P::depth;             // channels of A of a block
  using Ring = RowRing<P, S, kDepth>;
  static constexpr int kChannelBlocks = divide_up(P::groups * P::columns, S::channels);
  static constexpr int kSlice = S::slice;  // output channels of a warp
  static constexpr int kSlices = S::channels / kSlice;
  static constexpr int kSliceDepth = larger(1, kSlice / P::columns) * P::depth;
  static constexpr int kColumnTiles = (P::columns < kSlice ? P::columns : kSlice) / 8;
  static constexpr int kOutputs = P::phase_count * S::unroll_rows;
  static constexpr int kPasses = kOutputs / S::outputs;
  static constexpr int kWarps = Ring::kComputeThreads / 32;
  static constexpr int kPositionWarps = kWarps / kSlices;
  static constexpr int kStores = kSlice / 16;  // of a lane, for every output
  static constexpr bool kDepthInnermost = P::b_depth == 1;

  static constexpr int kTaps = tap_count<P>();

  // Outputs are ordered by phase, then by unrolled row.
  static constexpr int phase_of(int output) { return output / S::unroll_rows; }
  static constexpr int row_of(int output) { return output % S::unroll_rows; }
  // The tap of an output at a row of the window, -1 if there is none.
  static constexpr int row_tap(int output, int window_row) {
    return row_tap_at<P>(phase_of(output), window_row - row_of(output) * P::row_step);
  }
  static constexpr bool reads(int pass, int window_row, int window_col) {
    for (int output = pass * S::outputs; output < (pass + 1) * S::outputs; ++output) {
      if (row_tap(output, window_row) >= 0 && col_tap_at<P>(phase_of(output), window_col) >= 0) {
        return true;
      }
    }
    return false;
  }
  static constexpr bool reads_row(int pass, int window_row) {
    for (int j = 0; j < P::window_cols; ++j) {
      if (reads(pass, window_row, j)) return true;
    }
    return false;
  }

  // Weights in shared memory: for every tap a matrix whose rows are vectors of ldmatrix.
  static constexpr int kWeightRows = kDepthInnermost ? S::channels : kDepth;
  static constexpr int kWeightCols = kDepthInnermost ? P::depth : P::columns;
  static constexpr int kWeightPitch = kWeightCols * 2 + kBankSkew;
  static constexpr int kTapBytes = kWeightRows * kWeightPitch;
  static constexpr int kWeightBytes = larger(1, kTaps) * kTapBytes;
  static constexpr int kSharedBytes = Ring::kBytes + kWeightBytes + Ring::Stream::kBytes;

  static_assert(P::depth == 8 || P::depth % 16 == 0, "depths are multiplied by 8 or 16");
  static_assert(kSliceDepth % 16 == 0, "rows of A are read by 16 channels");
  static_assert(S::channels % kSlice == 0 && S::channels % P::columns == 0 &&
                    (P::columns % kSlice == 0 || kSlice % P::columns == 0),
                "a slice has whole groups, or is a part of one");
  static_assert(kSlice == 16 || kSlice == 32);
  static_assert(kOutputs % S::outputs == 0 && kWarps % kSlices == 0);
  static_assert(S::step_positions == kPositionWarps * S::tiles * kTile);
  static_assert(kSharedBytes == S::shared_bytes);

  unsigned weight[larger(1, kTaps)][kSliceDepth / 8][kColumnTiles];

  // Copies the weights of channel block `block`; groups that are merged have zeros between them.
  static __device__ __forceinline__ void stage_weights(const T* __restrict__ b, T* shared,
                                                       int block) {
    constexpr int kGroupRows = kWeightRows / kGroups;
    if constexpr (P::vector_weights) {
      constexpr int kRowVectors = kWeightCols / kVectorElements;
      constexpr long long kRowStride = kDepthInnermost ? P::b_column : P::b_depth;
      for (int e = threadIdx.x; e < kWeightRows * kRowVectors; e += Ring::kComputeThreads) {
        const int row = e / kRowVectors, col = e % kRowVectors * kVectorElements;
        const int group = block * kGroups + row / kGroupRows;
        const T* source = b + group * P::b_group + row % kGroupRows * kRowStride + col;
        const unsigned target = shared_address(shared) + row * kWeightPitch + col * 2;
        for_each_tap<P>([&](auto p, auto i, auto j) {
          constexpr int tap = tap_index<P>(p.value, i.value, j.value);
          copy_async(target + tap * kTapBytes, source + tap_weight<P>(p.value, i.value, j.value),
                     group < P::groups);
        });
      }
    } else {
      constexpr int kRealDepth = P::depth / P::merged;
      constexpr int kRealColumns = P::columns / P::merged;
      for (int e = threadIdx.x; e < kWeightRows * kWeightCols; e += Ring::kComputeThreads) {
        const int row = e / kWeightCols, col = e % kWeightCols;
        const int group = block * kGroups + row / kGroupRows;
        const int d = kDepthInnermost ? col : row % kGroupRows;
        const int n = kDepthInnermost ? row % kGroupRows : col;
        const bool inside = group < P::groups && d / kRealDepth == n / kRealColumns;
        const T* source = b + (group * P::merged + d / kRealDepth) * P::b_group +
                          d % kRealDepth * P::b_depth + n % kRealColumns * P::b_column;
        T value[larger(1, kTaps)];
        for_each_tap<P>([&](auto p, auto i, auto j) {
          constexpr int tap = tap_index<P>(p.value, i.value, j.value);
          value[tap] = inside ? source[tap_weight<P>(p.value, i.value, j.value)] : T(0.0f);
        });
        static_for<kTaps>([&](auto tap) {
          shared[tap.value * (kTapBytes / 2) + row * (kWeightPitch / 2) + col] = value[tap.value];
        });
      }
    }
  }

  __device__ __forceinline__ void load_weights(unsigned shared, int slice) {
    const int lane = threadIdx.x % 8;
    const int group = slice * kSlice / P::columns;
    const int column = slice * kSlice % P::columns;
    static_for<kTaps>([&](auto tap_) {
      constexpr int tap = decltype(tap_)::value;
      static_for<kSliceDepth / 8>([&](auto k_) {
        constexpr int k = decltype(k_)::value;
        static_for<kColumnTiles>([&](auto n_) {
          constexpr int n = decltype(n_)::value;
          const unsigned matrix = shared + tap * kTapBytes;
          if constexpr (kDepthInnermost) {
            constexpr int in_slice = k * 8 / P::depth;
            const int row = (group + in_slice) * P::columns + column + n * 8 + lane;
            weight[tap][k][n] = load_matrix(matrix + row * kWeightPitch + k * 8 % P::depth * 2);
          } else {
            const int row = group * P::depth + k * 8 + lane;
            weight[tap][k][n] =
                load_matrix_transposed(matrix + row * kWeightPitch + (column + n * 8) * 2);
          }
        });
      });
    });
  }

  // Adds the products of one row of the window to the outputs of a pass.
  template <int kPass, int kWindowRow>
  __device__ __forceinline__ void multiply_row(float (&sum)[S::outputs][kSlice / 8][4],
                                               unsigned line) const {
    static_for<kSliceDepth / 16>([&](auto chunk_) {
      constexpr int chunk = decltype(chunk_)::value;
      unsigned pixel[P::window_cols][4];
      static_for<P::window_cols>([&](auto col_) {
        constexpr int col = decltype(col_)::value;
        if constexpr (reads(kPass, kWindowRow, col)) {
          load_matrices(pixel[col], line + col * Ring::kPixelBytes + chunk * 32);
        }
      });
      static_for<S::outputs>([&](auto output_) {
        constexpr int index = decltype(output_)::value;
        constexpr int output = kPass * S::outputs + index;
        constexpr int p = phase_of(output);
        constexpr int i = row_tap(output, kWindowRow);
        if constexpr (i >= 0) {
          constexpr int taps = P::phases[p].col_taps;
          constexpr int first = tap_index<P>(p, i, 0);
          if constexpr (P::depth == 8) {
            static_for<2>([&](auto half_) {
              constexpr int half = decltype(half_)::value;
              constexpr int k = chunk * 2 + half;
              static_for<kColumnTiles>([&](auto n_) {
                constexpr int n = decltype(n_)::value;
                auto& d = sum[index][k * kColumnTiles + n];
                static_for<taps / 2>([&](auto pair_) {
                  constexpr int j = decltype(pair_)::value * 2;
                  constexpr int x = P::phases[p].col_tap[j], y = P::phases[p].col_tap[j + 1];
                  multiply_add<T>(d, pixel[x][half * 2], pixel[x][half * 2 + 1],
                                  pixel[y][half * 2], pixel[y][half * 2 + 1],
                                  weight[first + j][k][n], weight[first + j + 1][k][n]);
                });
                if constexpr (taps % 2 != 0) {
                  constexpr int x = P::phases[p].col_tap[taps - 1];
                  multiply_add<T>(d, pixel[x][half * 2], pixel[x][half * 2 + 1],
                                  weight[first + taps - 1][k][n]);
                }
              });
            });
          } else {
            static_for<taps>([&](auto j_) {
              constexpr int j = decltype(j_)::value;
              constexpr int x = P::phases[p].col_tap[j];
              static_for<kColumnTiles>([&](auto n_) {
                constexpr int n = decltype(n_)::value;
                constexpr int k = chunk * 2;
                multiply_add<T>(sum[index][k * 8 / P::depth * kColumnTiles + n], pixel[x][0],
                                pixel[x][1], pixel[x][2], pixel[x][3], weight[first + j][k][n],
                                weight[first + j][k + 1][n]);
              });
            });
          }
        }
      });
    });
  }

  // Stores an output of 16 positions: a lane has 8 channels, 16 bytes, of kStores positions.
  template <int kOutput>
  static __device__ __forceinline__ void store(const float (&sum)[kSlice / 8][4], T* c,
                                               const unsigned (&element)[kStores],
                                               const unsigned (&valid)[kStores]) {
    constexpr long long offset =
        P::phases[phase_of(kOutput)].offset + row_of(kOutput) * P::c_row_stride;
#pragma unroll
    for (int i = 0; i < kStores; ++i) {
      unsigned word[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int half = kStores == 1 ? j / 2 : i;
        const int n = kStores == 1 ? j % 2 : j;
        word[j] = results<P>(sum[n][half * 2], sum[n][half * 2 + 1]);
      }
      transpose_quads(word);
      if (valid[i] >> kOutput & 1) {
        T* target = c + element[i] + offset;
        *reinterpret_cast<uint4*>(target) = make_uint4(word[0], word[1], word[2], word[3]);
      }
    }
  }
  // What the stores of a lane begin at: the position of the tile, and the channel of the slice.
  static __device__ __forceinline__ int store_position(int store) {
    const int lane = threadIdx.x % 32;
    return lane / 4 + 8 * (kStores == 1 ? lane / 2 % 2 : store);
  }
  static __device__ __forceinline__ int store_channel() {
    return (kStores == 1 ? threadIdx.x % 2 : threadIdx.x % 4) * 8;
  }

  // One tile: 16 positions, this lane's and those of its neighbours; c is at the lane's channel.
  __device__ __forceinline__ void tile(const typename Ring::Position& position, bool inside,
                                       unsigned pixels, T* c, bool has_channel) const {
    const unsigned lane_element = position.element();
    const unsigned lane_valid = inside ? position.outputs() : 0;
    unsigned element[kStores], valid[kStores];
#pragma unroll
    for (int i = 0; i < kStores; ++i) {
      element[i] = __shfl_sync(~0u, lane_element, store_position(i));
      valid[i] = __shfl_sync(~0u, lane_valid, store_position(i));
      if (!has_channel) valid[i] = 0;
    }
    const unsigned pixel = pixels + position.col * (P::col_step * Ring::kPixelBytes);
    static_for<kPasses>([&](auto pass_) {
      constexpr int pass = decltype(pass_)::value;
      float sum[S::outputs][kSlice / 8][4] = {};
      static_for<Ring::kWindowRows>([&](auto window_row) {
        if constexpr (reads_row(pass, window_row.value)) {
          multiply_row<pass, window_row.value>(
              sum, pixel + position.slot_of(window_row.value) * Ring::kRowBytes);
        }
      });
      static_for<S::outputs>([&](auto output) {
        store<pass * S::outputs + output.value>(sum[output.value], c, element, valid);
      });
    });
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, T* c) {
    extern __shared__ __align__(128) unsigned char shared[];
    const int block = blockIdx.x % kChannelBlocks;
    const int parts = gridDim.x / kChannelBlocks, part = blockIdx.x / kChannelBlocks;
    if (part >= parts) return;
    const typename Ring::Range range(part, parts);
    if (range.begin == range.end) return;

    T* weights = reinterpret_cast<T*>(shared + Ring::kBytes);
    typename Ring::Stream rows(
        typename Ring::Loads(range, a + static_cast<long long>(block) * kDepth,
                             P::groups * P::depth - block * kDepth, shared_address(shared)),
        shared_address(shared) + Ring::kBytes + kWeightBytes);
    if (!Ring::kHasLoaders) {
      stage_weights(b, weights, block);
      commit_copies();
    }
    if (!rows.begin()) return;
    if (Ring::kHasLoaders) {
      stage_weights(b, weights, block);
      commit_copies();
    }
    wait_copies<Ring::kHasLoaders ? 0 : S::stages>();
    Ring::sync_compute();

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int slice = warp % kSlices, position_warp = warp / kSlices;
    GroupedDirect self;
    self.load_weights(shared_address(weights), slice);
    const unsigned pixels =
        shared_address(shared) + slice * kSlice / P::columns * P::depth * 2 + lane / 16 * 16;
    const int channel = block * S::channels + slice * kSlice + store_channel();
    const bool has_channel = channel < P::groups * P::columns;
    c += channel;
    int first = range.begin + position_warp * kTile;
    typename Ring::Position position(first + lane % kTile, range.begin);
    const int steps = range.steps();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      rows.acquire(step);
#pragma unroll 1
      for (int i = 0; i < S::tiles; ++i) {
        if (first < range.end) {
          self.tile(position, first + lane % kTile < range.end, pixels, c, has_channel);
        }
        position.template advance<kPositionWarps * kTile>();
        first += kPositionWarps * kTile;
      }
      rows.release();
    }
    wait_copies<0>();
  }
};

}  // namespace convir
