// Direct convolution of groups of 32 channels with a step of 1, two output rows at a time.
//
// A matrix instruction (wgmma) has 64 rows: the 32 channels of a group in an even row of C, and in
// the odd row behind it. Its other operand are pixels of A where the copy engine put them: a window's
// tap is an address. Weights stay in registers, as both rows of C see them from a row of A, with
// zeros where one does not. So nothing but pixels is read from shared memory, once for 64 sums.
#pragma once

#include "direct_phase.cuh"
#include "hopper/cluster.cuh"
#include "hopper/mbarrier.cuh"
#include "hopper/tma.cuh"
#include "hopper/wgmma.cuh"

namespace convir {

// Stores four 8x8 matrices of 16-bit elements, each transposed; lanes 8i … 8i+7 name the rows of
// matrix i in memory.
__device__ __forceinline__ void store_transposed(unsigned to, const unsigned (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

template <typename P, typename S>
class GroupedPairs {
  using T = typename P::Element;
  static constexpr int kChannels = 32;  // of a group, or of those that are merged, of A and of C
  static constexpr int kGroupChannels = kChannels / P::merged;
  static constexpr int kSteps = kChannels / 16;  // of a matrix instruction, for a tap
  static constexpr int kPixelBytes = kChannels * 2;
  static constexpr int kRepeat = 8 * kPixelBytes;  // bytes after which the swizzle repeats

  // Rows of A in shared memory are `kPitch` pixels. Where a window reaches into padding on both
  // sides, the zeros behind a row are also those before the next.
  static constexpr int kLeft = larger(0, -P::col_origin);
  static constexpr int kRight =
      larger(0, P::col_origin + P::cols + P::window_cols - 1 - P::a_cols);
  static constexpr int kBoth = kLeft < kRight ? kLeft : kRight;
  static constexpr int kShared = kBoth < P::window_cols ? kBoth : P::window_cols - 1;
  static constexpr int kPitch = P::cols + P::window_cols - 1 - kShared;

  // A strip is `pairs` pairs of rows of C. Rows of A that are even in the strip's window lie in one
  // plane, odd ones in the other, so those of all pairs are one list of pixels.
  static constexpr int kPlaneRows = S::pairs + P::window_rows / 2;
  static constexpr int kPlaneCopy = kPlaneRows * kPitch * kPixelBytes;
  static constexpr int kPlaneBytes =
      divide_up(kPlaneCopy + kShared * kPixelBytes, kRepeat) * kRepeat;
  static constexpr int kSlotBytes = 2 * kPlaneBytes;
  static constexpr int kLead = divide_up(kShared * kPixelBytes, kRepeat) * kRepeat;
  static constexpr int kStrips = divide_up(divide_up(P::rows, 2), S::pairs);

  // Two warpgroups have half of the pairs each.
  static constexpr int kGroups = 2;
  static constexpr int kGroupThreads = 128;
  static constexpr int kMath = kGroups * kGroupThreads;
  static constexpr int kFirstPairs = divide_up(S::pairs, kGroups);
  static constexpr int kPositions = 32;  // of which an instruction has a multiple
  static constexpr int kPairBytes = 2 * kPitch * kPixelBytes;

  // Shared memory: planes, what is stored (weights before that), and barriers.
  static constexpr int kWeightPitch = kPixelBytes + 16;  // rows of ldmatrix lie in different banks
  static constexpr int kTapBytes = kChannels * kWeightPitch;
  static constexpr int kStage = kLead + S::slots * kSlotBytes;
  static constexpr int kNowhere = kStage + larger(S::pairs * kPairBytes, tap_count<P>() * kTapBytes);
  static constexpr int kFull = kNowhere + 16;
  static constexpr int kEmpty = kFull + S::slots * 8;
  static_assert(kEmpty + S::slots * 8 == S::shared_bytes);
  static_assert(S::threads == kMath + 128, "a warpgroup more asks for copies");

  static constexpr int kTurn = 2;    // named barriers: the turn of a warpgroup,
  static constexpr int kWithin = 4;  // its threads,
  static constexpr int kAll = 6;     // and those of both
  static constexpr int kLoaderRegisters = 40;

  // The window row of half `half` at row `row` of the pairs' common window.
  static constexpr int row_tap(int half, int row) { return row_tap_at<P>(0, row - half); }
  static constexpr bool reads(int row, int col) {
    return col_tap_at<P>(0, col) >= 0 && (row_tap(0, row) >= 0 || row_tap(1, row) >= 0);
  }
  static constexpr int kWindowRows = P::window_rows + 1;
  static constexpr bool kDepthInnermost = P::b_depth == 1;
  using Weights = unsigned[kWindowRows][P::window_cols][kSteps][4];

  static __device__ __forceinline__ unsigned swizzled(unsigned address, int chunk) {
    return address + ((chunk ^ (address >> 7 & 3)) << 4);
  }

  // Copies the weights of a group: for every tap a matrix of 32 rows. Groups that are merged have
  // zeros between them.
  static __device__ __forceinline__ void stage_weights(const T* __restrict__ b, unsigned shared,
                                                       int group) {
    constexpr long long kRowStride = kDepthInnermost ? P::b_column : P::b_depth;
    constexpr int kVectors = kChannels / 8;
    if (threadIdx.x < kChannels * kVectors) {
      const int row = threadIdx.x / kVectors, first = threadIdx.x % kVectors * 8;
      const bool inside = row / kGroupChannels == first / kGroupChannels;
      const T* source = b + (group * P::merged + row / kGroupChannels) * P::b_group +
                        row % kGroupChannels * kRowStride + first % kGroupChannels;
      for_each_tap<P>([&](auto p, auto i, auto j) {
        constexpr int tap = tap_index<P>(p.value, i.value, j.value);
        copy_async(shared + tap * kTapBytes + row * kWeightPitch + first * 2,
                   source + tap_weight<P>(p.value, i.value, j.value), inside);
      });
    }
    commit_copies();
  }

  static __device__ __forceinline__ void load_weights(Weights& weight, unsigned shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool odd = warp / 2 != 0;
    const int column = warp % 2 * 16 + lane / 8 % 2 * 8, depth = lane / 16 * 8;
    const unsigned first =
        shared + (kDepthInnermost ? (column + lane % 8) * kWeightPitch + depth * 2
                                  : (depth + lane % 8) * kWeightPitch + column * 2);
    static_for<kWindowRows>([&](auto row_) {
      static_for<P::window_cols>([&](auto col_) {
        constexpr int row = decltype(row_)::value, col = decltype(col_)::value;
        if constexpr (reads(row, col)) {
          constexpr int even_tap = row_tap(0, row), odd_tap = row_tap(1, row);
          constexpr int j = col_tap_at<P>(0, col);
          const bool has_tap = odd ? odd_tap >= 0 : even_tap >= 0;
          const int tap = odd ? tap_index<P>(0, larger(0, odd_tap), j)
                              : tap_index<P>(0, larger(0, even_tap), j);
#pragma unroll
          for (int step = 0; step < kSteps; ++step) {
            auto& fragment = weight[row][col][step];
            const unsigned matrix = first + tap * kTapBytes;
            if constexpr (kDepthInnermost) {
              load_matrices(fragment, matrix + step * 32);
            } else {
              load_matrices_transposed(fragment, matrix + step * 16 * kWeightPitch);
            }
#pragma unroll
            for (int x = 0; x < 4; ++x) fragment[x] = has_tap ? fragment[x] : 0;
          }
        }
      });
    });
  }

  // The strips of a block: a part of those of its group.
  struct Strips {
    int group, begin, end;
    __device__ __forceinline__ Strips() {
      constexpr int kAllStrips = P::images * kStrips;
      const int part = blockIdx.x / P::groups;
      group = blockIdx.x % P::groups;
      begin = static_cast<int>(static_cast<long long>(part) * kAllStrips / S::parts);
      end = static_cast<int>((part + 1ll) * kAllStrips / S::parts);
    }
    static __device__ __forceinline__ int image(int strip) { return strip / kStrips; }
    static __device__ __forceinline__ int row(int strip) {
      return strip % kStrips * (2 * S::pairs);
    }
  };

  // One thread asks for both planes of a strip.
  static __device__ __forceinline__ void load(const hopper::TensorMap* a, const Strips& strips,
                                              int strip, int slot, unsigned shared) {
    const unsigned full = shared + kFull + slot * 8;
    hopper::arrive_expecting(full, 2 * kPlaneCopy);
#pragma unroll
    for (int plane = 0; plane < 2; ++plane) {
      hopper::load_4d(shared + kLead + slot * kSlotBytes + plane * kPlaneBytes, a, full,
                      strips.group * kChannels, P::col_origin + kShared,
                      Strips::row(strip) + P::row_origin + plane, Strips::image(strip));
    }
  }

  // The products of a warpgroup, `kPairs` pairs from `kFirst` on; `pixels` has the first plane.
  template <int kFirst, int kCount>
  static __device__ __forceinline__ void multiply(float (&sum)[kCount], const Weights& weight,
                                                  unsigned pixels) {
    hopper::wgmma_fence();
    static_for<kWindowRows>([&](auto row_) {
      static_for<P::window_cols>([&](auto col_) {
        constexpr int row = decltype(row_)::value, col = decltype(col_)::value;
        if constexpr (reads(row, col)) {
          constexpr int pixel = (kFirst + row / 2) * kPitch + col - kShared;
          constexpr int byte = row % 2 * kPlaneBytes + pixel * kPixelBytes;
          static_for<kSteps>([&](auto step) {
            hopper::WgmmaRegisters<T, kCount * 2, hopper::kMajorK>::run(
                sum, weight[row][col][step.value],
                hopper::block_descriptor<kPixelBytes, 1>(pixels + byte + step.value * 32));
          });
        }
      });
    });
    hopper::wgmma_commit();
  }

  // What is stored for two sums of a channel, at position `position` of the warpgroup and the next.
  template <int kPairs>
  static __device__ __forceinline__ unsigned finished(float low, float high, const Target<P>& out,
                                                      int image, int row, int position,
                                                      int channel) {
    if constexpr (P::Operands::kCount == 0) {
      return results<P>(low, high, out, 0, 0);
    } else {
      T both[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = position + i, col = at % kPitch, at_row = row + at / kPitch * 2;
        // What is not stored reads the operands of element 0.
        const bool is_inside = at < kPairs * kPitch && col < P::cols && at_row < P::rows;
        const long long element = image * static_cast<long long>(P::c_image) +
                                  at_row * static_cast<long long>(P::c_row_stride) +
                                  col * static_cast<long long>(P::c_col_stride) +
                                  P::phases[0].offset + channel;
        both[i] = result<P>(i == 0 ? low : high, out, is_inside ? element : 0,
                            is_inside ? channel : 0);
      }
      unsigned word;
      memcpy(&word, both, sizeof(word));
      return word;
    }
  }

  // Writes sums as they are stored, both rows of every pair, to shared memory at `stage`.
  template <int kPairs, int kCount>
  static __device__ __forceinline__ void stage_sums(const float (&sum)[kCount], unsigned stage,
                                                    unsigned nowhere, const Target<P>& out,
                                                    int image, int row, int group) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, half = warp / 2;
    const int chunk = warp % 2 * 2 + lane / 8 % 2;
    const int channel = group * kChannels + warp % 2 * 16 + lane / 4;
#pragma unroll
    for (int tile = 0; tile < kCount / 4; tile += 2) {
      unsigned word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        word[i] = finished<kPairs>(sum[tile * 4 + i * 2], sum[tile * 4 + i * 2 + 1], out, image,
                                   row + half, (tile + i / 2) * 8 + lane % 4 * 2,
                                   channel + i % 2 * 8);
      }
      const int position = (tile + lane / 16) * 8 + lane % 8;
      const int pair = position / kPitch, col = position - pair * kPitch;
      const unsigned pixel = stage + ((2 * pair + half) * kPitch + col) * kPixelBytes;
      // Lanes store together, also what is behind the last position.
      const bool is_inside = position < kPairs * kPitch;
      store_transposed(is_inside ? swizzled(pixel, chunk) : nowhere, word);
    }
  }

  template <int kGroup>
  static __device__ __forceinline__ void compute(const Weights& weight, const Strips& strips,
                                                 unsigned shared, const Target<P>& out,
                                                 const hopper::TensorMap* c) {
    constexpr int kFirst = kGroup * kFirstPairs;
    constexpr int kPairs = kGroup == 0 ? kFirstPairs : S::pairs - kFirstPairs;
    constexpr int kSums = divide_up(kPairs * kPitch, kPositions) * kPositions / 2;
    const unsigned stage = shared + kStage + kFirst * kPairBytes;
    const bool stores = threadIdx.x % kGroupThreads == 0;
    hopper::Ring<S::slots> ring;
#pragma unroll 1
    for (int strip = strips.begin; strip < strips.end; ++strip) {
      float sum[kSums];
#pragma unroll
      for (int i = 0; i < kSums; ++i) sum[i] = 0.0f;
      // Warpgroups take turns: one multiplies while the other stores.
      hopper::named_sync(kTurn + kGroup, kMath);
      hopper::wait(shared + kFull + ring.slot * 8, ring.parity);
      multiply<kFirst>(sum, weight, shared + kLead + ring.slot * kSlotBytes);
      hopper::named_arrive(kTurn + 1 - kGroup, kMath);
      hopper::wgmma_wait<0>();
      hopper::hold(sum);
      if (threadIdx.x % 32 == 0) hopper::arrive(shared + kEmpty + ring.slot * 8);
      ring.advance();
      if (stores) hopper::wait_stores_read();
      hopper::named_sync(kWithin + kGroup, kGroupThreads);
      const int row = Strips::row(strip) + 2 * kFirst;
      stage_sums<kPairs>(sum, stage, shared + kNowhere, out, Strips::image(strip), row,
                         strips.group);
      hopper::fence_proxy();
      hopper::named_sync(kWithin + kGroup, kGroupThreads);
      if (stores) {
#pragma unroll 1
        for (int pair = 0; pair < kPairs && row + 2 * pair < P::rows; ++pair) {
          hopper::store_4d(c, stage + pair * kPairBytes, strips.group * kChannels, 0,
                           row + 2 * pair, Strips::image(strip));
        }
        hopper::commit_stores();
      }
    }
    if (stores) hopper::wait_stores();
  }

 public:
  static __device__ __forceinline__ void run(const hopper::TensorMap* a, const T* b,
                                             const Target<P>& out, const hopper::TensorMap* c) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const unsigned shared = shared_address(memory);
    const Strips strips;
    const bool asks = threadIdx.x == kMath;
    if (asks) {
      for (int i = 0; i < S::slots; ++i) {
        hopper::barrier_init(shared + kFull + i * 8, 1);
        hopper::barrier_init(shared + kEmpty + i * 8, kMath / 32);
      }
      hopper::fence_barrier_init();
      for (int i = 0; i < S::slots && strips.begin + i < strips.end; ++i) {
        load(a, strips, strips.begin + i, i, shared);
      }
    }
    stage_weights(b, shared + kStage, strips.group);
    // The pixels that every plane's first row begins behind.
    constexpr int kZeros = kShared * kPixelBytes / 4;
    for (int i = threadIdx.x; i < 2 * S::slots * kZeros; i += S::threads) {
      const int plane = i / larger(1, kZeros), word = i % larger(1, kZeros);
      unsigned char* first = memory + kLead + plane * kPlaneBytes - kShared * kPixelBytes;
      reinterpret_cast<unsigned*>(first)[word] = 0;
    }
    hopper::fence_proxy();
    __syncthreads();
    if (threadIdx.x >= kMath) {
      hopper::shrink_registers<kLoaderRegisters>();
      hopper::Ring<S::slots> ring;
      for (int strip = strips.begin + S::slots; asks && strip < strips.end; ++strip) {
        hopper::wait(shared + kEmpty + ring.slot * 8, ring.parity);
        load(a, strips, strip, ring.slot, shared);
        ring.advance();
      }
      return;
    }
    hopper::grow_registers<S::compute_registers>();
    wait_copies<0>();
    hopper::named_sync(kAll, kMath);
    Weights weight;
    load_weights(weight, shared + kStage);
    hopper::named_sync(kAll, kMath);
    if (threadIdx.x < kGroupThreads) {
      compute<0>(weight, strips, shared, out, c);
    } else {
      hopper::named_arrive(kTurn, kMath);
      compute<1>(weight, strips, shared, out, c);
    }
  }
};

}  // namespace convir
