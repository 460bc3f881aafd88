// Gradient of the weights of groups of 32 channels, 3x3 windows with a step of 1:
//
//   B[g, tap, d, n] = sum over output pixels x of A[x + tap, g, d] * C[x, g, n]
//
// A matrix instruction (wgmma) has 64 rows: the 32 channels of C at 16 output pixels, and those at
// the same output pixels moved by a tap, from registers. Its columns are the channels of A where
// windows of these output pixels have their taps of one column, in shared memory as TMA put them.
// So the second half of the rows has the accumulators of other taps, and 9 taps are 96 and 64
// columns, which two warpgroups multiply. Blocks publish their accumulators, and each adds a slice
// of those of all blocks, in a fixed order.
#pragma once

#include "epilogue/direct_store.cuh"
#include "load/padded_rows.cuh"
#include "pipeline/state.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/wgmma.cuh"
#include "reduce/grouped_wgrad_reduction.cuh"

namespace convir {

template <typename P, typename S>
class Sm90GroupedWgrad {
  using T = typename P::Element;
  using Threads = StepThreads<S>;
  static constexpr int kChannels = 32;  // of a group, of A and of C
  static constexpr int kPixelBytes = kChannels * 2;
  static constexpr int kRepeat = 8 * kPixelBytes;  // bytes after which the swizzle repeats
  static constexpr int kTile = 16;                 // output pixels of a matrix instruction
  static constexpr int kTileBytes = kTile * kPixelBytes;

  // Taps are so many rows and columns apart.
  static constexpr int kTaps = 3;
  static constexpr int kDown = P::phases[0].row_tap[1], kRight = P::phases[0].col_tap[1];
  static_assert(P::phase_count == 1 && P::row_step == 1 && P::col_step == 1);
  static_assert(P::phases[0].row_taps == kTaps && P::phases[0].col_taps == kTaps);
  static_assert(P::window_rows == 2 * kDown + 1 && P::window_cols == 2 * kRight + 1);

  // Rows are `kPitch` pixels in shared memory, of A and of C, so a tap is a constant distance.
  // Zeros behind a row of A are also those before the next; rows of C end with `kRight` zeros at
  // least.
  static constexpr int kPitch = PaddedRows<P, kRight>::kPitch;

  // Output pixels are those of C and `kDown` rows more, where only what is moved down lies inside.
  // A strip is `rows` rows of them.
  static constexpr int kStrips = divide_up(P::rows + kDown, S::rows);
  static constexpr int kPixels = S::rows * kPitch;
  static constexpr int kRowsOfA = S::rows + 2 * kDown, kRowsOfC = S::rows + kDown;

  static constexpr int kTiles = divide_up(kPixels, kTile);
  static constexpr int kInLast = kPixels - (kTiles - 1) * kTile;
  // Tiles of a turn of the loop, and those of whole turns before the last tile.
  static constexpr int kTurn = 4;
  static constexpr int kInTurns = (kTiles - 1) / kTurn * kTurn;

  // One warpgroup has the taps of the first two columns, whose windows it multiplies with output
  // pixels and those `kRight` before; one has those of the third, of whose windows it needs every
  // other row, as it multiplies them with output pixels and those `kDown` rows before.
  static constexpr int kGroups = 2;
  static constexpr int kConsumerThreads = kGroups * kWarpgroupThreads;
  static constexpr int kWarps = kWarpgroupThreads / 32;
  static constexpr int moved_by(int group) { return group == 0 ? kRight : kDown * kPitch; }
  static constexpr int window_at(int group) { return group == 0 ? 0 : 2 * kRight; }
  static constexpr int window_rows(int group) { return group == 0 ? kTaps : divide_up(kTaps, 2); }
  static constexpr int window_step(int group) { return (group + 1) * kDown * kPitch; }

  // Shared memory: slots of rows of C, of A, and zeros that tiles read behind the last row.
  static constexpr int kCopyOfA = kRowsOfA * kPitch * kPixelBytes;
  static constexpr int kCopyOfC = kRowsOfC * kPitch * kPixelBytes;
  static constexpr int kBytesOfC = divide_up(kCopyOfC, kRepeat) * kRepeat;
  static constexpr int kZeroPixels = kTile + 2 * kRight;
  static constexpr int kSlotBytes =
      kBytesOfC + divide_up(kCopyOfA + kZeroPixels * kPixelBytes, kRepeat) * kRepeat;

  // Fours of accumulators that warps publish: of the last row of windows, half of the warps of the
  // second warpgroup have no tap.
  static constexpr int kEights = kChannels / 8;
  static constexpr int kFirstFours = kWarps * window_rows(0) * kEights;
  static constexpr int kFours =
      kFirstFours + kWarps * window_rows(1) * kEights - kWarps / 2 * kEights;
  using Accumulators = PublishedAccumulators<S, kFours * 32>;

