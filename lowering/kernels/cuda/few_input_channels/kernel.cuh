// Direct convolution from a few input channels, as a network's first layer is.
//
// The pixels that a row of the filter reads are contiguous in memory, channels included: a *run*.
// Rows of A lie in shared memory as they lie in global memory, and lanes pick the fragments of
// matrix instructions out of them, so nothing is gathered and a run is multiplied without gaps. A
// block keeps all of the filter, and works through strips of output rows.
#pragma once

#include "epilogue/direct_store.cuh"
#include "load/direct_phase.cuh"
#include "load/pieces.cuh"
#include "ptx/shared_memory.cuh"

namespace convir {

template <typename P, typename S>
struct FewInputChannels {
  using T = typename P::Element;
  static constexpr auto& kPhase = P::phases[0];

  // Lines of A: zeros for the padding in front, the pixels of a row, zeros behind. Copies of 16
  // bytes put pixel 0 at a multiple of 8 elements; lanes read pairs, so runs may begin one early.
  // Where every second run does, lanes read two pairs and take a pair out of them.
  static constexpr int kRun = P::window_cols * P::in_channels;
  static constexpr int kFront = larger(0, -P::col_origin) * P::in_channels;
  static constexpr int kPixel0 = divide_up(kFront, 8) * 8;
  static constexpr int kFirst = kPixel0 + P::col_origin * P::in_channels;  // of output column 0's run
  static constexpr int kStep = P::col_step * P::in_channels;
  static constexpr bool kAlternates = kStep % 2 != 0;
  static constexpr int kShift = kAlternates ? 0 : kFirst % 2;
  static constexpr int kBlocks = divide_up(kShift + kRun, 8);  // of 8 elements that hold a run
  static constexpr int kLineElements = P::a_cols * P::in_channels;
  static constexpr int kPitch =
      divide_up(larger(kPixel0 + kLineElements,
                       kFirst - kShift + (P::cols - 1) * kStep + kBlocks * 8 + kAlternates * 2),
                8) *
      16;  // bytes

  static constexpr int kLines = (S::strip_rows - 1) * P::row_step + P::window_rows;
  static constexpr int kStripBytes = kLines * kPitch;
  static constexpr int kStrips = divide_up(P::rows, S::strip_rows);
  static constexpr int kPixels = S::strip_rows * P::cols;

  // Columns in groups of 32, four tiles of 8: a lane's accumulators of a group are contiguous in C.
  static constexpr int kGroups = S::out_channels / 32;
  static constexpr int kOutChannelTiles = divide_up(P::out_channels, S::out_channels);
  static constexpr int kWeightBytes = kPhase.row_taps * kBlocks * kGroups * 32 * 16;
  static constexpr int kWarps = S::threads / 32;
  static constexpr int kVector = S::vector;  // elements of a copy
  static constexpr int kSharedBytes = 2 * kStripBytes + kWeightBytes;

  static_assert(P::phase_count == 1 && S::out_channels % 32 == 0);
  static_assert(P::a_col_stride == P::in_channels && kLineElements % kVector == 0);
  static_assert(P::out_channels % 8 == 0 && kSharedBytes == S::shared_bytes);
  static_assert(!S::planar || (S::tiles <= 2 && kPixels % 8 == 0));

  // Copies the lines that a strip reads, those of the padding as zeros.
  static __device__ __forceinline__ void load(const T* __restrict__ a, int item, unsigned lines) {
    constexpr int kVectors = kLineElements / kVector;
    const int first = item % kStrips * (S::strip_rows * P::row_step) + P::row_origin;
    const T* const image = a + item / kStrips * P::a_image;
    copy_pieces<kLines * kVectors, S::threads, 2 * kVector, 0>(
        threadIdx.x, [&](int, int i, auto copy) {
          const int line = i / kVectors, element = i % kVectors * kVector;
          const int row = first + line;
          const bool inside = static_cast<unsigned>(row) < static_cast<unsigned>(P::a_rows);
          copy(lines + line * kPitch + (kPixel0 + element) * 2,
               image + (inside ? row * P::a_row_stride : 0) + element, inside);
        });
  }

