// Direct convolution to a few output channels, and every phase of its strided backward data pass.
//
// Phases are columns of one product: a position multiplies the window that all of its outputs read
// by folded weights, zeros where an output has no tap. Outputs that are contiguous in memory, a
// *run*, share tiles of 8 columns, so a row of the window meets only the runs that read it.
// Accumulators of adjacent output pixels are contiguous in memory too, and are stored as they lie
// in registers.
#pragma once

#include "epilogue/direct_store.cuh"
#include "load/row_loads.cuh"
#include "ptx/named_barrier.cuh"

namespace convir {

// P::phases are ordered by their offset; `run_phases` of them make a run.
template <typename P, typename S>
struct FewOutputChannels {
  using T = typename P::Element;
  using Ring = RowRing<P, S, P::in_channels>;
  using Threads = StepThreads<S>;
  using Loads = RowLoads<Ring>;
  using Stream = StepStream<S, Loads>;
  static constexpr int kTile = 16;  // output pixels of a matrix instruction

  static constexpr int kRun = P::run_phases * P::out_channels;  // elements of a position
  static constexpr int kRunTiles = divide_up(kRun, 8);
  static constexpr int kTiles = P::phase_count / P::run_phases * kRunTiles;
  static constexpr int kWindow = P::window_rows * P::window_cols;
  static constexpr int kWarps = Threads::kComputing / 32;
  static constexpr int kPixelWarps = kWarps / S::k_warps;
  static constexpr int kKSteps = P::in_channels / 16 / S::k_warps;

  static constexpr int kAccumulatorBytes =
      S::k_warps == 1 ? 0 : 2 * kWarps * kTiles * 2 * 32 * static_cast<int>(sizeof(float2));
  static constexpr int kWeightPitch = P::in_channels * 2 + kBankSkew;
  static constexpr int kWeightBytes = kWindow * kTiles * 8 * kWeightPitch;
  static constexpr int kBehindBytes = larger(kAccumulatorBytes, kWeightBytes);
  static constexpr int kSharedBytes = Ring::kBytes + kBehindBytes + Stream::kBytes;

  static_assert(P::in_channels % (16 * S::k_warps) == 0, "every warp has its steps of 16 channels");
  static_assert(P::phase_count % P::run_phases == 0 && kRun % P::word_elements == 0);
  static_assert(S::step_pixels == kPixelWarps * S::tiles * kTile);
  static_assert(S::unroll_rows == 1 && kWarps % S::k_warps == 0 && (S::k_warps == 1 || kPixelWarps < 15));
  static_assert(kSharedBytes == S::shared_bytes);

  // Whether an output of a run reads a pixel of the window.
  static constexpr bool reads(int run, int window_row, int window_col) {
    for (int phase = run * P::run_phases; phase < (run + 1) * P::run_phases; ++phase) {
      if (row_tap_at<P>(phase, window_row) >= 0 && col_tap_at<P>(phase, window_col) >= 0) {
        return true;
      }
    }
    return false;
  }

  unsigned weight[kWindow][kKSteps][kTiles][2];

  // The folded weights as [window][column][depth].
  static __device__ __forceinline__ void stage_weights(const T* __restrict__ b, T* shared) {
    clear_shared<Threads::kComputing>(shared, kWeightBytes);
    Threads::sync_computing();
    for (int e = threadIdx.x; e < P::in_channels * P::out_channels; e += Threads::kComputing) {
      const int d = e / P::out_channels, n = e % P::out_channels;
      const TapWeights<P> value(b + d * P::b_in_channel + n * P::b_out_channel);
      for_each_tap<P>([&](auto p, auto i, auto j) {
        constexpr auto& phase = P::phases[p.value];
        constexpr int window =
            phase.row_tap[i.value] * P::window_cols + phase.col_tap[j.value];
        constexpr int column =
            p.value / P::run_phases * kRunTiles * 8 + p.value % P::run_phases * P::out_channels;
        shared[(window * kTiles * 8 + column + n) * (kWeightPitch / 2) + d] =
            value.of[tap_index<P>(p.value, i.value, j.value)];
      });
    }
  }

  __device__ __forceinline__ void load_weights(unsigned shared, int k_warp) {
    static_for<kWindow>([&](auto window_) {
      static_for<kKSteps>([&](auto step_) {
        static_for<kTiles>([&](auto tile) {
          constexpr int window = decltype(window_)::value, step = decltype(step_)::value;
          const int row = (window * kTiles + tile.value) * 8 + threadIdx.x % 8;
          const int in_channels = (k_warp * kKSteps + step) * 16;
          const unsigned matrix = shared + row * kWeightPitch + in_channels * 2;
          load_matrices(weight[window][step][tile.value], matrix + threadIdx.x / 8 % 2 * 16);
        });
      });
    });
  }

  // Adds the products of 16 output pixels with this warp's channels.
  __device__ __forceinline__ void multiply(const typename Ring::Position& position,
                                           unsigned pixels, float (&sum)[kTiles][4]) const {
    const unsigned pixel = pixels + position.col * (P::col_step * Ring::kPixelBytes);
    static_for<P::window_rows>([&](auto row_) {
      constexpr int row = decltype(row_)::value;
      const unsigned line = pixel + position.slot_of(row) * Ring::kRowBytes;
      static_for<P::window_cols>([&](auto col_) {
        constexpr int col = decltype(col_)::value;
        static_for<kKSteps>([&](auto step_) {
          constexpr int step = decltype(step_)::value;
          unsigned a[4];
          load_matrices(a, line + col * Ring::kPixelBytes + step * 32);
          static_for<kTiles>([&](auto tile) {
            if constexpr (reads(tile.value / kRunTiles, row, col)) {
              const auto& b = weight[row * P::window_cols + col][step][tile.value];
              multiply_add<T>(sum[tile.value], a, b[0], b[1]);
            }
          });
        });
      });
    });
  }