  static constexpr int kBarriers = larger(S::stages * kSlotBytes, Accumulators::kBytes);
  static_assert(kBarriers + Pipeline<S::stages>::kBytes == S::shared_bytes);
  static_assert(S::threads == kConsumerThreads + 32 && S::producer_warps == 1, "a warp asks for copies");

  // The strips of a block.
  struct Range {
    int begin, end;
    __device__ __forceinline__ Range(int split, int images)
        : begin(static_cast<int>(static_cast<long long>(split) * (images * kStrips) / S::splits)),
          end(static_cast<int>((split + 1ll) * (images * kStrips) / S::splits)) {}
  };

  // One thread asks for the rows of all strips.
  static __device__ __forceinline__ void load_all(const hopper::TensorMap* a,
                                                  const hopper::TensorMap* c, const Range& range,
                                                  int group, unsigned shared) {
    Producer<S::stages> fill(Pipeline<S::stages>(shared + kBarriers));
#pragma unroll 1
    for (int strip = range.begin; strip < range.end; ++strip) {
      const int image = strip / kStrips, row = strip % kStrips * S::rows;
      fill([&](int stage, unsigned full) {
        const unsigned to = shared + stage * kSlotBytes;
        arrive_expecting(full, kCopyOfA + kCopyOfC);
        constexpr bool kOnce = S::read_once != 0;
        const int channel = group * kChannels;
        hopper::load_4d<kOnce>(to, c, full, channel, 0, row - kDown, image);
        hopper::load_4d<kOnce>(to + kBytesOfC, a, full, channel, P::col_origin, row + P::row_origin,
                               image);
      });
    }
  }

  // Adds the products of a strip.
  template <int kGroup, int kAccumulators>
  static __device__ __forceinline__ void multiply(float (&sum)[kAccumulators], unsigned slot) {
    // What a lane reads of C: output pixels of its warp's 16 channels, which the upper warps move.
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % kWarps;
    const int position = kDown * kPitch + lane % 8 + lane / 16 * 8 -
                         (warp / 2 != 0 ? moved_by(kGroup) : 0);
    const unsigned pixel = slot + position * kPixelBytes;
    const int chunk = warp % 2 * 2 + lane / 8 % 2;
    const unsigned from = swizzled<kPixelBytes>(pixel, chunk);
    const auto windows = hopper::block_descriptor<kPixelBytes, window_step(kGroup)>(
        slot + kBytesOfC + window_at(kGroup) * kPixelBytes);
    // What a tile multiplies is loaded two tiles before, when wgmma has read what was there: it
    // reads registers until the next one but one is under way.
    unsigned x[kTurn][4];
    const auto load = [&](auto to, int tile) {
      load_transposed(x[to.value % kTurn], from + tile * kTileBytes);
    };
    const auto add = [&](auto of, int tile) {
      hopper::wgmma_fence();
      hopper::Wgmma<T, window_rows(kGroup) * kChannels, hopper::kMajorK, hopper::kMajorMN>::run(
          sum, x[of.value], windows + tile * (kTileBytes / 16));
      hopper::wgmma_commit();
      hopper::wgmma_wait<1>();
    };
    load(Int<0>{}, 0);
    load(Int<1>{}, 1);
#pragma unroll 1
    for (int tile = 0; tile < kInTurns; tile += kTurn) {
      static_for<kTurn>([&](auto i) {
        add(i, tile + i.value);
        load(Int<i.value + 2>{}, tile + i.value + 2);
      });
    }
    constexpr int kRest = kTiles - kInTurns;
    static_for<kRest>([&](auto i) {
      if constexpr (i.value == kRest - 1 && kInLast < kTile) {
#pragma unroll
        for (int k = 0; k < 4; ++k) x[i.value][k] &= inside(k / 2 * 8 + lane % 4 * 2);
      }
      add(i, kInTurns + i.value);
      if constexpr (i.value + 2 < kRest) load(Int<i.value + 2>{}, kInTurns + i.value + 2);
    });
    hopper::wgmma_wait<0>();
    hopper::hold(sum);
  }
  // Which bits of an operand, of two output pixels of the last tile, are of the strip.
  static __device__ __forceinline__ unsigned inside(int position) {
    return (position < kInLast ? 0xffffu : 0) | (position + 1 < kInLast ? 0xffff0000u : 0);
  }

  // Where the fours of a warp of a warpgroup begin, and how many it has.
  static __device__ __forceinline__ int first_four(int group, int warp) {
    if (group == 0) return warp * window_rows(0) * kEights;
    return kFirstFours + warp * kEights * 2 - (warp > 2 ? kEights : 0);
  }
  static __device__ __forceinline__ int four_count(int group, int warp) {
    return group == 0 ? window_rows(0) * kEights : kEights * (warp / 2 != 0 ? 1 : 2);
  }