  // The filter as fragments, [filter row][block of 8 elements][group][lane][tile].
  static __device__ __forceinline__ void stage_weights(const T* __restrict__ b, int first_column,
                                                       unsigned* shared) {
    constexpr int kWords = kWeightBytes / 4;
    // Many loads at once: all blocks wait for them before they multiply.
#pragma unroll 8
    for (int i = threadIdx.x; i < kWords; i += S::threads) {
      const int tile = i % 4, lane = i / 4 % 32, group = i / 128 % kGroups;
      const int block = i / (128 * kGroups) % kBlocks, row = i / (128 * kGroups * kBlocks);
      const int column = first_column + group * 32 + lane / 8 * 8 + tile * 2 + lane / 4 % 2;
      T pair[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int k = block * 8 + lane % 4 * 2 + half - kShift;
        const bool inside = k >= 0 && k < kRun && column < P::out_channels;
        pair[half] = inside ? b[column * static_cast<long long>(P::b_out_channel) +
                                k % P::in_channels * static_cast<long long>(P::b_in_channel) +
                                row_weight(row) + col_weight(k / P::in_channels)]
                            : T(0.0f);
      }
      memcpy(shared + i, pair, 4);
    }
  }
  // Where the weights of a row of the filter begin, and behind that those of a column. Each is a sum
  // of few instructions where they lie evenly apart; else a choice among constants.
  static __device__ __forceinline__ long long row_weight(int row) {
    constexpr auto& kWeights = kPhase.row_weight;
    if constexpr (lie_evenly(kWeights, kPhase.row_taps)) {
      return kWeights[0] + row * (kWeights[kPhase.row_taps > 1] - kWeights[0]);
    }
    long long offset = 0;
    static_for<kPhase.row_taps>([&](auto i) {
      if (i.value == row) offset = kWeights[i.value];
    });
    return offset;
  }
  static __device__ __forceinline__ long long col_weight(int col) {
    constexpr auto& kWeights = kPhase.col_weight;
    if constexpr (lie_evenly(kPhase.col_tap, kPhase.col_taps) && kPhase.col_tap[0] == 0 &&
                  kPhase.col_taps == P::window_cols && lie_evenly(kWeights, kPhase.col_taps)) {
      return kWeights[0] + col * (kWeights[kPhase.col_taps > 1] - kWeights[0]);
    }
    long long offset = 0;
    static_for<kPhase.col_taps>([&](auto i) {
      if (kPhase.col_tap[i.value] == col) offset = kWeights[i.value];
    });
    return offset;
  }

  // Which halves of a lane's pair of a block belong to the run: what lies beside it may be NaN.
  static __device__ __forceinline__ unsigned mask(int block) {
    const int k = block * 8 + threadIdx.x % 4 * 2 - kShift;
    return (k >= 0 && k < kRun ? 0xffffu : 0) | (k + 1 < kRun ? 0xffff0000u : 0);
  }
  static constexpr bool is_whole(int block) {
    return block * 8 >= kShift && block * 8 + 8 <= kShift + kRun;
  }

  using Accumulators = float[S::tiles][kGroups * 4][4];

  // Where a pair of a run of a lane begins: a multiple of 4 bytes, and the bits before the pair.
  struct Run {
    unsigned pair, bits;
  };
  static __device__ __forceinline__ Run run_at(unsigned line, int element) {
    if constexpr (!kAlternates) return {line + element * 2, 0};
    return {line + element / 2 * 4, element % 2 * 16u};
  }
  template <int kOffset>
  static __device__ __forceinline__ unsigned pair_of(const Run& run) {
    unsigned pair[2];
    load_shared<1>(pair, run.pair + kOffset);
    if constexpr (!kAlternates) return pair[0];
    load_shared<1>(pair + 1, run.pair + kOffset + 4);
    return __funnelshift_r(pair[0], pair[1], run.bits);
  }

