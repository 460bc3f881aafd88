// Direct convolution of groups of 32 channels with a step of 1, two output rows at a time.
//
// A matrix instruction (wgmma) has 64 rows: the 32 channels of a group in an even row of C, and in
// the odd row behind it. Its other operand are pixels of A where TMA put them: a tap of
// the window is an address. Weights stay in registers, as both rows of C see them from a row of A,
// with zeros where one does not. So nothing but pixels is read from shared memory, once for 64
// accumulators. A window's slices, in a volume, are multiplied one after the other, each with its
// own weights.
#pragma once

#include "epilogue/direct_store.cuh"
#include "load/pieces.cuh"
#include "pipeline/warp_specialized.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "sm90_grouped_direct/layout.cuh"

namespace convir {

template <typename P, typename S>
class Sm90GroupedDirect {
  using T = typename P::Element;
  using L = StripLayout<P, S>;
  static constexpr int kConsumerThreads = L::kConsumerThreads;
  // Named barriers: the turn of a warpgroup, its part of what is stored may be written, and is; and
  // at the start weights are there, which one thing waits for after the other: the first warpgroup,
  // further strips, the second warpgroup, and what is stored in the place of weights.
  static constexpr int kTurn = 2, kFreed = 4, kStaged = 6;
  static constexpr int kArrived = 8, kFurther = 9, kSecond = 10, kRead = 11;
  static constexpr int kStoring = kWarpgroupThreads + 32;  // threads, also those of `kFurther`
  using Both = Roles<true, kProducerRegisters, S::compute_registers>;
  static constexpr bool kInChannelsInnermost = P::b_in_channel == 1;
  using Weights = unsigned[L::kWindowRows][P::window_cols][L::kSteps][4];

  // The first warpgroup copies the weights of a group: for every tap a matrix of 32 rows. Groups
  // that are merged have zeros between them.
  static __device__ __forceinline__ void stage_weights(const T* __restrict__ b, unsigned shared,
                                                       int group) {
    constexpr long long kRowStride = kInChannelsInnermost ? P::b_out_channel : P::b_in_channel;
    constexpr int kVector = L::kGroupChannels < 8 ? L::kGroupChannels : 8;  // elements of a copy
    constexpr int kVectors = L::kChannels / kVector;
    const auto at = [&](int, int i, auto copy) {
      const int row = i / kVectors, first = i % kVectors * kVector;
      const bool inside = row / L::kGroupChannels == first / L::kGroupChannels;
      const T* source = b + (group * P::packed + row / L::kGroupChannels) * P::b_group +
                        row % L::kGroupChannels * kRowStride + first % L::kGroupChannels;
#pragma unroll 1
      for (int slice = 0; slice < P::slice_taps; ++slice) {
        copy_taps<P, L::kTapBytes>(
            copy, shared + slice * L::kSliceBytes + row * L::kWeightPitch + first * 2,
            source + P::slice_weight + slice * P::slice_weight_step, inside);
      }
    };
    copy_pieces<L::kChannels * kVectors, kWarpgroupThreads, 2 * kVector>(threadIdx.x, at);
    commit_copies();
  }

  // Reads them as both rows of a pair see them from each row of A. Little code: it is read once,
  // from where no instruction has been read before.
  static __device__ __forceinline__ void load_weights(Weights& weight, unsigned shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool odd = warp / 2 != 0;
    const int column = warp % 2 * 16 + lane / 8 % 2 * 8, in_channels = lane / 16 * 8;
    const unsigned first =
        shared + (kInChannelsInnermost ? (column + lane % 8) * L::kWeightPitch + in_channels * 2
                                  : (in_channels + lane % 8) * L::kWeightPitch + column * 2);
    static_for<L::kWindowRows>([&](auto row_) {
      constexpr int row = decltype(row_)::value;
      constexpr int even_tap = L::row_tap(0, row), odd_tap = L::row_tap(1, row);
      const int tap = odd ? odd_tap : even_tap;
      const unsigned of_row = first + tap * (P::phases[0].col_taps * L::kTapBytes);
      static_for<P::window_cols>([&](auto col_) {
        constexpr int col = decltype(col_)::value;
        if constexpr (L::reads(row, col)) {
          const unsigned matrix = of_row + col_tap_at<P>(0, col) * L::kTapBytes;
#pragma unroll
          for (int step = 0; step < L::kSteps; ++step) {
            auto& fragment = weight[row][col][step];
            if (tap < 0) {
              for (int i = 0; i < 4; ++i) fragment[i] = 0;
            } else if constexpr (kInChannelsInnermost) {
              load_matrices(fragment, matrix + step * 32);
            } else {
              load_transposed(fragment, matrix + step * 16 * L::kWeightPitch);
            }
          }
        }
      });
    });
  }