  // Stores two adjacent columns of a tile at one position, which begins at `element` of C.
  static __device__ __forceinline__ void store(float low, float high, int tile, unsigned valid,
                                               const Target<P>& out, unsigned element) {
    const int run = tile / kRunTiles;
    const int first = tile % kRunTiles * 8 + threadIdx.x % 4 * 2;
    const long long at = element + run_offset(run);
    const auto inside = [&](int column) {
      const int phase = run * P::run_phases + column / P::out_channels;
      return column < kRun && (valid >> phase & 1);
    };
    const auto finished = [&](int next) {
      const int column = first + next, phase = run * P::run_phases + column / P::out_channels;
      return result<P>(next == 0 ? low : high, out, at + place_in_run(column),
                       column % P::out_channels, zero_fill_at(phase));
    };
    if constexpr (P::c_channel == 1) {
      store_results<2, P::word_elements == 2 ? kTogether : kApart>(
          out.c + at + first, 1, [&](int next) { return inside(first + next); }, finished);
    } else {
#pragma unroll
      for (int next = 0; next < 2; ++next) {
        if (inside(first + next)) out.c[at + place_in_run(first + next)] = finished(next);
      }
    }
  }
  // Elements of C from a run's first to that of a column: of planes phases are neighbours.
  static __device__ __forceinline__ long long place_in_run(int column) {
    if constexpr (P::c_channel == 1) return column;
    return column / P::out_channels + column % P::out_channels * P::c_channel;
  }
  static __device__ __forceinline__ bool zero_fill_at(int phase) {
    bool found = false;
    if constexpr (has_zero_fills<P>()) {
      static_for<P::phase_count>([&](auto i) {
        if (i.value == phase) found = is_zero_fill<P>(i.value);
      });
    }
    return found;
  }
  static __device__ __forceinline__ long long run_offset(int run) {
    long long offset = 0;
    static_for<kTiles / kRunTiles>([&](auto i) {
      if (i.value == run) offset = P::phases[i.value * P::run_phases].offset;
    });
    return offset;
  }

  // Waits for the warps that share this warp's output pixels.
  static __device__ __forceinline__ void wait_for_k_warps(int pixel_warp) {
    named_sync(pixel_warp + 2, S::k_warps * 32);
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, const Target<P>& out,
                                             int images) {
    extern __shared__ __align__(128) unsigned char shared[];
    const typename Ring::Range range(blockIdx.x, gridDim.x, images);
    if (range.begin == range.end) return;

    Stream rows(Loads(range, a, 0, P::in_channels, shared_address(shared)),
                shared_address(shared) + Ring::kBytes + kBehindBytes);
    if (!rows.begin()) return;
    stage_weights(b, reinterpret_cast<T*>(shared + Ring::kBytes));
    Threads::sync_computing();

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int k_warp = warp % S::k_warps, pixel_warp = warp / S::k_warps;
    FewOutputChannels self;
    self.load_weights(shared_address(shared + Ring::kBytes), k_warp);
    if (S::k_warps > 1) Threads::sync_computing();  // accumulators take the place of the weights
    const unsigned pixels =
        shared_address(shared) + k_warp * (kKSteps * 32) + lane / 16 * 16;
    // Partial accumulators, as they lie in registers: [tile's parity][position warp][depth
    // warp][half].
    float2* accumulators = reinterpret_cast<float2*>(shared + Ring::kBytes) +
                   pixel_warp * (S::k_warps * kTiles * 2 * 32) + lane;
    int first = range.begin + pixel_warp * kTile;
    typename Ring::Position position(first + lane % kTile, range.begin);
    for_each_tile<S::tiles>(rows, range.steps(), [&](int step, int i) {
      float sum[kTiles][4] = {};
      self.multiply(position, pixels, sum);
      const AccumulatorRows<> rows_of_c(position.element(),
                                      first + lane % kTile < range.end ? position.outputs() : 0);
      const auto& element = rows_of_c.element;
      const auto& valid = rows_of_c.valid;
      if constexpr (S::k_warps == 1) {
        static_for<kTiles * 2>([&](auto half) {
          constexpr int h = half.value % 2;
          store(sum[half.value / 2][h * 2], sum[half.value / 2][h * 2 + 1], half.value / 2,
                valid[h], out, element[h]);
        });
      } else {
        float2* buffer = accumulators + (step * S::tiles + i) % 2 * (kWarps * kTiles * 2 * 32);
        static_for<kTiles * 2>([&](auto half) {
          constexpr int h = half.value % 2;
          buffer[(k_warp * kTiles * 2 + half.value) * 32] =
              make_float2(sum[half.value / 2][h * 2], sum[half.value / 2][h * 2 + 1]);
        });
        wait_for_k_warps(pixel_warp);
        for (int half = k_warp; half < kTiles * 2; half += S::k_warps) {
          float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
          for (int part = 0; part < S::k_warps; ++part) {
            const float2 value = buffer[(part * kTiles * 2 + half) * 32];
            total.x += value.x;
            total.y += value.y;
          }
          const int h = half % 2;
          store(total.x, total.y, half / 2, h ? valid[1] : valid[0], out,
                h ? element[1] : element[0]);
        }
      }
      position.template advance<kPixelWarps * kTile>();
      first += kPixelWarps * kTile;
    });
  }
};

}  // namespace convir
