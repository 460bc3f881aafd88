// Direct convolution of many small groups, and every phase of its strided backward data pass.
//
// A block streams rows of A through shared memory. A warp multiplies 16 output pixels by the
// groups of 32 output channels, whose weights it has in registers: rows of ldmatrix are pixels at
// any offset. With 8 channels a group, two taps make one step of 16 products. Or a warpgroup
// multiplies 64 output pixels by weights in shared memory (wgmma), and its registers hold more
// accumulators.
#pragma once

#include "epilogue/direct_store.cuh"
#include "load/row_loads.cuh"
#include "ptx/wgmma.cuh"

namespace convir {

constexpr int kTile = 16;  // output pixels of a matrix instruction

template <typename P, typename S>
struct GroupedDirect {
  using T = typename P::Element;

  static constexpr int kGroups = S::channels / P::out_channels;      // of a block
  static constexpr int kInChannels = kGroups * P::in_channels;             // channels of A of a block
  using Ring = RowRing<P, S, kInChannels>;
  using Threads = StepThreads<S>;
  using Loads = RowLoads<Ring>;
  using Stream = StepStream<S, Loads>;
  static constexpr int kChannelBlocks = divide_up(P::groups * P::out_channels, S::channels);
  static constexpr int kWarpChannels = S::warp_channels;  // output channels of a warp
  static constexpr int kReduceScatter = S::channels / kWarpChannels;
  static constexpr int kWarpInChannels = larger(1, kWarpChannels / P::out_channels) * P::in_channels;
  static constexpr int kWarpOutChannels = P::out_channels < kWarpChannels ? P::out_channels : kWarpChannels;  // of one group
  static constexpr int kOutChannelTiles = kWarpOutChannels / 8;
  static constexpr int kOutputs = P::phase_count * S::unroll_rows;
  static constexpr int kPasses = kOutputs / S::outputs;
  static constexpr int kWarps = Threads::kComputing / 32;
  static constexpr int kPixelWarps = kWarps / kReduceScatter;
  static constexpr int kStores = kWarpChannels / 16;  // of a lane, for every output
  static constexpr bool kInChannelsInnermost = P::b_in_channel == 1;

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

  // Weights in shared memory: for every tap a matrix whose rows are vectors of ldmatrix, or of the
  // 8x8 cores of wgmma without a swizzle, which are contiguous along a row.
  static constexpr bool kWgmma = S::wgmma;
  static constexpr int kWeightRows = kInChannelsInnermost ? S::channels : kInChannels;
  static constexpr int kWeightCols = kInChannelsInnermost ? P::in_channels : P::out_channels;
  static constexpr int kWeightPitch = kWeightCols * 2 + kBankSkew;
  static constexpr int kTapBytes = kWeightRows * (kWgmma ? kWeightCols * 2 : kWeightPitch);
  static constexpr int kCoreBytes = 8 * 16;
  static constexpr int kRowCores = kWeightCols / 8;
  static constexpr int weight_byte(int row, int col) {
    return kWgmma ? (row / 8 * kRowCores + col / 8) * kCoreBytes + row % 8 * 16 + col % 8 * 2
                  : row * kWeightPitch + col * 2;
  }
  // The same for a depth and a column of a group.
  static constexpr int weight_byte(int group, int in_channels, int column) {
    return kInChannelsInnermost ? weight_byte(group * P::out_channels + column, in_channels)
                           : weight_byte(group * P::in_channels + in_channels, column);
  }
  static constexpr int kWeightBytes = larger(1, kTaps) * kTapBytes;
  static constexpr int kSharedBytes = Ring::kBytes + kWeightBytes + Stream::kBytes;

