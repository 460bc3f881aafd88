// Direct convolution of many small groups, and every phase of its strided backward data pass.
//
// A block keeps the weights of its channels in registers and streams rows of A through shared
// memory. A warp multiplies 16 output positions by the groups of 32 output channels: rows of
// ldmatrix are pixels at any offset, so every tap is an immediate of one address. With 8 channels a
// group, two taps make one step of 16 products.
#pragma once

#include "row_ring.cuh"

namespace convir {

constexpr int kSlice = 32;  // output channels of a warp: 64 bytes of a pixel
constexpr int kTile = 16;   // output positions of a matrix instruction

template <typename P, typename S>
struct GroupedDirect {
  using T = typename P::Element;

  static constexpr int kGroups = S::channels / P::columns;      // of a block
  static constexpr int kDepth = kGroups * P::depth;             // channels of A of a block
  static constexpr int kChannelBlocks = divide_up(P::groups * P::columns, S::channels);
  static constexpr int kSlices = S::channels / kSlice;
  static constexpr int kSliceDepth = larger(1, kSlice / P::columns) * P::depth;
  static constexpr int kColumnTiles = (P::columns < kSlice ? P::columns : kSlice) / 8;
  static constexpr int kOutputs = P::phase_count * S::unroll_rows;
  static constexpr int kPasses = kOutputs / S::outputs;
  static constexpr int kWarps = S::threads / 32;
  static constexpr int kPositionWarps = kWarps / kSlices;
  static constexpr bool kDepthInnermost = P::b_depth == 1;

  using Ring = RowRing<P, S, kDepth>;

  static constexpr int kTaps = tap_count<P>();

