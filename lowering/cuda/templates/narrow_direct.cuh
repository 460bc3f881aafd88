// Direct convolution to a few output channels, and every phase of its strided backward data pass.
//
// Phases are columns of one product: a position multiplies the window that all of its outputs read
// by folded weights, zeros where an output has no tap. Outputs that are neighbours in memory, a
// *run*, share column tiles, so a row of the window meets only the runs that read it. Sums pass
// through shared memory, and positions of one run leave as one contiguous stretch.
#pragma once

#include "grouped_direct.cuh"

namespace convir {

// P::phases are ordered by their offset; `run_phases` of them make a run.
template <typename P, typename S>
struct NarrowDirect {
  using T = typename P::Element;
  using Ring = RowRing<P, S, P::depth>;

  static constexpr int kRun = P::run_phases * P::columns;  // elements of a position
  static constexpr int kRuns = P::phase_count / P::run_phases;
  static constexpr int kRunTiles = divide_up(kRun, 8);
  static constexpr int kTiles = kRuns * kRunTiles;
  static constexpr int kWindow = P::window_rows * P::window_cols;
  static constexpr int kWarps = S::threads / 32;
  static constexpr int kPositionWarps = kWarps / S::depth_warps;
  static constexpr int kDepthSteps = P::depth / 16 / S::depth_warps;
  static constexpr int kWord = P::word_elements;  // elements of a store

  static constexpr int kSumPitch = kTiles * 8 + 8;  // floats; spreads rows over banks
  static constexpr int kWarpPositions = S::tiles * kTile;
  static constexpr int kSumBytes = S::depth_warps * S::step_positions * kSumPitch * 4;
  static constexpr int kWeightPitch = P::depth * 2 + kBankSkew;
  static constexpr int kWeightBytes = kWindow * kTiles * 8 * kWeightPitch;
  static constexpr int kSharedBytes = Ring::kBytes + larger(kSumBytes, kWeightBytes);

  static_assert(P::depth % (16 * S::depth_warps) == 0, "every warp has its steps of 16 channels");
  static_assert(P::phase_count % P::run_phases == 0 && kRun % kWord == 0);
  static_assert(S::step_positions == kPositionWarps * kWarpPositions);
  static_assert(S::unroll_rows == 1 && kWarps % S::depth_warps == 0);
  static_assert(kSharedBytes <= S::shared_bytes);

  // Whether an output of a run reads a pixel of the window.
  static constexpr bool reads(int run, int window_row, int window_col) {
    for (int phase = run * P::run_phases; phase < (run + 1) * P::run_phases; ++phase) {
      if (phase_reads<P>(phase, window_row, window_col)) return true;
    }
    return false;
  }

  unsigned weight[kWindow][kDepthSteps][kTiles][2];

  // The folded weights as [window][column][depth].
  static __device__ __forceinline__ void stage_weights(const T* b, T* shared) {
    for (int i = threadIdx.x; i < kWeightBytes / 4; i += S::threads) {
      reinterpret_cast<unsigned*>(shared)[i] = 0;
    }
    __syncthreads();
    for_each_tap<P>([&](auto phase_, auto i_, auto j_) {
      constexpr int p = decltype(phase_)::value, i = decltype(i_)::value, j = decltype(j_)::value;
      constexpr int column =
          p / P::run_phases * kRunTiles * 8 + p % P::run_phases * P::columns;
      constexpr int window = P::phases[p].row_tap[i] * P::window_cols + P::phases[p].col_tap[j];
      for (int e = threadIdx.x; e < P::depth * P::columns; e += S::threads) {
        const int d = e / P::columns, n = e % P::columns;
        shared[(window * kTiles * 8 + column + n) * (kWeightPitch / 2) + d] =
            b[tap_weight<P>(p, i, j) + d * P::b_depth + n * P::b_column];
      }
    });
  }

  __device__ __forceinline__ void load_weights(unsigned shared, int depth_warp) {
    static_for<kWindow>([&](auto window_) {
      static_for<kDepthSteps>([&](auto step_) {
        static_for<kTiles>([&](auto tile_) {
          constexpr int window = decltype(window_)::value, step = decltype(step_)::value;
          constexpr int tile = decltype(tile_)::value;
          const int row = (window * kTiles + tile) * 8 + threadIdx.x % 8;
          const int depth = (depth_warp * kDepthSteps + step) * 16;
          weight[window][step][tile][0] = load_matrix(shared + row * kWeightPitch + depth * 2);
          weight[window][step][tile][1] = load_matrix(shared + row * kWeightPitch + depth * 2 + 16);
        });
      });
    });
  }