  static_assert(P::in_channels == 8 || P::in_channels % 16 == 0, "depths are multiplied by 8 or 16");
  static_assert(kWarpInChannels % 16 == 0, "rows of A are read by 16 channels");
  static_assert(S::channels % kWarpChannels == 0 && S::channels % P::out_channels == 0 &&
                    (P::out_channels % kWarpChannels == 0 || kWarpChannels % P::out_channels == 0),
                "a slice has whole groups, or is a part of one");
  static_assert(kWarpChannels == 16 || kWarpChannels == 32);
  static_assert(kOutputs % S::outputs == 0 && kWarps % (kWgmma ? 4 * kReduceScatter : kReduceScatter) == 0);
  static_assert(S::step_pixels == kPixelWarps * S::tiles * kTile);
  static_assert(kSharedBytes == S::shared_bytes);

  unsigned weight[kWgmma ? 1 : larger(1, kTaps)][kWarpInChannels / 8][kOutChannelTiles][1];
  unsigned long long descriptor;  // of the slice's first weights, for wgmma

  // Copies the weights of channel block `block`; groups that are merged have zeros between them.
  static __device__ __forceinline__ void stage_weights(const T* __restrict__ b, T* shared,
                                                       int block) {
    constexpr int kGroupRows = kWeightRows / kGroups;
    if constexpr (P::vector_weights) {
      constexpr int kRowVectors = kWeightCols / kVectorElements;
      constexpr long long kRowStride = kInChannelsInnermost ? P::b_out_channel : P::b_in_channel;
      const auto at = [&](int, int e, auto copy) {
        const int row = e / kRowVectors, col = e % kRowVectors * kVectorElements;
        const int group = block * kGroups + row / kGroupRows;
        const T* source = b + group * P::b_group + row % kGroupRows * kRowStride + col;
        const unsigned target = shared_address(shared) + weight_byte(row, col);
        copy_taps<P, kTapBytes>(copy, target, source, group < P::groups);
      };
      copy_pieces<kWeightRows * kRowVectors, Threads::kComputing, 16, 0>(threadIdx.x, at);
    } else {
      constexpr int kRealInChannels = P::in_channels / P::packed;
      constexpr int kRealOutChannels = P::out_channels / P::packed;
      for (int e = threadIdx.x; e < kWeightRows * kWeightCols; e += Threads::kComputing) {
        const int row = e / kWeightCols, col = e % kWeightCols;
        const int group = block * kGroups + row / kGroupRows;
        const int d = kInChannelsInnermost ? col : row % kGroupRows;
        const int n = kInChannelsInnermost ? row % kGroupRows : col;
        const bool inside = group < P::groups && d / kRealInChannels == n / kRealOutChannels;
        const T* source = b + (group * P::packed + d / kRealInChannels) * P::b_group +
                          d % kRealInChannels * P::b_in_channel + n % kRealOutChannels * P::b_out_channel;
        const TapWeights<P> value(source, inside);
        static_for<kTaps>([&](auto tap) {
          shared[tap.value * (kTapBytes / 2) + weight_byte(row, col) / 2] = value.of[tap.value];
        });
      }
    }
  }

  __device__ __forceinline__ void load_weights(unsigned shared, int warp_channels) {
    const int lane = threadIdx.x % 8;
    const int group = warp_channels * kWarpChannels / P::out_channels;
    const int column = warp_channels * kWarpChannels % P::out_channels;
    static_for<kTaps>([&](auto tap_) {
      constexpr int tap = decltype(tap_)::value;
      static_for<kWarpInChannels / 8>([&](auto k_) {
        constexpr int k = decltype(k_)::value;
        static_for<kOutChannelTiles>([&](auto n_) {
          constexpr int n = decltype(n_)::value;
          const unsigned matrix = shared + tap * kTapBytes;
          if constexpr (kInChannelsInnermost) {
            constexpr int in_slice = k * 8 / P::in_channels;
            const int row = (group + in_slice) * P::out_channels + column + n * 8 + lane;
            load_matrices(weight[tap][k][n],
                          matrix + row * kWeightPitch + k * 8 % P::in_channels * 2);
          } else {
            const int row = group * P::in_channels + k * 8 + lane;
            load_transposed(weight[tap][k][n],
                            matrix + row * kWeightPitch + (column + n * 8) * 2);
          }
        });
      });
    });
  }

