// Gradient of the weights of groups in planes (NCHW): gradients are shifted in registers, by the
// column taps of the filter.
//
// For a row tap r and column tap s, dW[k][c] is the sum over columns w of A of gradient column
// (w - shift(s)) / step times A in row p * step + r. Pixels are what a matrix instruction adds up;
// gradients of two taps, or channel octets, are its rows, channels of A its columns, so that both
// operands are read from planes as they lie. Blocks have some tiles each of the output pixels of
// their groups; the last block of the groups adds up what all have, always in the same order.
#pragma once

#include "arith/scalars.cuh"
#include "epilogue/direct_store.cuh"
#include "grouped_planes/kernel.cuh"
#include "reduce/last_block.cuh"

namespace convir {

template <typename P, typename S>
struct GroupedPlanesWgrad {
  using T = typename P::Element;
  using Units = TapUnits<P, S>;
  using Window = WindowMatrices<P, S>;
  using Tile = PlanesTile<P, S>;
  using Job = PlanesJob<P, S>;
  static constexpr int kInOctets = P::in_channels / kChunk, kOutOctets = Units::kOctets;
  static constexpr int kRowTaps = P::phases[0].row_taps, kColTaps = P::phases[0].col_taps;
  static constexpr int kMmas = Units::kMmas;
  static constexpr int kParts = P::out_channels / S::warp_channels;
  static constexpr int kSharing = S::threads / 32 / (S::groups * kParts);
  static constexpr int kGroupBlocks = P::groups / S::groups;
  static constexpr int kChunks = S::lead + S::segment + S::trail;
  // Chunks of gradients of a segment, and what a lane has of one for an output row and octet.
  static constexpr int kGradientChunks = divide_up(S::segment, P::col_step);
  static constexpr int kWindowBytes = S::groups * P::in_channels * S::in_plane * 2;
  static constexpr int kGradientBytes = S::groups * P::out_channels * S::out_plane * 2;
  static constexpr int kStageBytes = kWindowBytes + kGradientBytes;
  // Sums: [group][row tap][column tap][output channel][input channel].
  static constexpr int kMatrix = P::out_channels * P::in_channels;
  static constexpr int kSums = S::groups * kRowTaps * kColTaps * kMatrix;
  static_assert(kSums % 4 == 0 && kSums == S::sums);
  static_assert(P::phase_count == 1 && P::col_step <= 2 && P::groups % S::groups == 0);
  static_assert(S::threads == 32 * kSharing * S::groups * kParts && S::tile_rows % S::unroll == 0);

  float sum[kMmas][kRowTaps][kInOctets][4] = {};

  // Gradients of a strip's row, a word of each octet and chunk: two columns, or with a step of 2
  // whatever `shifted` asks for.
  struct Gradients {
    unsigned word[kOutOctets][kGradientChunks];
    unsigned from;  // of this lane

    __device__ __forceinline__ void load(unsigned row) {
      if constexpr (P::col_step == 1) {
        const int lane = threadIdx.x % 32;
        const unsigned named = row + lane % 8 * S::out_plane * 2;
        static_for<kOutOctets>([&](auto octet_) {
          constexpr int octet = decltype(octet_)::value;
          constexpr int kOctet = octet * kChunk * S::out_plane * 2;
          static_for<kGradientChunks / 4>([&](auto four) {
            constexpr int first = decltype(four)::value * 4;
            auto& to = reinterpret_cast<unsigned(&)[4]>(word[octet][first]);
            load_matrices(to, named + kOctet + first * 16 + lane / 8 * 16);
          });
          constexpr int kRest = kGradientChunks / 4 * 4;
          static_for<kGradientChunks - kRest>([&](auto i) {
            auto& to = reinterpret_cast<unsigned(&)[1]>(word[octet][kRest + i.value]);
            load_matrices(to, named + kOctet + (kRest + i.value) * 16);
          });
        });
      } else {
        from = row + (threadIdx.x % 32 / 4 * S::out_plane + threadIdx.x % 4) * 2;
      }
    }

    // The word kAhead words from the lane's own in chunk kAt; zero outside of the segment.
    template <int kOctet, int kAt, int kAhead>
    __device__ __forceinline__ unsigned further() const {
      const auto of = [&](auto chunk) -> unsigned {
        if constexpr (chunk.value >= 0 && chunk.value < kGradientChunks) {
          return further_word<kAhead>(word[kOctet][chunk.value]);
        }
        return 0u;
      };
      const unsigned here = of(Int<kAt>{});
      if constexpr (kAhead == 0) return here;
      const unsigned there = of(Int<(kAhead < 0 ? kAt - 1 : kAt + 1)>{});
      return is_same_chunk<kAhead>() ? here : there;
    }

