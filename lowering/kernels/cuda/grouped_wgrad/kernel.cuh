// Gradient of the weights of many small groups:
//
//   B[g, tap, d, n] = sum over output pixels x of A[window(x, tap), g, d] * C[x, g, n]
//
// A block streams the rows of A and of C of its channels through shared memory, once, and keeps the
// accumulators of all taps in registers: a warp has 16 input channels and a slice of the columns of
// their group. The reduced index of a matrix instruction is 16 output pixels, so both operands
// arrive transposed. Blocks publish their accumulators, and each adds a slice of those of all
// blocks, in a fixed order.
#pragma once

#include "epilogue/direct_store.cuh"
#include "reduce/grouped_wgrad_reduction.cuh"

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
  static constexpr int kGroups = S::channels / P::in_channels;  // of a block
  static constexpr int kOutChannels = kGroups * P::out_channels;   // channels of C of a block
  using Rows = RowRing<P, S, S::channels>;
  using Gradients = RowRing<GradientRows<P>, S, kOutChannels>;
  // Steps of both rings arrive together.
  struct Loads {
    RowLoads<Rows, S::read_once != 0> rows;
    RowLoads<Gradients, S::read_once != 0> gradients;

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
  static constexpr int kChannelBlocks = divide_up(P::groups * P::in_channels, S::channels);
  static constexpr int kWarpChannels = S::warp_channels;                   // columns of a warp
  static constexpr int kOutChannelBlocks = P::out_channels / kWarpChannels;
  static constexpr int kJobs = S::channels / 16 * kOutChannelBlocks;
  static constexpr int kWarps = StepThreads<S>::kComputing / 32;
  static constexpr int kPixelWarps = kWarps / kJobs;
  static constexpr int kRowTaps = P::phases[0].row_taps, kColTaps = P::phases[0].col_taps;
  static constexpr int kAccumulators = kRowTaps * kColTaps * kWarpChannels / 2;  // of a lane
  // Of two merged groups of 8 channels a warp keeps what is of one group: half of a tap's
  // accumulators.
  static constexpr int kRealInChannels = P::in_channels / P::packed, kRealOutChannels = P::out_channels / P::packed;
  static constexpr bool kIsHalved = P::packed == 2 && kRealInChannels == 8 && kRealOutChannels == 8;
  // Whether all accumulators are of a group of B, and of one that there is.
  static constexpr bool kAllReal = P::packed == 1 || kIsHalved;
  static constexpr bool kAllGroups = P::groups * P::in_channels % S::channels == 0;
  static constexpr int kFoursOfTap = kIsHalved ? 1 : kWarpChannels / 8;
  static constexpr int kKept = kRowTaps * kColTaps * kFoursOfTap * 4;
  using Accumulators = GroupedWgradReduction<S, kJobs, kKept>;
  static constexpr int kRingBytes = Rows::kBytes + Gradients::kBytes;
  // Accumulators are added up where the rings were.
  static constexpr int kHeldBytes = divide_up(larger(kRingBytes, Accumulators::kBytes), 128) * 128;

  static constexpr int kZeroBytes = divide_up(kOutChannels * 2, 128) * 128;
  static constexpr int kSharedBytes = kHeldBytes + kZeroBytes + Stream::kBytes;

  static_assert(P::phase_count == 1 && P::in_channels % 16 == 0 && P::out_channels % kWarpChannels == 0);
  static_assert(kWarpChannels % 16 == 0 && S::channels % P::in_channels == 0 && kWarps % kJobs == 0);
  static_assert(S::step_pixels == kPixelWarps * S::tiles * kTile);
  static_assert(kSharedBytes == S::shared_bytes);

  float sum[kRowTaps][kColTaps][kWarpChannels / 8][4];

  // Where a lane reads the operands of 16 output pixels, times unrolled rows.
  struct Addresses {
    unsigned gradients[S::unroll_rows];
    unsigned taps[kColTaps];       // A, in the first row of the ring,
    int lines[Rows::kWindowRows];  // and how far behind it a row of the window lies
  };

  // The lanes of a warp, each at a position of A and one of C: of A those of position
  // lane % 8 + lane / 16 * 8 at channel lane / 8 % 2 * 8 of a warp's input channels, and of C of
  // position lane % 16 at channel lane / 16 * 8 of its columns: the order of the operands'
  // registers.
  class Walk {
   public:
    // Behind `begin` in the range, for the channels from `in_channels` and `column` on.
    __device__ __forceinline__ Walk(const typename Rows::Range& range, int begin, unsigned rows,
                                    unsigned gradients, unsigned zeros, int in_channels, int column)
        : row_left_(range.end - begin - (lane() % 8 + lane() / 16 * 8)),
          gradient_left_(range.end - begin - lane() % 16),
          row_(range.end - row_left_, range.begin),
          gradient_(range.end - gradient_left_, range.begin),
          rows_(rows),
          gradients_(gradients),
          zeros_(zeros),
          depth_(in_channels + lane() / 8 % 2 * 8),
          column_(column + lane() / 16 * 8) {}

    // Behind the end, A is read where the ring begins, and C is zeros.
    __device__ __forceinline__ Addresses addresses() const {
      Addresses found;
      const unsigned at = gradients_ + Gradients::offset(gradient_.col, column_);
      static_for<S::unroll_rows>([&](auto u) {
        found.gradients[u.value] =
            gradient_left_ > 0 ? at + gradient_.slot_of(u.value) * Gradients::kRowBytes : zeros_;
      });
      const int first = row_left_ > 0 ? row_.slot : 0;
      const int pixel = row_left_ > 0 ? row_.col * P::col_step : 0;
      static_for<kColTaps>([&](auto j) {
        found.taps[j.value] =
            rows_ + Rows::offset(pixel + P::phases[0].col_tap[j.value], depth_);
      });
      static_for<Rows::kWindowRows>([&](auto window_row) {
        const int slot = first + window_row.value;
        found.lines[window_row.value] =
            (slot - (slot >= Rows::kSlots ? Rows::kSlots : 0)) * Rows::kRowBytes;
      });
      return found;
    }

    __device__ __forceinline__ void advance() {
      constexpr int kDistance = kPixelWarps * kTile;
      row_.template advance<kDistance>();
      gradient_.template advance<kDistance>();
      row_left_ -= kDistance;
      gradient_left_ -= kDistance;
    }

   private:
    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }

    int row_left_, gradient_left_;
    typename Rows::Position row_;
    typename Gradients::Position gradient_;
    unsigned rows_, gradients_, zeros_;
    int depth_, column_;
  };

  // Adds the products of 16 output pixels, times unrolled rows.
  __device__ __forceinline__ void tile(const Addresses& at) {
    unsigned y[S::unroll_rows][kWarpChannels / 16][4];
    static_for<S::unroll_rows>([&](auto u) {
      static_for<kWarpChannels / 16>([&](auto n) {
        load_transposed(
            y[u.value][n.value],
            Gradients::template further<n.value * 16>(at.gradients[u.value]));
      });
    });
    static_for<Rows::kWindowRows>([&](auto window_row_) {
      constexpr int window_row = decltype(window_row_)::value;
      static_for<kColTaps>([&](auto j_) {
        constexpr int j = decltype(j_)::value;
        unsigned x[4];
        if constexpr (reads_row(window_row)) {
          load_transposed(x, at.taps[j] + at.lines[window_row]);
        }
        static_for<S::unroll_rows>([&](auto u_) {
          constexpr int u = decltype(u_)::value;
          constexpr int i = row_tap_at<P>(0, window_row - u * P::row_step);
          if constexpr (i >= 0) {
            static_for<kWarpChannels / 8>([&](auto n_) {
              constexpr int n = decltype(n_)::value;
              multiply_add<T>(sum[i][j][n], x, y[u][n / 2][n % 2 * 2],
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

  // A and C are pointers, or maps of TMA.
  template <typename A>
  static __device__ __forceinline__ void run(const A* a, const A* c, T* b, float* workspace,
                                             unsigned* counters, int images) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int block = blockIdx.x % kChannelBlocks;
    const int split = blockIdx.x / kChannelBlocks;
    const unsigned rows = shared_address(shared);
    const unsigned gradients = rows + Rows::kBytes;
    const unsigned zeros = rows + kHeldBytes;
    for (int i = threadIdx.x; i < kZeroBytes / 4; i += S::threads) {
      reinterpret_cast<unsigned*>(shared + kHeldBytes)[i] = 0;
    }
    const typename Rows::Range range(split, S::splits, images);
    const typename Gradients::Range gradient_range(split, S::splits, images);
    const int channel_a = block * S::channels, channel_c = block * kOutChannels;
    const int left_a = P::groups * P::in_channels - channel_a;
    const int left_c = P::groups * P::out_channels - channel_c;
    const Loads loads{{range, a, channel_a, left_a, rows},
                      {gradient_range, c, channel_c, left_c, gradients}};
    Stream stream(loads, zeros + kZeroBytes);
    if (!stream.begin()) return;

    const int warp = threadIdx.x / 32;
    const int job = warp % kJobs, pixel_warp = warp / kJobs;
    const int in_channels = job / kOutChannelBlocks * 16;
    const int column = in_channels / P::in_channels * P::out_channels + job % kOutChannelBlocks * kWarpChannels;
    GroupedWgrad self;
#pragma unroll
    for (int i = 0; i < kAccumulators; ++i) (&self.sum[0][0][0][0])[i] = 0.0f;
    Walk walk(range, range.begin + pixel_warp * kTile, rows, gradients, zeros, in_channels, column);
    Addresses next = walk.addresses();
    const int steps = range.steps();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      stream.acquire(step);
#pragma unroll 1
      for (int i = 0; i < S::tiles; ++i) {
        // Those of the next tile are found while this one's are multiplied.
        const Addresses at = next;
        walk.advance();
        next = walk.addresses();
        self.tile(at);
      }
      stream.release();
    }
    wait_copies<0>();
    const Accumulators add_up{reinterpret_cast<float4*>(shared),
                      reinterpret_cast<float4*>(workspace) + block * Accumulators::kVectors,
                      counters + block * partition::kCounterWords, job, pixel_warp};
    self.keep();
    add_up(&self.sum[0][0][0][0], split, static_cast<long long>(kChannelBlocks) * Accumulators::kVectors,
           [&](int v) { return target(block, v); },
           [&](const Target& to, const float4& total) { store(b, to, total); });
  }

  // Moves the accumulators that are kept to the front.
  __device__ __forceinline__ void keep() {
    if constexpr (kIsHalved) {
      float* kept = &sum[0][0][0][0];
#pragma unroll
      for (int tap = 0; tap < kRowTaps * kColTaps; ++tap) {
        const auto& of = sum[tap / kColTaps][tap % kColTaps];
        const float four[4] = {of[0][0], of[0][1], of[1][2], of[1][3]};
#pragma unroll
        for (int i = 0; i < 4; ++i) kept[tap * 4 + i] = four[i];
      }
    }
  }

  // The elements of B that the four accumulators of a vector are; negative if they are of no group.
  struct Target {
    long long at[4];
  };
  // Vector v of a block's accumulators, four of a lane, in the numbering of `Accumulators`.
  static __device__ __forceinline__ Target target(int block, int v) {
    const int thread = v % (kJobs * 32), job = thread / 32, lane = thread % 32;
    const int tap = v / (kJobs * 32) / kFoursOfTap;
    const long long weight = chosen_weight<P>(tap / kColTaps, tap % kColTaps);
    Target found;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = block * S::channels + job / kOutChannelBlocks * 16 + lane / 4 + i / 2 * 8;
      const int group = d / P::in_channels;
      const int n = kIsHalved ? i / 2 : v / (kJobs * 32) % kFoursOfTap;
      const int column = job % kOutChannelBlocks * kWarpChannels + n * 8 + lane % 4 * 2 + i % 2;
      const int real = d % P::in_channels / kRealInChannels;
      const bool stored = (kAllGroups || group < P::groups) &&
                          (kAllReal || column / kRealOutChannels == real);
      long long at = weight + (static_cast<long long>(group) * P::packed + real) * P::b_group;
      at += d % kRealInChannels * static_cast<long long>(P::b_in_channel);
      at += column % kRealOutChannels * static_cast<long long>(P::b_out_channel);
      found.at[i] = stored ? at : -1;
      // Here, and not where it is stored to.
      asm volatile("" : "+l"(found.at[i]));
    }
    return found;
  }
  static __device__ __forceinline__ void store(T* b, const Target& to, const float4& accumulators) {
    const float total[4] = {accumulators.x, accumulators.y, accumulators.z, accumulators.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      store_results<1, kApart>(
          b + to.at[i], 1, [&](int) { return (kAllGroups && kAllReal) || to.at[i] >= 0; },
          [&](int) { return result<P>(total[i]); });
    }
  }
};

}  // namespace convir