  // Adds the products of one row of the window to the outputs of a pass.
  template <int kPass, int kWindowRow>
  __device__ __forceinline__ void multiply_row(float (&sum)[S::outputs][kWarpChannels / 8][4],
                                               const unsigned (&taps)[P::window_cols],
                                               unsigned line) const {
    static_for<kWarpInChannels / 16>([&](auto chunk_) {
      constexpr int chunk = decltype(chunk_)::value;
      unsigned pixel[P::window_cols][4];
      static_for<P::window_cols>([&](auto col_) {
        constexpr int col = decltype(col_)::value;
        if constexpr (reads(kPass, kWindowRow, col)) {
          load_matrices(pixel[col], Ring::template further<chunk * 16>(taps[col] + line));
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
          if constexpr (P::in_channels == 8) {
            static_for<2>([&](auto half_) {
              constexpr int half = decltype(half_)::value;
              constexpr int k = chunk * 2 + half;
              static_for<kOutChannelTiles>([&](auto n_) {
                constexpr int n = decltype(n_)::value;
                auto& d = sum[index][k * kOutChannelTiles + n];
                static_for<taps / 2>([&](auto pair_) {
                  constexpr int j = decltype(pair_)::value * 2;
                  constexpr int x = P::phases[p].col_tap[j], y = P::phases[p].col_tap[j + 1];
                  multiply_add<T>(d,
                                  {pixel[x][half * 2], pixel[x][half * 2 + 1],
                                   pixel[y][half * 2], pixel[y][half * 2 + 1]},
                                  weight[first + j][k][n][0], weight[first + j + 1][k][n][0]);
                });
                if constexpr (taps % 2 != 0) {
                  constexpr int x = P::phases[p].col_tap[taps - 1];
                  multiply_add<T>(d, {pixel[x][half * 2], pixel[x][half * 2 + 1]},
                                  weight[first + taps - 1][k][n][0]);
                }
              });
            });
          } else {
            static_for<taps>([&](auto j_) {
              constexpr int j = decltype(j_)::value;
              constexpr int x = P::phases[p].col_tap[j];
              static_for<kOutChannelTiles>([&](auto n_) {
                constexpr int n = decltype(n_)::value;
                constexpr int k = chunk * 2;
                multiply_add<T>(sum[index][k * 8 / P::in_channels * kOutChannelTiles + n],
                                pixel[x], weight[first + j][k][n][0],
                                weight[first + j][k + 1][n][0]);
              });
            });
          }
        }
      });
    });
  }

  // The same by a warpgroup, which goes on while `pixel` must not change.
  template <int kPass, int kWindowRow>
  __device__ __forceinline__ void multiply_row(
      float (&sum)[S::outputs][kWarpChannels / 8][4],
      unsigned (&pixel)[P::window_cols][kWarpInChannels / 16][4],
      const unsigned (&taps)[P::window_cols], unsigned line) const {
    static_for<P::window_cols>([&](auto col) {
      if constexpr (reads(kPass, kWindowRow, col.value)) {
        static_for<kWarpInChannels / 16>([&](auto chunk) {
          load_matrices(pixel[col.value][chunk.value],
                        Ring::template further<chunk.value * 16>(taps[col.value] + line));
        });
      }
    });
    hopper::wgmma_fence();
    static_for<S::outputs>([&](auto index_) {
      constexpr int index = decltype(index_)::value;
      constexpr int output = kPass * S::outputs + index;
      constexpr int p = phase_of(output);
      constexpr int i = row_tap(output, kWindowRow);
      if constexpr (i >= 0) {
        static_for<P::phases[p].col_taps>([&](auto j_) {
          constexpr int j = decltype(j_)::value;
          static_for<kWarpInChannels / 16>([&](auto chunk_) {
            constexpr int chunk = decltype(chunk_)::value;
            constexpr int group = chunk * 16 / P::in_channels;
            constexpr int byte = tap_index<P>(p, i, j) * kTapBytes +
                                 weight_byte(group, chunk * 16 % P::in_channels, 0);
            constexpr hopper::Major major = kInChannelsInnermost ? hopper::kMajorK : hopper::kMajorMN;
            hopper::Wgmma<T, kWarpOutChannels, hopper::kMajorK, major>::run(
                sum[index][group * kOutChannelTiles], pixel[P::phases[p].col_tap[j]][chunk],
                descriptor + byte / 16);
          });
        });
      }
    });
    hopper::wgmma_commit();
  }

