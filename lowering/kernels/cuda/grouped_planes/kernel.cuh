// Grouped convolution of operands in planes (NCHW), fprop and dgrad: column taps are rows of the
// matrix instruction, and what they add up is shifted afterwards.
//
// For a group, D[s][k][w] is the sum over row taps and channels of weights (k, s) times column w of
// A, and the output at column q is the sum over s of D[s][k][q * step + shift(s)]. Pixels are the
// columns of the instruction, read from planes as they lie; no tap asks for pixels that are not
// aligned. Blocks go through tiles of their groups, whose windows are on their way meanwhile.
#pragma once

#include "arith/scalars.cuh"
#include "epilogue/direct_store.cuh"
#include "grouped_planes/tile.cuh"
#include "load/direct_phase.cuh"

namespace convir {

// The weights of a warp's output channels, as operand A of matrix instructions: unit u of eight
// rows has output channels u % kOctets * 8 … of column tap u / kOctets, octet d of the depth has
// eight channels of a row tap.
template <typename P, typename S>
struct TapUnits {
  using T = typename P::Element;
  static constexpr int kOctets = S::warp_channels / kChunk;
  static constexpr int kColTaps = P::phases[0].col_taps;
  static constexpr int kUnits = kColTaps * kOctets;
  static constexpr int kMmas = divide_up(kUnits, 2);
};

template <typename P, typename S>
struct GroupedPlanes {
  using T = typename P::Element;
  using Units = TapUnits<P, S>;
  using Window = WindowMatrices<P, S>;
  using Tile = PlanesTile<P, S>;
  using Job = PlanesJob<P, S>;
  static constexpr int kInOctets = P::in_channels / kChunk, kOutOctets = Units::kOctets;
  static constexpr int kDepth = P::phases[0].row_taps * kInOctets;
  static constexpr int kMmas = Units::kMmas;
  static constexpr int kParts = P::out_channels / S::warp_channels;  // of a group
  static constexpr int kSharing = S::threads / 32 / (S::groups * kParts);
  static constexpr int kGroupBlocks = P::groups / S::groups;
  static constexpr int kChunks = S::lead + S::segment + S::trail;
  static constexpr int kOutputs = kChunk / P::col_step;  // columns of a chunk
  static constexpr int kOfLane = 2 / P::col_step;
  static constexpr int kWindowBytes = S::groups * P::in_channels * S::in_plane * 2;
  static_assert(P::phase_count == 1 && P::col_step <= 2 && P::groups % S::groups == 0);
  static_assert(S::threads == 32 * kSharing * S::groups * kParts && S::tile_rows % S::unroll == 0);

  // What becomes of unit `unit` at output `b` of a lane: a word of the lane kAhead further.
  static constexpr int column(int unit, int b) {
    return b + tap_shift<P>(unit / kOutOctets);
  }
  static constexpr int register_of(int unit, int b) { return column(unit, b) & 1; }
  static constexpr int ahead_of(int unit, int b) { return floor_half(column(unit, b)); }

  unsigned weight[kMmas][kDepth][2];
  float sum[kChunks][S::unroll][kMmas][4];
  float moved[kChunks][S::unroll][Units::kUnits][kOfLane];