  // Whether adjacent input channels of B are words.
  static constexpr bool has_words() {
    if (P::b_in_channel != 1 || P::b_out_channel % 2 != 0 || P::b_group % 2 != 0) return false;
    for (int i = 0; i < kTaps; ++i) {
      if (P::phases[0].row_weight[i] % 2 != 0 || P::phases[0].col_weight[i] % 2 != 0) return false;
    }
    return true;
  }

  // The elements of B that the first and the third sum of a vector are; the others are a depth
  // further.
  struct Target {
    long long at[2];
  };
  // Vector v of a block's accumulators, four of a lane.
  static __device__ __forceinline__ Target target(int group, int v) {
    const int lane = v % 32, four = v / 32, is_third = four >= kFirstFours;
    int warp = 0;
#pragma unroll
    for (int i = 1; i < kWarps; ++i) warp += four >= first_four(is_third, i);
    const int moved = warp / 2, eight = four - first_four(is_third, warp);
    const int row = is_third != 0 ? eight / kEights * 2 + moved : eight / kEights;
    const int in_channels = eight % kEights * 8 + lane % 4 * 2;
    const long long first = group * P::b_group +
                            chosen_weight<P>(row, is_third != 0 ? 2 : moved) +
                            in_channels * static_cast<long long>(P::b_in_channel);
    Target found;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = warp % 2 * 16 + lane / 4 + i * 8;
      found.at[i] = first + column * static_cast<long long>(P::b_out_channel);
      // Here, and not where it is stored to.
      asm volatile("" : "+l"(found.at[i]));
    }
    return found;
  }
  static __device__ __forceinline__ void store(T* b, const Target& to,
                                               const float4& accumulators) {
    const float total[2][2] = {{accumulators.x, accumulators.y}, {accumulators.z, accumulators.w}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      store_results<2, has_words() ? kTogether : kApart>(
          b + to.at[i], P::b_in_channel, [](int) { return true; },
          [&](int j) { return result<P>(total[i][j]); });
    }
  }

  // Multiplies all strips of a block and publishes the accumulators of a warpgroup.
  template <int kGroup>
  static __device__ __forceinline__ void reduce(const Range& range, unsigned shared,
                                                float4* published) {
    constexpr int kAccumulators = window_rows(kGroup) * kChannels / 2;
    float sum[kAccumulators];
#pragma unroll
    for (int i = 0; i < kAccumulators; ++i) sum[i] = 0.0f;
    Consumer<S::stages> full(Pipeline<S::stages>(shared + kBarriers));
#pragma unroll 1
    for (int strip = range.begin; strip < range.end; ++strip) {
      full.wait();
      multiply<kGroup>(sum, shared + full.at.stage * kSlotBytes);
      full.release(full.at.stage);
      full.at.advance();
    }
    const int warp = threadIdx.x / 32 % kWarps, count = four_count(kGroup, warp);
    float4* to = published + first_four(kGroup, warp) * 32 + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kAccumulators / 4; ++i) {
      const float* four = sum + i * 4;
      if (i < count) __stcg(to + i * 32, make_float4(four[0], four[1], four[2], four[3]));
    }
  }

 public:
  static __device__ __forceinline__ void run(const hopper::TensorMap* a,
                                             const hopper::TensorMap* c, T* b, float* workspace,
                                             unsigned* counters, int images) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const unsigned shared = shared_address(memory);
    const int group = blockIdx.x % P::groups, split = blockIdx.x / P::groups;
    const Range range(split, images);
    if (threadIdx.x == kConsumerThreads) {
      Pipeline<S::stages>(shared + kBarriers).init(1, kConsumerThreads / 32 * kWarpArrivals);
      fence_barrier_init();
    }
    constexpr int kZeros = kZeroPixels * kPixelBytes / 4;
    for (int i = threadIdx.x; i < S::stages * kZeros; i += kConsumerThreads) {
      if (threadIdx.x >= kConsumerThreads) break;
      unsigned char* zeros = memory + i / kZeros * kSlotBytes + kBytesOfC + kCopyOfA;
      reinterpret_cast<unsigned*>(zeros)[i % kZeros] = 0;
    }
    if (threadIdx.x >= kConsumerThreads) {
      __syncwarp();
      named_arrive(0, S::threads);
      if (threadIdx.x == kConsumerThreads) load_all(a, c, range, group, shared);
      return;
    }
    hopper::fence_proxy();
    named_sync(0, S::threads);

    float4* stages = reinterpret_cast<float4*>(workspace) + group * (kFours * 32);
    constexpr long long kStep = static_cast<long long>(P::groups) * kFours * 32;
    if (threadIdx.x < kWarpgroupThreads) {
      reduce<0>(range, shared, stages + split * kStep);
    } else {
      reduce<1>(range, shared, stages + split * kStep);
    }
    Accumulators{reinterpret_cast<float4*>(memory), stages, counters + group * partition::kCounterWords}(
        split, kStep, [&](int v) { return target(group, v); },
        [&](const Target& to, const float4& total) { store(b, to, total); });
  }
};

}  // namespace convir