  // Adds the products of `tiles` times 16 output pixels; `run` has where those of a lane begin.
  static __device__ __forceinline__ void multiply(const Run (&run)[S::tiles][2],
                                                  unsigned weights, unsigned first_mask,
                                                  unsigned last_mask, Accumulators& sum) {
    const auto pairs = [&](auto row, auto block, unsigned(&x)[S::tiles][2]) {
      constexpr int offset = kPhase.row_tap[decltype(row)::value] * kPitch +
                             decltype(block)::value * 16;
#pragma unroll
      for (int i = 0; i < S::tiles * 2; ++i) {
        unsigned& pair = x[i / 2][i % 2];
        pair = pair_of<offset>(run[i / 2][i % 2]);
        if constexpr (!is_whole(decltype(block)::value)) {
          pair &= decltype(block)::value == 0 ? first_mask : last_mask;
        }
      }
    };
    static_for<kPhase.row_taps>([&](auto row) {
      static_for<divide_up(kBlocks, 2)>([&](auto step) {
        constexpr int block = decltype(step)::value * 2;
        constexpr bool is_double = block + 1 < kBlocks;
        constexpr int offset = (decltype(row)::value * kBlocks + block) * kGroups * 512;
        unsigned low[S::tiles][2], high[S::tiles][2];
        pairs(row, Int<block>{}, low);
        if constexpr (is_double) pairs(row, Int<block + 1>{}, high);
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          unsigned b[2][4];
          load_shared<4>(b[0], weights + offset + group * 512);
          if constexpr (is_double) {
            load_shared<4>(b[1], weights + offset + (kGroups + group) * 512);
          }
#pragma unroll
          for (int i = 0; i < S::tiles * 4; ++i) {
            const int tile = i / 4, j = i % 4;
            auto& d = sum[tile][group * 4 + j];
            if constexpr (is_double) {
              multiply_add<T>(d, {low[tile][0], low[tile][1], high[tile][0], high[tile][1]},
                              b[0][j], b[1][j]);
            } else {
              multiply_add<T>(d, low[tile], b[0][j]);
            }
          }
        }
      });
    });
  }