    // Operand A for a unit, in chunk kAt of A: what columns w and w + 1 are multiplied by.
    template <int kUnit, int kAt>
    __device__ __forceinline__ unsigned shifted() const {
      constexpr int kOctet = kUnit % kOutOctets, kShift = tap_shift<P>(kUnit / kOutOctets);
      constexpr int kOf = kAt - S::lead;
      if constexpr (P::col_step == 1) {
        if constexpr (kShift % 2 == 0) return further<kOctet, kOf, floor_half(-kShift)>();
        // The upper half of a word, and the lower half of the next one.
        constexpr int kFirst = floor_half(-kShift);
        return __byte_perm(further<kOctet, kOf, kFirst>(), further<kOctet, kOf, kFirst + 1>(),
                           0x5432);
      } else {
        // Of two columns, the one that a gradient reads.
        constexpr int kHigh = kShift % 2 != 0;
        constexpr int kColumn = kOf * (kChunk / 2) + floor_half(kHigh - kShift);
        const int column = kColumn + static_cast<int>(threadIdx.x % 4);
        unsigned short bits = 0;
        if (static_cast<unsigned>(column) < static_cast<unsigned>(S::segment * (kChunk / 2))) {
          asm volatile("ld.shared.u16 %0, [%1];"
                       : "=h"(bits)
                       : "r"(from + (kOctet * kChunk * S::out_plane + kColumn) * 2)
                       : "memory");
        }
        return static_cast<unsigned>(bits) << (kHigh * 16);
      }
    }
  };

  // Adds what a chunk gives, or two neighbours.
  template <int kAt, int kCount>
  __device__ __forceinline__ void add(const Window& matrices, unsigned window,
                                      const Gradients (&gradients)[S::unroll]) {
    unsigned x[kCount][Window::kFours][4];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      matrices.template load<false>(x[i], window + (kAt + i) * kChunk * 2);
    }
    static_for<S::unroll>([&](auto u) {
      static_for<kMmas>([&](auto m) {
        unsigned y[kCount][2];
        static_for<kCount>([&](auto i) {
          static_for<2>([&](auto half) {
            constexpr int unit = decltype(m)::value * 2 + decltype(half)::value;
            y[i.value][half.value] = 0;
            if constexpr (unit < Units::kUnits) {
              y[i.value][half.value] =
                  gradients[u.value].template shifted<unit, kAt + decltype(i)::value>();
            }
          });
        });
        static_for<kRowTaps * kInOctets>([&](auto depth_) {
          constexpr int depth = decltype(depth_)::value;
          constexpr int of = Window::matrix_of(decltype(u)::value, depth);
          float(&to)[4] = sum[m.value][depth / kInOctets][depth % kInOctets];
          if constexpr (kCount == 2) {
            multiply_add<T>(to, {y[0][0], y[0][1], y[1][0], y[1][1]}, x[0][of / 4][of % 4],
                            x[1][of / 4][of % 4]);
          } else {
            multiply_add<T>(to, {y[0][0], y[0][1]}, x[0][of / 4][of % 4]);
          }
        });
      });
    });
  }

  __device__ __forceinline__ void add_job(const Window& matrices, unsigned window, unsigned row) {
    Gradients gradients[S::unroll];
    static_for<S::unroll>([&](auto u) { gradients[u.value].load(row + u.value * S::out_row * 2); });
    static_for<kChunks / 2>([&](auto pair) {
      add<decltype(pair)::value * 2, 2>(matrices, window, gradients);
    });
    if constexpr (kChunks % 2 == 1) add<kChunks - 1, 1>(matrices, window, gradients);
  }

  // body(sum, its place among those of the block) for all of the lane.
  template <typename Body>
  __device__ __forceinline__ void for_each_sum(int group, int first, const Body& body) {
    const int lane = threadIdx.x % 32;
    static_for<kMmas * 2>([&](auto unit_) {
      constexpr int unit = decltype(unit_)::value;
      if constexpr (unit < Units::kUnits) {
        const int n = first + unit % kOutOctets * kChunk + lane / 4;
        static_for<kRowTaps * kInOctets * 2>([&](auto i_) {
          constexpr int i = decltype(i_)::value;
          constexpr int octet = i / 2 % kInOctets, row = i / 2 / kInOctets;
          const int c = octet * kChunk + lane % 4 * 2 + i % 2;
          const int at = ((group * kRowTaps + row) * kColTaps + unit / kOutOctets) * kMatrix +
                         n * P::in_channels + c;
          body(sum[unit / 2][row][octet][unit % 2 * 2 + i % 2], at);
        });
      }
    });
  }

