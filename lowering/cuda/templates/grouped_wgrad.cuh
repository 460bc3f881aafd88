// Gradient of the weights of many small groups:
//
//   B[g, tap, d, n] = sum over positions x of A[window(x, tap), g, d] * C[x, g, n]
//
// A block streams the rows of A and of C of its channels through shared memory, once, and keeps the
// sums of all taps in registers: a warp has 16 depths and a slice of the columns of their group.
// The reduced index of a matrix instruction is 16 positions, so both operands arrive transposed.
// Blocks store their sums; `add` adds those of all blocks, in a fixed order.
#pragma once

#include "row_ring.cuh"

namespace convir {

// The rows of C, as those of an operand without windows.
template <typename P>
struct GradientRows : P {
  static constexpr int row_origin = 0, col_origin = 0, row_step = 1, col_step = 1;
  static constexpr int window_rows = 1, window_cols = 1;
  static constexpr int a_rows = P::rows, a_cols = P::cols;
  static constexpr long long a_image = P::c_image, a_row_stride = P::c_row_stride;
  static constexpr int a_col_stride = P::c_col_stride;
};

template <typename P, typename S>
struct GroupedWgrad {
  using T = typename P::Element;

  static constexpr int kTile = 16;
  static constexpr int kGroups = S::channels / P::depth;  // of a block
  static constexpr int kColumns = kGroups * P::columns;   // channels of C of a block
  using Rows = RowRing<P, S, S::channels>;
  using Gradients = RowRing<GradientRows<P>, S, kColumns>;
  static constexpr int kChannelBlocks = divide_up(P::groups * P::depth, S::channels);
  static constexpr int kSlice = S::slice;                   // columns of a warp
  static constexpr int kColumnSlices = P::columns / kSlice;
  static constexpr int kJobs = S::channels / 16 * kColumnSlices;
  static constexpr int kWarps = Rows::kComputeThreads / 32;
  static constexpr int kPositionWarps = kWarps / kJobs;
  static constexpr int kRowTaps = P::phases[0].row_taps, kColTaps = P::phases[0].col_taps;
  static constexpr int kSums = kRowTaps * kColTaps * kSlice / 2;  // of a lane
  static constexpr int kBlockSums = kWarps * kSums * 32;

  static constexpr int kZeroBytes = kColumns * 2;
  static constexpr int kSharedBytes = Rows::kBytes + Gradients::kBytes + kZeroBytes + Rows::Stream::kBytes;

  static_assert(P::phase_count == 1 && P::depth % 16 == 0 && P::columns % kSlice == 0);
  static_assert(kSlice % 16 == 0 && S::channels % P::depth == 0 && kWarps % kJobs == 0);
  static_assert(S::step_positions == kPositionWarps * S::tiles * kTile);
  static_assert(kSharedBytes == S::shared_bytes);

  float sum[kRowTaps][kColTaps][kSlice / 8][4];

  // Steps of both rings arrive together.
  struct Loads {
    typename Rows::Loads rows;
    typename Gradients::Loads gradients;
    __device__ __forceinline__ void load_step(int step) {
      rows.load_step(step);
      gradients.load_step(step);
    }
    __device__ __forceinline__ int steps() const { return rows.steps(); }
  };

  // Adds the products of 16 positions, times unrolled rows; lanes name the addresses of positions
  // lane % 8 + lane / 16 * 8, at channel lane / 8 % 2 * 8.
  __device__ __forceinline__ void tile(const typename Rows::Position& row,
                                       const typename Gradients::Position& gradient, bool inside,
                                       unsigned rows, unsigned gradients, unsigned zeros) {
    unsigned y[S::unroll_rows][kSlice / 16][4];
    static_for<S::unroll_rows>([&](auto u) {
      const unsigned line = gradients + gradient.slot_of(u.value) * Gradients::kRowBytes +
                            gradient.col * Gradients::kPixelBytes;
      static_for<kSlice / 16>([&](auto n) {
        load_matrices_transposed(y[u.value][n.value], (inside ? line : zeros) + n.value * 32);
      });
    });
    const int first = inside ? row.slot : 0;
    const unsigned pixel = rows + (inside ? row.col : 0) * (P::col_step * Rows::kPixelBytes);
    static_for<Rows::kWindowRows>([&](auto window_row_) {
      constexpr int window_row = decltype(window_row_)::value;
      const int slot = first + window_row;
      const unsigned line = pixel + (slot - (slot >= Rows::kSlots ? Rows::kSlots : 0)) * Rows::kRowBytes;
      static_for<kColTaps>([&](auto j_) {
        constexpr int j = decltype(j_)::value;
        unsigned x[4];
        if constexpr (reads_row(window_row)) {
          load_matrices_transposed(x, line + P::phases[0].col_tap[j] * Rows::kPixelBytes);
        }
        static_for<S::unroll_rows>([&](auto u_) {
          constexpr int u = decltype(u_)::value;
          constexpr int i = row_tap_at<P>(0, window_row - u * P::row_step);
          if constexpr (i >= 0) {
            static_for<kSlice / 8>([&](auto n_) {
              constexpr int n = decltype(n_)::value;
              multiply_add<T>(sum[i][j][n], x[0], x[1], x[2], x[3], y[u][n / 2][n % 2],
                              y[u][n / 2][n % 2 + 2]);
            });
          }
        });
      });
    });
  }
  static constexpr bool reads_row(int window_row) {
    for (int u = 0; u < S::unroll_rows; ++u) {
      if (row_tap_at<P>(0, window_row - u * P::row_step) >= 0) return true;
    }
    return false;
  }