  // Stores the output pixels of a turn to the planes of their channels, whose rows follow each
  // other: lanes exchange pixels for channels, and each then has eight neighbours of a plane.
  static __device__ __forceinline__ void store_planes(const Accumulators& sum, int first,
                                                      int first_row, long long image,
                                                      int first_column, const Target<P>& out) {
    constexpr int kOctets = S::tiles * 2;  // of output pixels
    constexpr int kPlane = P::rows * P::cols;
    const int lane = threadIdx.x % 32;
    const int begin = first_row * P::cols + first;
    // The octet that this lane stores, of a channel: a row of a transposed matrix is a column of
    // the instruction, and those are in the order in which a lane's are neighbours.
    const int octet = lane % 4, channel = first_column + lane / 8 * 8 + lane / 4 % 2;
    const bool has_octet =
        octet < kOctets && first + octet * 8 < kPixels && begin + octet * 8 < kPlane;
    T* const to = out.c + image + begin + octet * 8 + channel * P::c_channel;
    static_for<kGroups * 4>([&](auto i) {
      constexpr int kChannel = decltype(i)::value / 4 * 32 + decltype(i)::value % 4 * 2;
      unsigned word[4] = {};
      static_for<kOctets>([&](auto of) {
        const float* pair = sum[of.value / 2][i.value] + of.value % 2 * 2;
        if constexpr (P::rounds_only) {
          word[of.value] = transposed_matrix(pack<T>(pair[0], pair[1]));
        } else {
          const int position = begin + of.value * 8 + lane / 4;
          const int at = first_column + kChannel + lane % 4 * 8;
          T both[2] = {T(0.0f), T(0.0f)};
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if (at + e < P::out_channels && first + of.value * 8 < kPixels && position < kPlane) {
              both[e] =
                  result<P>(pair[e], out, image + position + (at + e) * P::c_channel, at + e);
            }
          }
          word[of.value] = transposed_matrix(word_of(both));
        }
      });
      transpose_quads(word);
      if (has_octet && channel + kChannel < P::out_channels) {
        *reinterpret_cast<uint4*>(to + kChannel * P::c_channel) =
            make_uint4(word[0], word[1], word[2], word[3]);
      }
    });
  }

  static __device__ __forceinline__ void compute(int item, unsigned lines, unsigned weights,
                                                 int first_column, unsigned first_mask,
                                                 unsigned last_mask, const Target<P>& out) {
    const int lane = threadIdx.x % 32;
    const int first_row = item % kStrips * S::strip_rows;
    const long long image = item / kStrips * P::c_image + kPhase.offset;
#pragma unroll 1
    for (int first = threadIdx.x / 32 * (S::tiles * 16); first < kPixels;
         first += kWarps * S::tiles * 16) {
      Run run[S::tiles][2];
      static_for<S::tiles * 2>([&](auto i) {
        const int position = min(first + i.value * 8 + lane / 4, kPixels - 1);
        run[i.value / 2][i.value % 2] =
            run_at(lines + position / P::cols * (P::row_step * kPitch),
                   kFirst - kShift + position % P::cols * kStep + lane % 4 * 2);
      });
      Accumulators sum = {};
      multiply(run, weights + lane * 16, first_mask, last_mask, sum);
      if constexpr (S::planar) {
        store_planes(sum, first, first_row, image, first_column, out);
        continue;
      }
      static_for<S::tiles * 2>([&](auto i) {
        constexpr int tile = decltype(i)::value / 2, half = decltype(i)::value % 2 * 2;
        const int position = first + i.value * 8 + lane / 4;
        const int row = first_row + position / P::cols;
        if (position >= kPixels || row >= P::rows) return;
        const long long element = image + row * P::c_row_stride +
                                  position % P::cols * static_cast<long long>(P::c_col_stride);
        static_for<kGroups>([&](auto group) {
          const int channel = first_column + group.value * 32 + lane % 4 * 8;
          if (channel >= P::out_channels) return;
          const auto word = [&](int j) {
            const auto& d = sum[tile][group.value * 4 + j];
            const int next = channel + j * 2;
            return results<P>(d[half], d[half + 1], out, element + next, next);
          };
          store_results<1>(reinterpret_cast<uint4*>(out.c + element + channel), [&](int) {
            return make_uint4(word(0), word(1), word(2), word(3));
          });
        });
      });
    }
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, const Target<P>& out,
                                             int images) {
    extern __shared__ __align__(128) unsigned char shared[];
    const unsigned lines = shared_address(shared);
    const int first_column = blockIdx.x % kOutChannelTiles * S::out_channels;
    const int items = images * kStrips, step = gridDim.x / kOutChannelTiles;
    int item = blockIdx.x / kOutChannelTiles;
    clear_shared<S::threads>(shared, 2 * kStripBytes);
    __syncthreads();
    if (item < items) load(a, item, lines);
    commit_copies();
    stage_weights(b, first_column, reinterpret_cast<unsigned*>(shared + 2 * kStripBytes));
    const unsigned first_mask = mask(0), last_mask = mask(kBlocks - 1);
    int buffer = 0;
#pragma unroll 1
    for (; item < items; item += step) {
      if (item + step < items) load(a, item + step, lines + (buffer ^ 1) * kStripBytes);
      commit_copies();
      wait_copies<1>();
      __syncthreads();
      compute(item, lines + buffer * kStripBytes, lines + 2 * kStripBytes, first_column,
              first_mask, last_mask, out);
      __syncthreads();
      buffer ^= 1;
    }
    wait_copies<0>();
  }
};

}  // namespace convir
