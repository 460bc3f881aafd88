// Gradient of the weights of many small groups:
//
//   B[g, tap, d, n] = sum over positions x of A[window(x, tap), g, d] * C[x, g, n]
//
// A block streams the rows of A and of C of its channels through shared memory, once, and keeps the
// sums of all taps in registers: a warp has 16 depths and a slice of the columns of their group.
// The reduced index of a matrix instruction is 16 positions, so both operands arrive transposed.
// Blocks publish their sums, and each adds a slice of those of all blocks, in a fixed order.
#pragma once

#include "partition.cuh"
#include "row_loads.cuh"

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
  // Steps of both rings arrive together.
  struct Loads {
    RowLoads<Rows> rows;
    RowLoads<Gradients> gradients;

    __device__ __forceinline__ int steps() const { return rows.steps(); }
    __device__ __forceinline__ void load_step(int step) {
      rows.load_step(step);
      gradients.load_step(step);
    }
    __device__ __forceinline__ int load_step(int step, unsigned barrier) {
      return rows.load_step(step, barrier) + gradients.load_step(step, barrier);
    }
  };
  using Stream = StepStream<S, Loads>;
  static constexpr int kChannelBlocks = divide_up(P::groups * P::depth, S::channels);
  static constexpr int kSlice = S::slice;                   // columns of a warp
  static constexpr int kColumnSlices = P::columns / kSlice;
  static constexpr int kJobs = S::channels / 16 * kColumnSlices;
  static constexpr int kWarps = StepThreads<S>::kComputing / 32;
  static constexpr int kPositionWarps = kWarps / kJobs;
  static constexpr int kRowTaps = P::phases[0].row_taps, kColTaps = P::phases[0].col_taps;
  static constexpr int kSums = kRowTaps * kColTaps * kSlice / 2;  // of a lane
  static constexpr int kJobSums = kJobs * kSums * 32;
  static constexpr int kRingBytes = Rows::kBytes + Gradients::kBytes;
  // Warps that share a job add their sums in shared memory, where the rings were.
  static constexpr int kFoldBytes = kPositionWarps > 1 ? kJobSums * 4 : 0;
  static constexpr int kHeldBytes = divide_up(larger(kRingBytes, kFoldBytes), 128) * 128;

  static constexpr int kZeroBytes = divide_up(kColumns * 2, 128) * 128;
  static constexpr int kSharedBytes = kHeldBytes + kZeroBytes + Stream::kBytes;

  static_assert(P::phase_count == 1 && P::depth % 16 == 0 && P::columns % kSlice == 0);
  static_assert(kSlice % 16 == 0 && S::channels % P::depth == 0 && kWarps % kJobs == 0);
  static_assert(S::step_positions == kPositionWarps * S::tiles * kTile);
  static_assert(kSharedBytes == S::shared_bytes);

  float sum[kRowTaps][kColTaps][kSlice / 8][4];

  // Adds the products of 16 positions, times unrolled rows. Lanes name the addresses of A's
  // positions lane % 8 + lane / 16 * 8 at channel lane / 8 % 2 * 8 of `depth`, and of C's positions
  // lane % 16 at channel lane / 16 * 8 of `column`: the order of the operands' registers.
  __device__ __forceinline__ void tile(const typename Rows::Position& row,
                                       const typename Gradients::Position& gradient,
                                       bool row_inside, bool gradient_inside, unsigned rows,
                                       unsigned gradients, unsigned zeros, int depth, int column) {
    unsigned y[S::unroll_rows][kSlice / 16][4];
    const unsigned at = gradients + Gradients::offset(gradient.col, column);
    static_for<S::unroll_rows>([&](auto u) {
      const unsigned line =
          gradient_inside ? at + gradient.slot_of(u.value) * Gradients::kRowBytes : zeros;
      static_for<kSlice / 16>([&](auto n) {
        load_matrices_transposed(y[u.value][n.value],
                                 Gradients::template further<n.value * 16>(line));
      });
    });
    const int first = row_inside ? row.slot : 0;
    const int pixel = row_inside ? row.col * P::col_step : 0;
    unsigned taps[kColTaps];
    static_for<kColTaps>([&](auto j) {
      taps[j.value] = rows + Rows::offset(pixel + P::phases[0].col_tap[j.value], depth);
    });
    static_for<Rows::kWindowRows>([&](auto window_row_) {
      constexpr int window_row = decltype(window_row_)::value;
      const int slot = first + window_row;
      const int line = (slot - (slot >= Rows::kSlots ? Rows::kSlots : 0)) * Rows::kRowBytes;
      static_for<kColTaps>([&](auto j_) {
        constexpr int j = decltype(j_)::value;
        unsigned x[4];
        if constexpr (reads_row(window_row)) load_matrices_transposed(x, taps[j] + line);
        static_for<S::unroll_rows>([&](auto u_) {
          constexpr int u = decltype(u_)::value;
          constexpr int i = row_tap_at<P>(0, window_row - u * P::row_step);
          if constexpr (i >= 0) {
            static_for<kSlice / 8>([&](auto n_) {
              constexpr int n = decltype(n_)::value;
              multiply_add<T>(sum[i][j][n], x[0], x[1], x[2], x[3], y[u][n / 2][n % 2 * 2],
                              y[u][n / 2][n % 2 * 2 + 1]);
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

  // A and C are pointers, or maps of the copy engine.
  template <typename A>
  static __device__ __forceinline__ void run(const A* a, const A* c, T* b, float* sums,
                                             unsigned* counters) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int block = blockIdx.x % kChannelBlocks;
    const int part = blockIdx.x / kChannelBlocks;
    const unsigned rows = shared_address(shared);
    const unsigned gradients = rows + Rows::kBytes;
    const unsigned zeros = rows + kHeldBytes;
    for (int i = threadIdx.x; i < kZeroBytes / 4; i += S::threads) {
      reinterpret_cast<unsigned*>(shared + kHeldBytes)[i] = 0;
    }
    const typename Rows::Range range(part, S::parts);
    const typename Gradients::Range gradient_range(part, S::parts);
    const int channel_a = block * S::channels, channel_c = block * kColumns;
    const int left_a = P::groups * P::depth - channel_a;
    const int left_c = P::groups * P::columns - channel_c;
    const Loads loads{{range, a, channel_a, left_a, rows},
                      {gradient_range, c, channel_c, left_c, gradients}};
    Stream stream(loads, zeros + kZeroBytes);
    if (!stream.begin()) return;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int job = warp % kJobs, position_warp = warp / kJobs;
    const int depth = job / kColumnSlices * 16;
    const int column = depth / P::depth * P::columns + job % kColumnSlices * kSlice;
    GroupedWgrad self;
#pragma unroll
    for (int i = 0; i < kSums; ++i) (&self.sum[0][0][0][0])[i] = 0.0f;
    const int begin = range.begin + position_warp * kTile;
    int row_left = range.end - begin - (lane % 8 + lane / 16 * 8);
    int gradient_left = range.end - begin - lane % 16;
    typename Rows::Position row(range.end - row_left, range.begin);
    typename Gradients::Position gradient(range.end - gradient_left, range.begin);
    const int steps = range.steps();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      stream.acquire(step);
#pragma unroll 1
      for (int i = 0; i < S::tiles; ++i) {
        self.tile(row, gradient, row_left > 0, gradient_left > 0, rows, gradients, zeros,
                  depth + lane / 8 % 2 * 8, column + lane / 16 * 8);
        row.template advance<kPositionWarps * kTile>();
        gradient.template advance<kPositionWarps * kTile>();
        row_left -= kPositionWarps * kTile;
        gradient_left -= kPositionWarps * kTile;
      }
      stream.release();
    }
    wait_copies<0>();
    self.fold(reinterpret_cast<float4*>(shared), job, position_warp);
    if (position_warp > 0) return;
    const partition::Work work{block, 0, 0, part, S::parts, block, kChannelBlocks};
    const Slices slices{sums, counters, static_cast<int>(threadIdx.x)};
    slices(
        work, [&](int i) -> float& { return (&self.sum[0][0][0][0])[i]; },
        [&](int v, const float4& total) { store(b, block, v, total); });
  }

  // Of the warps that have the sums, when those of a job have added up; barrier 2 is theirs.
  using Slices = partition::Slices<kJobs * 32, kSums, 2>;

  // body(i, four of the sums) for all of them; where the i-th of a job lies among those of all.
  template <typename Body>
  __device__ __forceinline__ void for_each_four(const Body& body) {
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i) body(i, &sum[0][0][0][0] + i * 4);
  }
  static __device__ __forceinline__ int place(int job, int i) {
    return (job * (kSums / 4) + i) * 32 + threadIdx.x % 32;
  }

  // Adds the sums of all warps of a job to those of the first, one after the other.
  __device__ __forceinline__ void fold(float4* shared, int job, int position_warp) {
    for (int other = 1; other < kPositionWarps; ++other) {
      StepThreads<S>::sync_computing();
      if (position_warp == other) {
        for_each_four([&](int i, const float* four) {
          shared[place(job, i)] = make_float4(four[0], four[1], four[2], four[3]);
        });
      }
      StepThreads<S>::sync_computing();
      if (position_warp == 0) {
        for_each_four([&](int i, float* four) { add_to(four, shared[place(job, i)]); });
      }
    }
  }
  static __device__ __forceinline__ void add_to(float* four, const float4& other) {
    four[0] += other.x;
    four[1] += other.y;
    four[2] += other.z;
    four[3] += other.w;
  }

  // Stores vector v of a block's sums, four of a lane: in the numbering of `Slices`.
  static __device__ __forceinline__ void store(T* b, int block, int v, const float4& sums) {
    const float total[4] = {sums.x, sums.y, sums.z, sums.w};
    const int thread = v % (kJobs * 32), job = thread / 32, lane = thread % 32;
    const int n = v / (kJobs * 32) % (kSlice / 8), tap = v / (kJobs * 32) / (kSlice / 8);
    constexpr int kRealDepth = P::depth / P::merged, kRealColumns = P::columns / P::merged;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = block * S::channels + job / kColumnSlices * 16 + lane / 4 + i / 2 * 8;
      const int group = d / P::depth;
      const int column = job % kColumnSlices * kSlice + n * 8 + lane % 4 * 2 + i % 2;
      const int real = d % P::depth / kRealDepth;
      if (group >= P::groups || column / kRealColumns != real) continue;
      long long at = (static_cast<long long>(group) * P::merged + real) * P::b_group;
      at += P::phases[0].row_weight[tap / kColTaps] + P::phases[0].col_weight[tap % kColTaps];
      at += d % kRealDepth * static_cast<long long>(P::b_depth);
      at += column % kRealColumns * static_cast<long long>(P::b_column);
      b[at] = result<P>(total[i]);
    }
  }
};

}  // namespace convir