  // The sums of 16 positions, over the channels of this warp, to shared memory.
  __device__ __forceinline__ void tile(const Ring& ring, int first, int end, int depth_warp,
                                       float* sums) const {
    const int lane = threadIdx.x % 32;
    const int index = first + lane % kTile;
    const typename Ring::Position position(index < end ? index : end - 1);
    const int slot = ring.slot(position.first_row());
    const unsigned pixel = ring.shared + position.col * P::col_step * Ring::kPixelBytes +
                           depth_warp * (kDepthSteps * 32) + lane / 16 * 16;
    float sum[kTiles][4] = {};
    static_for<P::window_rows>([&](auto row_) {
      constexpr int row = decltype(row_)::value;
      const int wrapped = slot + row - (slot + row >= Ring::kSlots ? Ring::kSlots : 0);
      const unsigned line = pixel + wrapped * Ring::kRowBytes;
      static_for<P::window_cols>([&](auto col_) {
        static_for<kDepthSteps>([&](auto step_) {
          constexpr int col = decltype(col_)::value, step = decltype(step_)::value;
          unsigned a[4];
          load_matrices(a, line + col * Ring::kPixelBytes + step * 32);
          static_for<kTiles>([&](auto tile_) {
            constexpr int n = decltype(tile_)::value;
            if constexpr (reads(n / kRunTiles, row, col)) {
              const auto& b = weight[row * P::window_cols + col][step][n];
              multiply_add<T>(sum[n], a[0], a[1], a[2], a[3], b[0], b[1]);
            }
          });
        });
      });
    });
    static_for<kTiles>([&](auto tile_) {
      constexpr int n = decltype(tile_)::value;
      float* target = sums + lane / 4 * kSumPitch + n * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(target) = make_float2(sum[n][0], sum[n][1]);
      *reinterpret_cast<float2*>(target + 8 * kSumPitch) = make_float2(sum[n][2], sum[n][3]);
    });
  }

  // Stores the runs of `count` positions from `first` on; thread `rank` of `ranks` has its share.
  static __device__ __forceinline__ void store(const float* sums, int first, int count, int rank,
                                               int ranks, T* c) {
    constexpr int kRunWords = kRun / kWord;
    static_for<kRuns>([&](auto run_) {
      constexpr int run = decltype(run_)::value;
      for (int i = rank; i < count * kRunWords; i += ranks) {
        const int at = i / kRunWords, element = i % kRunWords * kWord;
        const typename Ring::Position position(first + at);
        const int row = position.row, col = position.output_col();
        const int phase = run * P::run_phases + element / P::columns;
        // Phases of a run differ in their columns only.
        if (row >= P::phases[run * P::run_phases].rows || col >= cols_of(phase)) continue;
        float value[kWord] = {};
        for (int part = 0; part < S::depth_warps; ++part) {
          const float* source = sums + (part * S::step_positions + at) * kSumPitch +
                                run * kRunTiles * 8 + element;
          for (int e = 0; e < kWord; ++e) value[e] += source[e];
        }
        T* target = c + position.image() * P::c_image + row * P::c_row_stride +
                    static_cast<long long>(col) * P::c_col_stride +
                    P::phases[run * P::run_phases].offset + element;
        if constexpr (kWord == 2) {
          *reinterpret_cast<unsigned*>(target) = pack<T>(value[0], value[1]);
        } else {
          *target = static_cast<T>(value[0]);
        }
      }
    });
  }

  static __device__ __forceinline__ int cols_of(int phase) {
    int cols = 0;
    static_for<P::phase_count>([&](auto phase_) {
      constexpr int p = decltype(phase_)::value;
      if (p == phase) cols = P::phases[p].cols;
    });
    return cols;
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, T* c) {
    extern __shared__ __align__(128) unsigned char shared[];
    const long long block = blockIdx.x, blocks = gridDim.x;
    const int begin = static_cast<int>(block * Ring::kListRows / blocks) * S::tile_cols;
    const int end = static_cast<int>((block + 1) * Ring::kListRows / blocks) * S::tile_cols;
    if (begin == end) return;

    const int origin = typename Ring::Position(begin).first_row();
    Ring ring{a, P::depth, shared_address(shared), origin, origin};
    const auto last_of = [&](int step) {
      const int last = begin + (step + 1) * S::step_positions;
      return (last < end ? last : end) - 1;
    };
#pragma unroll
    for (int stage = 0; stage < S::stages; ++stage) {
      ring.load_through(last_of(stage));
      commit_copies();
    }
    stage_weights(b, reinterpret_cast<T*>(shared + Ring::kBytes));
    __syncthreads();

    const int warp = threadIdx.x / 32;
    const int depth_warp = warp % S::depth_warps, position_warp = warp / S::depth_warps;
    NarrowDirect self;
    self.load_weights(shared_address(shared + Ring::kBytes), depth_warp);
    float* sums = reinterpret_cast<float*>(shared + Ring::kBytes);
    const int steps = divide_up(end - begin, S::step_positions);
    for (int step = 0; step < steps; ++step) {
      wait_copies<S::stages - 1>();
      __syncthreads();
      ring.load_through(last_of(step + S::stages));
      commit_copies();
      const int step_first = begin + step * S::step_positions;
      const int first = step_first + position_warp * kWarpPositions;
      float* warp_sums = sums + (depth_warp * S::step_positions + position_warp * kWarpPositions) * kSumPitch;
#pragma unroll 1
      for (int i = 0; i < S::tiles; ++i) {
        if (first + i * kTile >= end) break;
        self.tile(ring, first + i * kTile, end, depth_warp, warp_sums + i * kTile * kSumPitch);
      }
      if constexpr (S::depth_warps == 1) {
        __syncwarp();
        const int count = end - first < kWarpPositions ? end - first : kWarpPositions;
        store(warp_sums, first, count, threadIdx.x % 32, 32, c);
        __syncwarp();
      } else {
        __syncthreads();
        const int count = end - step_first < S::step_positions ? end - step_first : S::step_positions;
        store(sums, step_first, count, threadIdx.x, S::threads, c);
      }
    }
    wait_copies<0>();
  }
};

}  // namespace convir