  using Rows = AccumulatorRows<(P::Operands::kCount > 0)>;
  // What is stored for two accumulators of a row, `channel` and the one behind it.
  template <int kOutput>
  static __device__ __forceinline__ unsigned finished(float low, float high,
                                                      const Target<P>& out, const Rows& rows,
                                                      int half, int channel) {
    constexpr int kPhase = phase_of(kOutput);
    long long element = 0;
    if constexpr (P::Operands::kCount > 0) {
      // What is not stored reads the operands of element 0.
      const bool is_inside = (rows.valid[half] >> kOutput & 1) && channel < P::groups * P::out_channels;
      channel = is_inside ? channel : 0;
      if (is_inside) {
        element = rows.element[half] + P::phases[kPhase].offset +
                  row_of(kOutput) * P::c_row_stride + channel;
      }
    }
    return results<P>(low, high, out, element, channel, is_zero_fill<P>(kPhase));
  }

  // Stores an output of 16 output pixels: a lane has 8 channels, 16 bytes, of kStores output
  // pixels.
  template <int kOutput>
  static __device__ __forceinline__ void store(const float (&sum)[kWarpChannels / 8][4],
                                               const Target<P>& out, int channel,
                                               const unsigned (&element)[kStores],
                                               const unsigned (&valid)[kStores],
                                               const Rows& rows) {
    constexpr long long offset =
        P::phases[phase_of(kOutput)].offset + row_of(kOutput) * P::c_row_stride;
    unsigned word[kStores][4];
#pragma unroll
    for (int i = 0; i < kStores; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int half = kStores == 1 ? j / 2 : i;
        const int n = kStores == 1 ? j % 2 : j;
        word[i][j] = finished<kOutput>(sum[n][half * 2], sum[n][half * 2 + 1], out, rows, half,
                                       channel - store_channel() + n * 8 + threadIdx.x % 4 * 2);
      }
    }
#pragma unroll
    for (int i = 0; i < kStores; ++i) {
      transpose_quads(word[i]);
      store_results<1, kApart>(
          reinterpret_cast<uint4*>(out.c + channel + element[i] + offset), 1,
          [&](int) { return valid[i] >> kOutput & 1; },
          [&](int) { return make_uint4(word[i][0], word[i][1], word[i][2], word[i][3]); });
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

  // One tile: 16 output pixels, this lane's and those of its neighbours; a lane stores from
  // `channel`.
  __device__ __forceinline__ void tile(const typename Ring::Position& position, bool inside,
                                       unsigned pixels, int in_channels, const Target<P>& out,
                                       int channel) const {
    const bool has_channel = channel < P::groups * P::out_channels;
    const unsigned lane_element = position.element();
    const unsigned lane_valid = inside ? position.outputs() : 0;
    unsigned element[kStores], valid[kStores];
#pragma unroll
    for (int i = 0; i < kStores; ++i) {
      element[i] = __shfl_sync(~0u, lane_element, store_position(i));
      valid[i] = __shfl_sync(~0u, lane_valid, store_position(i));
      if (!has_channel) valid[i] = 0;
    }
    const Rows rows(lane_element, lane_valid);
    unsigned taps[P::window_cols];
    static_for<P::window_cols>([&](auto col) {
      taps[col.value] = pixels + Ring::offset(position.col * P::col_step + col.value, in_channels);
    });
    static_for<kPasses>([&](auto pass_) {
      constexpr int pass = decltype(pass_)::value;
      float sum[S::outputs][kWarpChannels / 8][4] = {};
      unsigned pixel[2][P::window_cols][kWarpInChannels / 16][4];
      static_for<Ring::kWindowRows>([&](auto window_row_) {
        constexpr int window_row = decltype(window_row_)::value;
        if constexpr (reads_row(pass, window_row)) {
          const unsigned line = position.slot_of(window_row) * Ring::kRowBytes;
          if constexpr (kWgmma) {
            hopper::wgmma_wait<1>();
            multiply_row<pass, window_row>(sum, pixel[window_row % 2], taps, line);
          } else {
            multiply_row<pass, window_row>(sum, taps, line);
          }
        }
      });
      if constexpr (kWgmma) hopper::wgmma_wait<0>();
      static_for<S::outputs>([&](auto output) {
        store<pass * S::outputs + output.value>(sum[output.value], out, channel, element, valid,
                                                rows);
      });
    });
  }

  // A is a pointer, or a map of TMA.
  template <typename A>
  static __device__ __forceinline__ void run(const A* a, const T* b, const Target<P>& out,
                                             int images) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int block = blockIdx.x % kChannelBlocks;
    const int parts = gridDim.x / kChannelBlocks, part = blockIdx.x / kChannelBlocks;
    if (part >= parts) return;
    const typename Ring::Range range(part, parts, images);
    if (range.begin == range.end) return;

    T* weights = reinterpret_cast<T*>(shared + Ring::kBytes);
    Stream rows(Loads(range, a, block * kInChannels, P::groups * P::in_channels - block * kInChannels,
                      shared_address(shared)),
                shared_address(shared) + Ring::kBytes + kWeightBytes);
    if (!Threads::kHasProducers) {
      stage_weights(b, weights, block);
      commit_copies();
    }
    if (!rows.begin()) return;
    if (Threads::kHasProducers) {
      stage_weights(b, weights, block);
      commit_copies();
    }
    wait_copies<Threads::kHasProducers ? 0 : S::stages>();
    if constexpr (kWgmma) hopper::fence_proxy();
    Threads::sync_computing();

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_channels = (kWgmma ? warp / 4 : warp) % kReduceScatter;
    const int pixel_warp = kWgmma ? warp / 4 / kReduceScatter * 4 + warp % 4 : warp / kReduceScatter;
    GroupedDirect self;
    if constexpr (kWgmma) {
      constexpr int kAlong = kCoreBytes, kAcross = kRowCores * kCoreBytes;
      const unsigned first = shared_address(weights) + weight_byte(warp_channels * kWarpChannels / P::out_channels, 0,
                                                                   warp_channels * kWarpChannels % P::out_channels);
      self.descriptor = kInChannelsInnermost ? hopper::core_descriptor(first, kAlong, kAcross)
                                        : hopper::core_descriptor(first, kAcross, kAlong);
    } else {
      self.load_weights(shared_address(weights), warp_channels);
    }
    const unsigned pixels = shared_address(shared);
    const int in_channels = warp_channels * kWarpChannels / P::out_channels * P::in_channels + lane / 16 * 8;
    const int channel = block * S::channels + warp_channels * kWarpChannels + store_channel();
    int first = range.begin + pixel_warp * kTile;
    typename Ring::Position position(first + lane % kTile, range.begin);
    for_each_tile<S::tiles>(rows, range.steps(), [&](int, int) {
      // A shuffle, as a branch that the compiler cannot prove uniform serialises wgmma.
      const int group = kWgmma ? __shfl_sync(~0u, first - warp % 4 * kTile, 0) : first;
      if (group < range.end) {
        self.tile(position, first + lane % kTile < range.end, pixels, in_channels, out, channel);
      }
      position.template advance<kPixelWarps * kTile>();
      first += kPixelWarps * kTile;
    });
  }
};

}  // namespace convir