  // The strips of a block: every so many of its group, so that all blocks together read one stretch
  // of memory after the other.
  struct Strips {
    int group = blockIdx.x % P::groups, first = blockIdx.x / P::groups;
    int end;
    __device__ __forceinline__ explicit Strips(int images)
        : end(images * (P::slices * L::kStrips)) {}
  };
  // Where a strip of C begins.
  struct Place {
    int image, slice, row;
    __device__ __forceinline__ explicit Place(int strip)
        : image(strip / (P::slices * L::kStrips)),
          slice(strip / L::kStrips % P::slices),
          row(strip % L::kStrips * (2 * S::row_pairs)) {}
    // The slice of A that a tap reads, and whether it has one.
    __device__ __forceinline__ int source(int tap) const {
      return P::slice_origin + slice * P::slice_step + tap * P::slice_tap_step;
    }
    __device__ __forceinline__ bool reads(int tap) const {
      return !P::volume || static_cast<unsigned>(source(tap)) < static_cast<unsigned>(P::a_slices);
    }
  };

  // What a block loads, in order: its strips, of each the slices of A that it reads.
  struct Loads {
    int strip, end, tap = 0;
    __device__ __forceinline__ explicit Loads(const Strips& strips)
        : strip(strips.first), end(strips.end) {
      if (are_left() && !Place(strip).reads(tap)) advance();
    }
    __device__ __forceinline__ bool are_left() const { return strip < end; }
    __device__ __forceinline__ void advance() {
      do {
        if (++tap < P::slice_taps) continue;
        tap = 0;
        strip += S::group_blocks;
      } while (are_left() && !Place(strip).reads(tap));
    }
  };

  // One thread asks for both planes of a strip.
  static __device__ __forceinline__ void load(const hopper::TensorMap* a, int group,
                                              const Loads& loads, int slot, unsigned shared) {
    const Place at(loads.strip);
#pragma unroll
    for (int box = 0; box < S::boxes; ++box) {
      const unsigned full = shared + L::kFull + (slot * S::boxes + box) * 8;
      arrive_expecting(full, 2 * L::kBoxBytes);
#pragma unroll
      for (int plane = 0; plane < 2; ++plane) {
        const unsigned to =
            shared + L::kLead + slot * L::kSlotBytes + plane * L::kPlaneBytes + box * L::kBoxBytes;
        const int channel = group * L::kChannels, col = P::col_origin + L::kShared;
        const int row = at.row + P::row_origin + plane + box * 2 * L::kBoxRows;
        if constexpr (P::volume) {
          hopper::load_5d(to, a, full, channel, col, row, at.source(loads.tap), at.image);
        } else {
          hopper::load_4d(to, a, full, channel, col, row, at.image);
        }
      }
    }
  }

  // One step of some output pixels, if they read anything at that row of the window.
  template <class Group, int kBegin, int kEnd, int kRow>
  static __device__ __forceinline__ void multiply_part(float* sum, const unsigned (&weight)[4],
                                                       unsigned pixels) {
    if constexpr (kBegin < kEnd && Group::is_read(kBegin, kEnd, kRow)) {
      hopper::Wgmma<T, kEnd - kBegin, hopper::kMajorK, hopper::kMajorK>::run(
          sum + kBegin / 2, weight,
          hopper::block_descriptor<L::kPixelBytes, 1>(pixels + kBegin * L::kPixelBytes));
    }
  }

  // The products of a warpgroup, `kRowPairs` pairs from `kFirst` on; `pixels` has the first plane.
  template <int kFirst, int kRowPairs, int kCount>
  static __device__ __forceinline__ void multiply(float (&sum)[kCount], const Weights& weight,
                                                  unsigned pixels) {
    using Group = typename L::template Parts<kFirst, kRowPairs>;
    constexpr int kBegin = Group::after_first(), kEnd = Group::before_last();
    hopper::wgmma_fence();
    static_for<L::kWindowRows>([&](auto row_) {
      static_for<P::window_cols>([&](auto col_) {
        constexpr int row = decltype(row_)::value, col = decltype(col_)::value;
        if constexpr (L::reads(row, col)) {
          constexpr int pixel = (kFirst + row / 2) * L::kPitch + col - L::kShared;
          constexpr int byte = row % 2 * L::kPlaneBytes + pixel * L::kPixelBytes;
          static_for<L::kSteps>([&](auto step) {
            const unsigned at = pixels + static_cast<unsigned>(byte + step.value * 32);
            const auto& fragment = weight[row][col][step.value];
            multiply_part<Group, 0, kBegin, row>(sum, fragment, at);
            multiply_part<Group, kBegin, kEnd, row>(sum, fragment, at);
            multiply_part<Group, kEnd, Group::kAll, row>(sum, fragment, at);
          });
        }
      });
    });
    hopper::wgmma_commit();
  }