  // Outputs are ordered by phase, then by unrolled row.
  static constexpr int phase_of(int output) { return output / S::unroll_rows; }
  static constexpr int row_of(int output) { return output % S::unroll_rows; }
  // The tap of an output that reads a row of the window, -1 if there is none.
  static constexpr int row_tap(int output, int window_row) {
    const int row = window_row - row_of(output) * P::row_step;
    for (int i = 0; i < P::phases[phase_of(output)].row_taps; ++i) {
      if (P::phases[phase_of(output)].row_tap[i] == row) return i;
    }
    return -1;
  }
  static constexpr bool reads(int pass, int window_row, int window_col) {
    for (int i = 0; i < S::outputs; ++i) {
      const int output = pass * S::outputs + i;
      if (row_tap(output, window_row) < 0) continue;
      for (int j = 0; j < P::phases[phase_of(output)].col_taps; ++j) {
        if (P::phases[phase_of(output)].col_tap[j] == window_col) return true;
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
  static constexpr int kSharedBytes = Ring::kBytes + larger(1, kTaps) * kTapBytes;

  static_assert(P::depth == 8 || P::depth % 16 == 0, "depths are multiplied by 8 or 16");
  static_assert(kSliceDepth % 16 == 0, "rows of A are read by 16 channels");
  static_assert(S::channels % kSlice == 0 && S::channels % P::columns == 0 &&
                    (P::columns % kSlice == 0 || kSlice % P::columns == 0),
                "a slice has whole groups, or is a part of one");
  static_assert(kOutputs % S::outputs == 0 && kWarps % kSlices == 0);
  static_assert(kOutputs <= 32, "the outputs of a position are bits of a word");
  static_assert(S::step_positions == kPositionWarps * S::tiles * kTile);
  static_assert(kSharedBytes <= S::shared_bytes);

  unsigned weight[larger(1, kTaps)][kSliceDepth / 8][kColumnTiles];

  // Copies the weights of channel block `block`; groups that are merged keep zeros between them.
  static __device__ __forceinline__ void stage_weights(const T* b, T* shared, int block) {
    constexpr int kRealDepth = P::depth / P::merged;
    constexpr int kRealColumns = P::columns / P::merged;
    for_each_tap<P>([&](auto phase_, auto i_, auto j_) {
      constexpr int p = decltype(phase_)::value, i = decltype(i_)::value, j = decltype(j_)::value;
      constexpr int tap = tap_index<P>(p, i, j);
      constexpr long long offset = tap_weight<P>(p, i, j);
      T* matrix = shared + tap * (kTapBytes / 2);
      if constexpr (P::vector_weights) {
        constexpr int kRowVectors = kWeightCols / kVectorElements;
        for (int e = threadIdx.x; e < kWeightRows * kRowVectors; e += S::threads) {
          const int row = e / kRowVectors;
          const int vector = e % kRowVectors * kVectorElements;
          const int group = block * kGroups + row / (kWeightRows / kGroups);
          const bool inside = group < P::groups;
          const T* source = b + offset + group * P::b_group +
                            row % (kWeightRows / kGroups) *
                                (kDepthInnermost ? P::b_column : P::b_depth) +
                            vector;
          copy_async(shared_address(matrix + row * (kWeightPitch / 2) + vector),
                     inside ? source : b, inside);
        }
      } else {
        for (int e = threadIdx.x; e < kWeightRows * kWeightCols; e += S::threads) {
          const int row = e / kWeightCols, col = e % kWeightCols;
          const int group = block * kGroups + row / (kWeightRows / kGroups);
          const int in_group = row % (kWeightRows / kGroups);
          const int d = kDepthInnermost ? col : in_group;
          const int n = kDepthInnermost ? in_group : col;
          T value = T(0.0f);
          if (group < P::groups && d / kRealDepth == n / kRealColumns) {
            value = b[offset + (group * P::merged + d / kRealDepth) * P::b_group +
                      d % kRealDepth * P::b_depth + n % kRealColumns * P::b_column];
          }
          matrix[row * (kWeightPitch / 2) + col] = value;
        }
      }
    });
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

  // Stores an output of 16 positions: 8 channels, 16 bytes, a lane.
  template <int kOutput>
  static __device__ __forceinline__ void store(const float (&sum)[kSlice / 8][4], T* c,
                                               const unsigned (&vector)[2],
                                               const unsigned (&valid)[2]) {
    constexpr long long offset =
        P::phases[phase_of(kOutput)].offset + row_of(kOutput) * P::c_row_stride;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned word[4];
#pragma unroll
      for (int n = 0; n < kSlice / 8; ++n) {
        word[n] = pack<T>(sum[n][half * 2], sum[n][half * 2 + 1]);
      }
      transpose_quads(word);
      if (valid[half] >> kOutput & 1) {
        T* target = c + static_cast<long long>(vector[half]) * kVectorElements + offset;
        *reinterpret_cast<uint4*>(target) = make_uint4(word[0], word[1], word[2], word[3]);
      }
    }
  }

  // One tile: 16 positions from `first` on, those from `end` on are left out.
  __device__ __forceinline__ void tile(const Ring& ring, int first, int end, int slice_depth,
                                       T* c, bool channel_inside) const {
    const int lane = threadIdx.x % 32;
    const int index = first + lane % kTile;
    const typename Ring::Position position(index < end ? index : end - 1);
    const int row = position.row * S::unroll_rows, col = position.output_col();
    const unsigned lane_vector = static_cast<unsigned>(
        (position.image() * P::c_image + row * P::c_row_stride + col * P::c_col_stride) /
        kVectorElements);
    unsigned lane_valid = 0;
    static_for<kOutputs>([&](auto output_) {
      constexpr int output = decltype(output_)::value;
      constexpr int p = phase_of(output);
      const bool inside =
          row + row_of(output) < P::phases[p].rows && col < P::phases[p].cols && index < end;
      lane_valid |= static_cast<unsigned>(inside) << output;
    });
    const unsigned vector[2] = {__shfl_sync(~0u, lane_vector, lane / 4),
                                __shfl_sync(~0u, lane_vector, lane / 4 + 8)};
    unsigned valid[2] = {__shfl_sync(~0u, lane_valid, lane / 4),
                         __shfl_sync(~0u, lane_valid, lane / 4 + 8)};
    if (!channel_inside) valid[0] = valid[1] = 0;

    const int slot = ring.slot(position.first_row());
    const unsigned pixel = ring.shared + position.col * P::col_step * Ring::kPixelBytes +
                           slice_depth * 2 + lane / 16 * 16;
    static_for<kPasses>([&](auto pass_) {
      constexpr int pass = decltype(pass_)::value;
      float sum[S::outputs][kSlice / 8][4] = {};
      static_for<Ring::kWindowRows>([&](auto row_) {
        constexpr int window_row = decltype(row_)::value;
        if constexpr (reads_row(pass, window_row)) {
          const int wrapped = slot + window_row - (slot + window_row >= Ring::kSlots ? Ring::kSlots : 0);
          multiply_row<pass, window_row>(sum, pixel + wrapped * Ring::kRowBytes);
        }
      });
      static_for<S::outputs>([&](auto output_) {
        constexpr int output = decltype(output_)::value;
        store<pass * S::outputs + output>(sum[output], c, vector, valid);
      });
    });
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, T* c) {
    extern __shared__ __align__(128) unsigned char shared[];
    const int block = blockIdx.x % kChannelBlocks;
    const int blocks = gridDim.x / kChannelBlocks;
    const long long part = blockIdx.x / kChannelBlocks;
    if (part >= blocks) return;
    const int begin = static_cast<int>(part * Ring::kListRows / blocks) * S::tile_cols;
    const int end = static_cast<int>((part + 1) * Ring::kListRows / blocks) * S::tile_cols;
    if (begin == end) return;

    T* weights = reinterpret_cast<T*>(shared + Ring::kBytes);
    stage_weights(b, weights, block);
    commit_copies();
    const int origin = typename Ring::Position(begin).first_row();
    Ring ring{a + static_cast<long long>(block) * kDepth, P::groups * P::depth - block * kDepth,
              shared_address(shared), origin, origin};
    const auto last_of = [&](int step) {
      const int last = begin + (step + 1) * S::step_positions;
      return (last < end ? last : end) - 1;
    };
#pragma unroll
    for (int stage = 0; stage < S::stages; ++stage) {
      ring.load_through(last_of(stage));
      commit_copies();
    }
    wait_copies<S::stages>();
    __syncthreads();

    const int warp = threadIdx.x / 32;
    const int slice = warp % kSlices, position_warp = warp / kSlices;
    const int channel = block * S::channels + slice * kSlice + threadIdx.x % 4 * 8;
    const int slice_depth = slice * kSlice / P::columns * P::depth;
    GroupedDirect self;
    self.load_weights(shared_address(weights), slice);
    const int steps = divide_up(end - begin, S::step_positions);
    for (int step = 0; step < steps; ++step) {
      wait_copies<S::stages - 1>();
      __syncthreads();
      ring.load_through(last_of(step + S::stages));
      commit_copies();
      const int first = begin + step * S::step_positions + position_warp * kTile;
#pragma unroll 1
      for (int i = 0; i < S::tiles; ++i) {
        const int at = first + i * kPositionWarps * kTile;
        if (at < end) self.tile(ring, at, end, slice_depth, c + channel, channel < P::groups * P::columns);
      }
    }
    wait_copies<0>();
  }
};

}  // namespace convir