  __device__ __forceinline__ void load_weights(const T* __restrict__ b, int group, int first) {
    constexpr int kRealIn = P::in_channels / P::packed, kRealOut = P::out_channels / P::packed;
    const int lane = threadIdx.x % 32;
    static_for<kMmas * 2>([&](auto unit_) {
      constexpr int unit = decltype(unit_)::value;
      static_for<kDepth>([&](auto depth_) {
        constexpr int depth = decltype(depth_)::value;
        unsigned& word = weight[unit / 2][depth][unit % 2];
        word = 0;
        if constexpr (unit < Units::kUnits) {
          constexpr long long kTap =
              tap_weight<P>(0, depth / kInOctets, unit / kOutOctets);
          const int n = first + unit % kOutOctets * kChunk + lane / 4;
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int d = depth % kInOctets * kChunk + lane % 4 * 2 + e;
            // Without remainders where there are none to take: these places are then constants
            // from one address.
            const int real = P::packed > 1 ? d / kRealIn : 0;
            if (P::packed > 1 && n / kRealOut != real) continue;
            const int c = P::packed > 1 ? d % kRealIn : d, k = P::packed > 1 ? n % kRealOut : n;
            const T* from = b + (static_cast<long long>(group) * P::packed + real) * P::b_group +
                            c * P::b_in_channel + k * P::b_out_channel + kTap;
            word |= static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(from))
                    << (16 * e);
          }
        }
      });
    });
  }

  template <int kAt>
  __device__ __forceinline__ void multiply(const Window& matrices, unsigned window) {
    unsigned x[Window::kFours][4];
    matrices.template load<true>(x, window + kAt * kChunk * 2);
    static_for<S::unroll>([&](auto u) {
      static_for<kMmas>([&](auto m) {
        float(&to)[4] = sum[kAt][u.value][m.value];
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = 0.0f;
        static_for<divide_up(kDepth, 2)>([&](auto step) {
          constexpr int depth = decltype(step)::value * 2;
          constexpr int first = Window::matrix_of(decltype(u)::value, depth);
          const auto& w = weight[m.value];
          if constexpr (depth + 1 < kDepth) {
            constexpr int second = Window::matrix_of(decltype(u)::value, depth + 1);
            multiply_add<T>(to, {w[depth][0], w[depth][1], w[depth + 1][0], w[depth + 1][1]},
                            x[first / 4][first % 4], x[second / 4][second % 4]);
          } else {
            multiply_add<T>(to, {w[depth][0], w[depth][1]}, x[first / 4][first % 4]);
          }
        });
      });
      static_for<Units::kUnits>([&](auto unit_) {
        constexpr int unit = decltype(unit_)::value;
        static_for<kOfLane>([&](auto b_) {
          constexpr int b = decltype(b_)::value;
          constexpr int ahead = ahead_of(unit, b);
          if constexpr (ahead != 0) {
            const float own =
                sum[kAt][u.value][unit / 2][unit % 2 * 2 + register_of(unit, b)];
            moved[kAt][u.value][unit][b] =
                __uint_as_float(further_word<ahead>(__float_as_uint(own)));
          }
        });
      });
    });
  }

  // Output `kB` of a lane in chunk kAt, channel octet kOctet.
  template <int kAt, int kU, int kOctet, int kB>
  __device__ __forceinline__ float total() const {
    float all = 0.0f;
    static_for<Units::kColTaps>([&](auto s) {
      constexpr int unit = decltype(s)::value * kOutOctets + kOctet;
      constexpr int ahead = ahead_of(unit, kB);
      float here;
      if constexpr (ahead == 0) {
        here = sum[kAt][kU][unit / 2][unit % 2 * 2 + register_of(unit, kB)];
      } else {
        constexpr int other = ahead < 0 ? kAt - 1 : kAt + 1;
        here = 0.0f;
        if constexpr (other >= 0 && other < kChunks) here = moved[other][kU][unit][kB];
        here = is_same_chunk<ahead>() ? moved[kAt][kU][unit][kB] : here;
      }
      all = s.value == 0 ? here : all + here;
    });
    return all;
  }

  // Stores what a chunk gives to the tile in shared memory, after the epilogue.
  template <int kAt>
  __device__ __forceinline__ void store(T* results, const Job& job, const Tile& tile, int channel,
                                        const Target<P>& out) const {
    const int lane = threadIdx.x % 32;
    const int first = (job.chunk + kAt - S::lead) * kOutputs + lane % 4 * kOfLane;
    static_for<S::unroll>([&](auto u) {
      static_for<kOutOctets>([&](auto octet) {
        const int row = job.row + u.value;
        T* to = results + octet.value * kChunk * S::out_plane + job.image * S::out_image +
                row * S::out_row + first;
        T values[kOfLane];
        static_for<kOfLane>([&](auto b) {
          const float value = total<kAt, decltype(u)::value, decltype(octet)::value,
                                    decltype(b)::value>();
          if constexpr (P::rounds_only) {
            values[b.value] = narrow<T>(value);
          } else {
            const int at_channel = channel + octet.value * kChunk;
            const int image = tile.image + job.image, at_row = tile.row + row;
            const int col = tile.col + first + b.value;
            values[b.value] = T(0.0f);
            if (at_row < P::rows && col < P::cols) {
              const long long element = static_cast<long long>(image) * P::c_image +
                                        P::phases[0].offset + at_row * P::c_row_stride + col +
                                        at_channel * P::c_channel;
              values[b.value] = result<P>(value, out, element, at_channel);
            }
          }
        });
        if constexpr (kOfLane == 2 && S::out_row % 2 == 0) {
          if (first < S::tile_cols) *reinterpret_cast<unsigned*>(to) = word_of(values);
        } else {
          static_for<kOfLane>([&](auto b) {
            if (first + b.value < S::tile_cols) to[b.value] = values[b.value];
          });
        }
      });
    });
  }

  // The tile to memory: runs of a channel's plane, a whole one of rows if the tile has all columns.
  static __device__ __forceinline__ void store_tile(const T* results, const Target<P>& out,
                                                    const Tile& tile, int channel, int images) {
    constexpr int kRuns = S::is_flat ? 1 : S::tile_rows;
    constexpr int kRun = S::is_flat ? S::tile_rows * S::tile_cols : S::tile_cols;
    constexpr int kVectors = divide_up(kRun, S::out_vector);
    constexpr int kUnits = S::groups * P::out_channels * S::tile_images * kRuns * kVectors;
    const int rows = min(S::tile_rows, P::rows - tile.row);
    const int cols = min(S::tile_cols, P::cols - tile.col);
    T* const to = out.c + static_cast<long long>(tile.image) * P::c_image + P::phases[0].offset +
                  tile.row * P::c_row_stride + tile.col +
                  static_cast<long long>(channel) * P::c_channel;
#pragma unroll 2
    for (int index = threadIdx.x; index < kUnits; index += S::threads) {
      const int at = index % kVectors * S::out_vector;
      const int run = index / kVectors % kRuns;
      const int image = index / kVectors / kRuns % S::tile_images;
      const int of = index / kVectors / kRuns / S::tile_images;
      const bool is_inside =
          image < images && (S::is_flat ? at < rows * cols : at < cols && run < rows);
      if (!is_inside) continue;
      const auto vector = convir::load<S::out_vector>(results + of * S::out_plane +
                                                      image * S::out_image + run * S::out_row + at);
      convir::store(to + of * P::c_channel + image * P::c_image + run * P::c_row_stride + at,
                    vector);
    }
  }

  static __device__ __forceinline__ void run(const T* a, const T* b, const Target<P>& out,
                                             int images) {
    extern __shared__ __align__(16) unsigned char memory[];
    const unsigned shared = shared_address(memory);
    T* const results = reinterpret_cast<T*>(memory + S::stages * kWindowBytes);
    const int block = static_cast<int>(blockIdx.x) % kGroupBlocks * S::groups;
    const int split = static_cast<int>(blockIdx.x) / kGroupBlocks;
    const int splits = static_cast<int>(gridDim.x) / kGroupBlocks;
    if (split >= splits) return;
    const int tiles = Tile::count(images);
    const int begin = static_cast<int>(static_cast<long long>(tiles) * split / splits);
    const int end = static_cast<int>(static_cast<long long>(tiles) * (split + 1) / splits);
    const auto bring = [&](int index) {
      if (index < end) {
        const Tile tile(index);
        tile.window(a, block, images)
            .template load<S::threads>(shared + (index - begin) % S::stages * kWindowBytes);
      }
      commit_copies();
    };
    static_for<S::stages - 1>([&](auto stage) { bring(begin + stage.value); });
    if constexpr (S::stages == 1) bring(begin);

    const int part = static_cast<int>(threadIdx.x) / 32 / kSharing;
    const int sharing = static_cast<int>(threadIdx.x) / 32 % kSharing;
    const int group = part / kParts, of_group = part % kParts * S::warp_channels;
    const int warp_channel =
        group * P::out_channels + of_group + static_cast<int>(threadIdx.x) % 32 / 4;
    GroupedPlanes self;
    self.load_weights(b, block + group, of_group);
    const Window matrices;
#pragma unroll 1
    for (int index = begin; index < end; ++index) {
      if constexpr (S::stages > 1) bring(index + S::stages - 1);
      wait_copies<S::stages - 1>();
      __syncthreads();
      const Tile tile(index);
      const unsigned window = shared + (index - begin) % S::stages * kWindowBytes;
#pragma unroll 1
      for (int j = sharing; j < Job::kCount; j += kSharing) {
        const Job job(j);
        if (tile.row + job.row >= P::rows || tile.image + job.image >= images) continue;
        const unsigned from = window + window_of<P, S>(job, group);
        static_for<kChunks>([&](auto at_) {
          constexpr int at = decltype(at_)::value;
          self.template multiply<at>(matrices, from);
          // A chunk needs the one behind it, where a tap reads columns to the right.
          if constexpr (at >= S::lead + 1) {
            self.template store<at - 1>(results + warp_channel * S::out_plane, job, tile,
                                        block * P::out_channels + warp_channel, out);
          }
        });
        if constexpr (S::trail == 0) {
          self.template store<kChunks - 1>(results + warp_channel * S::out_plane, job, tile,
                                           block * P::out_channels + warp_channel, out);
        }
      }
      __syncthreads();
      store_tile(results, out, tile, block * P::out_channels, images - tile.image);
      if constexpr (S::stages == 1) bring(index + 1);
    }
  }
};

}  // namespace convir