  static __device__ __forceinline__ void run(const T* a, const T* c, float* sums) {
    extern __shared__ __align__(128) unsigned char shared[];
    const int block = blockIdx.x % kChannelBlocks;
    const int part = blockIdx.x / kChannelBlocks;
    const unsigned rows = shared_address(shared);
    const unsigned gradients = rows + Rows::kBytes;
    const unsigned zeros = gradients + Gradients::kBytes;
    for (int i = threadIdx.x; i < kZeroBytes / 4; i += S::threads) {
      reinterpret_cast<unsigned*>(shared + Rows::kBytes + Gradients::kBytes)[i] = 0;
    }
    const typename Rows::Range range(part, S::parts);
    const typename Gradients::Range gradient_range(part, S::parts);
    StepStream<S, Loads> stream(
        Loads{typename Rows::Loads(range, a + static_cast<long long>(block) * S::channels,
                                   P::groups * P::depth - block * S::channels, rows),
              typename Gradients::Loads(gradient_range, c + static_cast<long long>(block) * kColumns,
                                        P::groups * P::columns - block * kColumns, gradients)},
        zeros + kZeroBytes);
    if (!Rows::kHasLoaders) __syncthreads();
    if (!stream.begin()) return;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int job = warp % kJobs, position_warp = warp / kJobs;
    const int depth = job / kColumnSlices * 16;
    const int column = depth / P::depth * P::columns + job % kColumnSlices * kSlice;
    const int channel = lane / 8 % 2 * 16;
    GroupedWgrad self;
#pragma unroll
    for (int i = 0; i < kSums; ++i) (&self.sum[0][0][0][0])[i] = 0.0f;
    int index = range.begin + position_warp * kTile + lane % 8 + lane / 16 * 8;
    typename Rows::Position row(index, range.begin);
    typename Gradients::Position gradient(index, range.begin);
    const int steps = range.steps();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      stream.acquire(step);
#pragma unroll 1
      for (int i = 0; i < S::tiles; ++i) {
        self.tile(row, gradient, index < range.end, rows + depth * 2 + channel,
                  gradients + column * 2 + channel, zeros);
        row.template advance<kPositionWarps * kTile>();
        gradient.template advance<kPositionWarps * kTile>();
        index += kPositionWarps * kTile;
      }
      stream.release();
    }
    wait_copies<0>();
    float* target = sums + static_cast<long long>(blockIdx.x) * kBlockSums + warp * (kSums * 32) + lane * 4;
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i) {
      const float* four = &self.sum[0][0][0][0] + i * 4;
      *reinterpret_cast<float4*>(target + i * 128) = make_float4(four[0], four[1], four[2], four[3]);
    }
  }

  // Adds the sums of all blocks: a thread has four of a lane's.
  static __device__ __forceinline__ void add(const float* sums, T* b) {
    constexpr int kFours = kJobs * kSums / 4 * 32;
    const int four = blockIdx.x * blockDim.x + threadIdx.x;
    if (four >= kChannelBlocks * kFours) return;
    const int block = four / kFours, in_block = four % kFours;
    float total[4] = {};
    for (int part = 0; part < S::parts; ++part) {
#pragma unroll
      for (int w = 0; w < kPositionWarps; ++w) {
        const float4 some = *reinterpret_cast<const float4*>(
            sums + static_cast<long long>(part * kChannelBlocks + block) * kBlockSums +
            w * (kJobs * kSums * 32) + in_block * 4);
        total[0] += some.x;
        total[1] += some.y;
        total[2] += some.z;
        total[3] += some.w;
      }
    }
    const int lane = in_block % 32, n = in_block / 32 % (kSlice / 8);
    const int tap = in_block / 32 / (kSlice / 8) % (kRowTaps * kColTaps);
    const int job = in_block / (kSums / 4 * 32);
    constexpr int kRealDepth = P::depth / P::merged, kRealColumns = P::columns / P::merged;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = block * S::channels + job / kColumnSlices * 16 + lane / 4 + i / 2 * 8;
      const int group = d / P::depth;
      const int column = job % kColumnSlices * kSlice + n * 8 + lane % 4 * 2 + i % 2;
      const int real = d % P::depth / kRealDepth;
      if (group >= P::groups || column / kRealColumns != real) continue;
      const long long weight = P::phases[0].row_weight[tap / kColTaps] + P::phases[0].col_weight[tap % kColTaps];
      b[(static_cast<long long>(group) * P::merged + real) * P::b_group + weight +
        d % kRealDepth * static_cast<long long>(P::b_depth) + column % kRealColumns * static_cast<long long>(P::b_column)] =
          result<P>(total[i]);
    }
  }
};

}  // namespace convir