  static __device__ __forceinline__ void store(T* b, int block, int index, float total) {
    constexpr int kRealIn = P::in_channels / P::packed, kRealOut = P::out_channels / P::packed;
    const int c = index % P::in_channels, n = index / P::in_channels % P::out_channels;
    index /= kMatrix;
    const int col = index % kColTaps, row = index / kColTaps % kRowTaps;
    const int group = block + index / kColTaps / kRowTaps;
    if (P::packed > 1 && c / kRealIn != n / kRealOut) return;
    b[(static_cast<long long>(group) * P::packed + c / kRealIn) * P::b_group +
      c % kRealIn * P::b_in_channel + n % kRealOut * P::b_out_channel +
      chosen_weight<P>(row, col)] = result<P>(total);
  }

  static __device__ __forceinline__ void run(const T* a, const T* c, T* b, float* parts,
                                             unsigned* counters, int images) {
    extern __shared__ __align__(16) unsigned char memory[];
    const unsigned shared = shared_address(memory);
    const int owner = static_cast<int>(blockIdx.x) % kGroupBlocks, block = owner * S::groups;
    const int split = static_cast<int>(blockIdx.x) / kGroupBlocks;
    const int tiles = Tile::count(images);
    const int begin = static_cast<int>(static_cast<long long>(tiles) * split / S::splits);
    const int end = static_cast<int>(static_cast<long long>(tiles) * (split + 1) / S::splits);
    const auto bring = [&](int index) {
      if (index < end) {
        const Tile tile(index);
        const unsigned to = shared + (index - begin) % S::stages * kStageBytes;
        tile.window(a, block, images).template load<S::threads>(to);
        const RowPlanes<T, GradientPlanes<P, S>> gradients{
            c + static_cast<long long>(tile.image) * P::c_image + P::phases[0].offset +
                static_cast<long long>(block) * P::out_channels * P::c_channel,
            images - tile.image, tile.row, tile.col};
        gradients.template load<S::threads>(to + kWindowBytes);
      }
      commit_copies();
    };
    static_for<S::stages - 1>([&](auto stage) { bring(begin + stage.value); });
    if constexpr (S::stages == 1) bring(begin);

    const int part = static_cast<int>(threadIdx.x) / 32 / kSharing;
    const int sharing = static_cast<int>(threadIdx.x) / 32 % kSharing;
    const int group = part / kParts, of_group = part % kParts * S::warp_channels;
    GroupedPlanesWgrad self;
    const Window matrices;
#pragma unroll 1
    for (int index = begin; index < end; ++index) {
      if constexpr (S::stages > 1) bring(index + S::stages - 1);
      wait_copies<S::stages - 1>();
      __syncthreads();
      const Tile tile(index);
      const unsigned window = shared + (index - begin) % S::stages * kStageBytes;
      const unsigned rows =
          window + kWindowBytes + 2 * (group * P::out_channels + of_group) * S::out_plane;
#pragma unroll 1
      for (int j = sharing; j < Job::kCount; j += kSharing) {
        const Job job(j);
        if (tile.row + job.row >= P::rows || tile.image + job.image >= images) continue;
        const unsigned from = window + window_of<P, S>(job, group);
        const unsigned row = rows + 2 * (job.image * S::out_image + job.row * S::out_row +
                                         job.chunk * kChunk / P::col_step);
        self.add_job(matrices, from, row);
      }
      __syncthreads();
      if constexpr (S::stages == 1) bring(index + 1);
    }

    wait_copies<0>();
    __syncthreads();
    // Warps of the same channels add up one after the other.
    float* const sums = reinterpret_cast<float*>(memory);
#pragma unroll 1
    for (int turn = 0; turn < kSharing; ++turn) {
      if (turn == sharing) {
        self.for_each_sum(group, of_group, [&](float value, int at) {
          sums[at] = turn == 0 ? value : sums[at] + value;
        });
      }
      __syncthreads();
    }
    if constexpr (S::splits == 1) {
      for (int i = threadIdx.x; i < kSums; i += S::threads) store(b, block, i, sums[i]);
    } else {
      add_up_in_last_block<S::threads, S::splits, kSums>(
          parts + static_cast<long long>(owner) * S::splits * kSums,
          counters + owner * S::counter_words, sums, split, reinterpret_cast<float4*>(memory),
          [&](int i, float total) { store(b, block, i, total); });
    }
  }
};

}  // namespace convir