  // What is stored for two accumulators of a channel, at position `position` of the warpgroup and
  // the next.
  template <int kRowPairs>
  static __device__ __forceinline__ unsigned finished(float low, float high, const Target<P>& out,
                                                      const Place& at, int row, int position,
                                                      int channel) {
    if constexpr (P::Operands::kCount == 0) {
      return results<P>(low, high, out, 0, 0);
    } else {
      T both[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int pixel = position + i, col = pixel % L::kPitch;
        const int at_row = row + pixel / L::kPitch * 2;
        // What is not stored reads the operands of element 0.
        const bool is_inside = pixel < kRowPairs * L::kPitch && col < P::cols && at_row < P::rows;
        const long long element = at.image * static_cast<long long>(P::c_image) +
                                  at.slice * static_cast<long long>(P::c_slice) +
                                  at_row * static_cast<long long>(P::c_row_stride) +
                                  col * static_cast<long long>(P::c_col_stride) +
                                  P::phases[0].offset + channel;
        both[i] = result<P>(i == 0 ? low : high, out, is_inside ? element : 0,
                            is_inside ? channel : 0);
      }
      return word_of(both);
    }
  }

  // Writes accumulators as they are stored, both rows of every pair, to shared memory at `stage`.
  template <int kRowPairs, int kCount>
  static __device__ __forceinline__ void stage_accumulators(const float (&sum)[kCount], unsigned stage,
                                                    unsigned nowhere, const Target<P>& out,
                                                    const Place& at, int row, int group) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, half = warp / 2;
    const int chunk = warp % 2 * 2 + lane / 8 % 2;
    const int channel = group * L::kChannels + warp % 2 * 16 + lane / 4;
#pragma unroll
    for (int tile = 0; tile < kCount / 4; tile += 2) {
      unsigned word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        word[i] = finished<kRowPairs>(sum[tile * 4 + i * 2], sum[tile * 4 + i * 2 + 1], out, at,
                                   row + half, (tile + i / 2) * 8 + lane % 4 * 2,
                                   channel + i % 2 * 8);
      }
      const int position = (tile + lane / 16) * 8 + lane % 8;
      const int pair = position / L::kPitch, col = position - pair * L::kPitch;
      const unsigned pixel = stage + ((2 * pair + half) * L::kPitch + col) * L::kPixelBytes;
      // Lanes store together, also what is behind the last position.
      const bool is_inside = position < kRowPairs * L::kPitch;
      store_matrices<true>(is_inside ? swizzled<L::kPixelBytes>(pixel, chunk) : nowhere, word);
    }
  }

  static constexpr int row_pairs_of(int group) {
    return group == 0 ? L::kFirstRowPairs : S::row_pairs - L::kFirstRowPairs;
  }

  template <int kGroup>
  static __device__ __forceinline__ void compute(Weights& weight, const Strips& strips,
                                                 unsigned shared, const Target<P>& out) {
    constexpr int kFirst = kGroup * L::kFirstRowPairs;
    constexpr int kRowPairs = row_pairs_of(kGroup);
    constexpr int kAccumulators = divide_up(kRowPairs * L::kPitch, 16) * 8;
    const unsigned stage = shared + L::kStage + kFirst * L::kPairBytes;
    PipelineState<S::stages> ring;
#pragma unroll 1
    for (int strip = strips.first; strip < strips.end; strip += S::group_blocks) {
      const Place at(strip);
      float sum[kAccumulators];
#pragma unroll
      for (int i = 0; i < kAccumulators; ++i) sum[i] = 0.0f;
      hopper::hold(sum);
#pragma unroll 1
      for (int tap = 0; tap < P::slice_taps; ++tap) {
        if (!at.reads(tap)) continue;
        if constexpr (P::slice_taps > 1) {
          load_weights(weight, shared + L::kWeights + tap * L::kSliceBytes);
        }
        // Warpgroups take turns: one multiplies while the other stores.
        named_sync(kTurn + kGroup, kConsumerThreads);
#pragma unroll
        for (int box = 0; box < (kGroup == 0 ? 1 : S::boxes); ++box) {
          wait_barrier(shared + L::kFull + (ring.stage * S::boxes + box) * 8, ring.phase);
        }
        multiply<kFirst, kRowPairs>(sum, weight, shared + L::kLead + ring.stage * L::kSlotBytes);
        named_arrive(kTurn + 1 - kGroup, kConsumerThreads);
        hopper::wgmma_wait<0>();
        hopper::hold(sum);
        if (threadIdx.x % 32 == 0) arrive(shared + L::kEmpty + ring.stage * 8);
        ring.advance();
      }
      if (kGroup == 0 && strip == strips.first) named_sync(kRead, kConsumerThreads);
      named_sync(kFreed + kGroup, kStoring);
      stage_accumulators<kRowPairs>(sum, stage, shared + L::kNowhere, out, at, at.row + 2 * kFirst,
                         strips.group);
      hopper::fence_proxy();
      named_arrive(kStaged + kGroup, kStoring);
    }
  }

  // A warp stores what a warpgroup has staged.
  static __device__ __forceinline__ void store(int group, const Strips& strips, unsigned shared,
                                               const hopper::TensorMap* c) {
    const int first = group * L::kFirstRowPairs, row_pairs = row_pairs_of(group);
    const unsigned stage = shared + L::kStage + first * L::kPairBytes;
    const bool asks = threadIdx.x % 32 == 0;
#pragma unroll 1
    for (int strip = strips.first; strip < strips.end; strip += S::group_blocks) {
      if (asks) hopper::wait_stores_read();
      __syncwarp();
      named_arrive(kFreed + group, kStoring);
      named_sync(kStaged + group, kStoring);
      if (!asks) continue;
      const Place at(strip);
      const int row = at.row + 2 * first;
#pragma unroll 1
      for (int pair = 0; pair < row_pairs && row + 2 * pair < P::rows; ++pair) {
        const unsigned from = stage + pair * L::kPairBytes;
        if constexpr (P::volume) {
          hopper::store_5d(c, from, strips.group * L::kChannels, 0, row + 2 * pair, at.slice,
                           at.image);
        } else {
          hopper::store_4d(c, from, strips.group * L::kChannels, 0, row + 2 * pair, at.image);
        }
      }
      hopper::commit_stores();
    }
    if (asks) hopper::wait_stores_read();
  }

 public:
  static __device__ __forceinline__ void run(const hopper::TensorMap* a, const T* b,
                                             const Target<P>& out, const hopper::TensorMap* c,
                                             int images) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const unsigned shared = shared_address(memory);
    const Strips strips(images);
    Loads loads(strips);
    const bool asks = threadIdx.x == kConsumerThreads;
    if (threadIdx.x < kWarpgroupThreads) stage_weights(b, shared + L::kWeights, strips.group);
    if (asks) {
      hopper::prefetch_map(a);
      for (int i = 0; i < S::stages * S::boxes; ++i) {
        init_barrier(shared + L::kFull + i * 8, 1);
      }
      for (int i = 0; i < S::stages; ++i) {
        init_barrier(shared + L::kEmpty + i * 8, kConsumerThreads / 32);
      }
      fence_barrier_init();
    }
    // The pixels that every plane's first row begins behind.
    constexpr int kZeros = L::kShared * L::kPixelBytes / 4;
    for (int i = threadIdx.x; i < 2 * S::stages * kZeros; i += S::threads) {
      const int plane = i / larger(1, kZeros), word = i % larger(1, kZeros);
      unsigned char* first =
          memory + L::kLead + plane * L::kPlaneBytes - L::kShared * L::kPixelBytes;
      reinterpret_cast<unsigned*>(first)[word] = 0;
    }
    hopper::fence_proxy();
    __syncthreads();
    // Behind the weights, without which nothing begins.
    if (asks && loads.are_left()) load(a, strips.group, loads, 0, shared);
    if (threadIdx.x >= kConsumerThreads) {
      Both::become_producer();
      const int warp = (threadIdx.x - kConsumerThreads) / 32;
      if (warp == 0) {
        // Further strips are asked for when weights are there.
        named_sync(kFurther, kStoring);
        if (!asks) return;
        PipelineState<S::stages> ring;
        loads.advance();
        ring.advance();
#pragma unroll 1
        for (; loads.are_left(); loads.advance()) {
          wait_barrier(shared + L::kEmpty + ring.stage * 8, ring.phase ^ 1);
          load(a, strips.group, loads, ring.stage, shared);
          ring.advance();
        }
      } else if (warp <= L::kGroups) {
        store(warp - 1, strips, shared, c);
      }
      return;
    }
    Weights weight;
    if (threadIdx.x < kWarpgroupThreads) {
      wait_copies<0>();
      named_sync(kArrived, kWarpgroupThreads);
      named_arrive(kFurther, kStoring);
      Both::become_consumer();
      if constexpr (P::slice_taps == 1) load_weights(weight, shared + L::kWeights);
      named_arrive(kSecond, kConsumerThreads);
      compute<0>(weight, strips, shared, out);
    } else {
      named_arrive(kTurn, kConsumerThreads);
      named_sync(kSecond, kConsumerThreads);
      Both::become_consumer();
      if constexpr (P::slice_taps == 1) load_weights(weight, shared + L::kWeights);
      named_arrive(kRead, kConsumerThreads);
      compute<1>(weight, strips, shared, out);
    }
  }
};

}  // namespace convir
