// Depthwise convolution, wgrad: channels of A and C as planes in shared memory, the gradient of a
// filter row as a sum over diagonals.
//
// For filter row r and 16 strips, the window of each strip in that row (columns w) times its eight
// gradients (columns q) add up to D[w][q]; the gradient of tap s is the sum of D over
// w = q * step + s. A row of A is read once for all filter rows. Blocks have some tiles each of the
// output pixels of some channels, and sums in shared memory; the last block of the channels adds
// those of all blocks up, always in the same order.
#pragma once

#include "arith/scalars.cuh"
#include "depthwise/planes.cuh"
#include "epilogue/direct_store.cuh"
#include "load/direct_phase.cuh"
#include "reduce/last_block.cuh"

namespace convir {

template <typename P, typename S>
struct DepthwiseWgrad {
  using T = typename P::Element;
  using In = Planes<T, WindowLayout<P, S>>;
  using Out = Planes<T, ResultLayout<P, S>>;
  using Tile = DepthwiseTile<P, S>;
  using StripOf = Strip<S>;
  static constexpr bool kIsTensor = sizeof(T) == 2;
  static constexpr int kWarps = S::threads / 32;
  static constexpr int kChunks = S::window_chunks;
  static constexpr int kPairs = divide_up(kChunks, 2);  // 16 columns of A each
  static constexpr int kMmaDepth = 16;
  static constexpr int kStripTiles = divide_up(StripOf::kCount, kIsTensor ? kMmaDepth : 32);
  static constexpr int kWindow = (S::unroll - 1) * P::row_step + P::window_rows;
  static constexpr int kOutChannels = P::groups * P::out_channels;
  static constexpr int kChannelBlocks = divide_up(kOutChannels, S::channels);
  static constexpr EvenTaps kRows = row_taps<P>(0), kCols = col_taps<P>(0);
  static constexpr int kTaps = kRows.count * kCols.count;
  static constexpr int kRowParts = divide_up(kRows.count, S::part_rows);
  static constexpr int kSums = Step<P>::kCount * kTaps;  // of an output channel
  static constexpr int kAllSums = divide_up(S::channels * kSums, 4) * 4;
  // A warp's sums of several filter rows, as [row][w][q].
  static constexpr int kPitch = kDepthwiseChunk + 1;
  static constexpr int kRowScratch = kPairs * 16 * kPitch;
  static constexpr int kRowsAtOnce = larger(1, smaller(S::part_rows, 32 / kCols.count));
  static constexpr int kScratch = kIsTensor ? kRowsAtOnce * kRowScratch : 0;
  static_assert(S::scratch == kScratch && S::sums == kAllSums);
  // What a lane adds up for the filter rows of a part. Those of all jobs of a warp stay in registers
  // from tile to tile if they are few.
  static constexpr int kColumns = kIsTensor ? kPairs * 4 : kCols.count;
  struct Sums {
    float of[S::part_rows][kColumns];
  };
  static constexpr int kJobs = S::channels * Step<P>::kCount;
  static constexpr int kHeldJobs = divide_up(kJobs, kWarps);
  static constexpr bool kHolds = S::holds_sums;
  static_assert(!kHolds || (kRowParts == 1 && kJobs % kWarps == 0));

  // The output row of a strip for which row `row` of the window is that of tap row `tap`; -1 if
  // there is none.
  static constexpr int output_of(int row, int tap) {
    const int ahead = row - kRows.position(tap);
    return tap < kRows.count && ahead >= 0 && ahead % P::row_step == 0 &&
                   ahead / P::row_step < S::unroll
               ? ahead / P::row_step
               : -1;
  }

  static __device__ __forceinline__ void run(const T* a, const T* c, T* b, float* parts,
                                             unsigned* counters) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* const shared = reinterpret_cast<T*>(memory);
    float* const sums = reinterpret_cast<float*>(memory + S::sums_at);
    const int warp = threadIdx.x / 32;
    float* const scratch = reinterpret_cast<float*>(memory + S::scratch_at) + warp * kScratch;
    Sums held[kHolds ? kHeldJobs : 1] = {};
    const int block = static_cast<int>(blockIdx.x % kChannelBlocks);
    const int split = static_cast<int>(blockIdx.x / kChannelBlocks);
    const int channel = block * S::channels;
    for (int i = threadIdx.x; i < S::planes_at * static_cast<int>(sizeof(T)) / 16; i += S::threads) {
      reinterpret_cast<uint4*>(memory)[i] = make_uint4(0, 0, 0, 0);
    }
    for (int i = threadIdx.x; i < kAllSums; i += S::threads) sums[i] = 0.0f;
    const unsigned first = static_cast<unsigned>(Tile::kTiles * split / S::splits);
    const unsigned last = static_cast<unsigned>(Tile::kTiles * (split + 1) / S::splits);
#pragma unroll 1
    for (unsigned index = first; index < last; ++index) {
      const Tile tile(index);
      In::template load<S::threads, P::slice_tap_step>(
          a, shared + S::planes_at, tile.template window<typename In::Origin>(channel));
      Out::template load<S::threads, 1>(c, shared + S::results_at,
                                        {channel, tile.image, tile.slice, tile.row, tile.col});
      __syncthreads();
      if constexpr (kHolds) {
        add<0>(held, shared, warp, tile);
      } else {
#pragma unroll 1
        for (int job = warp; job < kJobs; job += kWarps) {
          static_for<kRowParts>([&](auto part) {
            Sums of_tile[1] = {};
            add<part.value * S::part_rows>(of_tile, shared, job, tile);
            fold<part.value * S::part_rows>(of_tile[0], scratch, sums, job);
          });
        }
      }
      __syncthreads();
    }
    if constexpr (kHolds) {
      static_for<kHeldJobs>([&](auto job) {
        fold<0>(held[job.value], scratch, sums, job.value * kWarps + warp);
      });
      __syncthreads();
    }
    if constexpr (S::splits == 1) {
      for (int i = threadIdx.x; i < S::channels * kSums; i += S::threads) {
        store(b, channel, i, sums[i]);
      }
    } else {
      add_up_in_last_block<S::threads, S::splits, kAllSums>(
          parts + static_cast<long long>(block) * S::splits * kAllSums,
          counters + block * S::counter_words, sums, split, reinterpret_cast<float4*>(memory),
          [&](int i, float total) {
            if (i < S::channels * kSums) store(b, channel, i, total);
          });
    }
  }

  static __device__ __forceinline__ void store(T* b, int channel, int sum, float value) {
    channel += sum / kSums;
    if (channel >= kOutChannels) return;
    const int row = sum / kCols.count % kRows.count, col = sum % kCols.count;
    Step<P>(sum / kTaps % Step<P>::kCount)
        .weights(b, channel)[kRows.weight + row * kRows.weight_step + kCols.weight +
                             col * kCols.weight_step] = result<P>(value);
  }

  // Where the windows of a strip begin in a plane, or the image in a tile of whole images.
  static __device__ __forceinline__ int window(const Strip<S>& strip) {
    const int first =
        strip.image * S::in_image + strip.chunk * P::col_step * kDepthwiseChunk;
    return S::is_whole ? first : first + strip.row * P::row_step * S::in_row;
  }
  static __device__ __forceinline__ const T* plane_of_a(const T* shared, int job) {
    return shared + S::planes_at +
           Step<P>(job / S::channels).template window<In, S>(job % S::channels);
  }
  static __device__ __forceinline__ int origin(const Tile& tile, const Strip<S>& strip) {
    return (tile.row + strip.row) * P::row_step + P::row_origin;
  }
  static __device__ __forceinline__ int gradients(const Strip<S>& strip) {
    return strip.image * S::out_image + strip.row * S::out_row + strip.chunk * kDepthwiseChunk;
  }
  static __device__ __forceinline__ const T* plane_of_c(const T* shared, int job) {
    return shared + S::results_at + Out::plane(job % S::channels);
  }

  // Adds the gradients of filter rows from tap row kFirst on, of jobs `job`, `job + kWarps`, …
  template <int kFirst, int kCount>
  static __device__ __forceinline__ void add(Sums (&sums)[kCount], const T* shared, int job,
                                             const Tile& tile) {
    if constexpr (kIsTensor) add_banded<kFirst>(sums, shared, job, tile);
    else add_simt<kFirst>(sums, shared, job, tile);
  }
  template <int kFirst>
  static __device__ __forceinline__ void fold(const Sums& sums, float* scratch, float* totals,
                                              int job) {
    float* const to = totals + job % S::channels * kSums + job / S::channels * kTaps +
                      kFirst * kCols.count;
    if constexpr (kIsTensor) fold_diagonals<kFirst>(sums, scratch, to);
    else fold_lanes<kFirst>(sums, to);
  }

  template <int kFirst, int kCount>
  static __device__ __forceinline__ void add_banded(Sums (&sums)[kCount], const T* shared, int job,
                                                    const Tile& tile) {
    constexpr int kPart = smaller(S::part_rows, kRows.count - kFirst);
    const int lane = threadIdx.x % 32;
    const int matrix = lane / 8;
    const int ahead = matrix % 2 * kDepthwiseChunk;
    const unsigned zeros = shared_address(shared + ahead);
#pragma unroll 1
    for (int m = 0; m < kStripTiles * kMmaDepth; m += kMmaDepth) {
      // Lanes name rows of two chunks of A and of one chunk of C. There are no gradients where
      // strips are missing.
      const int of_a = m + lane % 8 + matrix / 2 * 8, of_c = m + lane % kMmaDepth;
      const Strip<S> strip(min(of_a, StripOf::kCount - 1));
      const int first_a = window(strip) + ahead, first_row = origin(tile, strip);
      const int first_c = gradients(Strip<S>(min(of_c, StripOf::kCount - 1)));
      const bool has_strip = of_c < StripOf::kCount;
      static_for<kCount>([&](auto number) {
        constexpr int kJob = decltype(number)::value;
        const unsigned from_a = shared_address(plane_of_a(shared, job + kJob * kWarps) + first_a);
        const T* const plane_c = plane_of_c(shared, job + kJob * kWarps);
        const unsigned from_c = shared_address(has_strip ? plane_c + first_c : shared);
        unsigned y[S::unroll][2];
#pragma unroll
        for (int i = 0; i < S::unroll; ++i) {
          constexpr int kPitch = S::out_row * sizeof(T);
          load_transposed(y[i], from_c + (has_strip ? i * kPitch : 0));
        }
        static_for<kWindow>([&](auto row) {
          constexpr int kRow = decltype(row)::value;
          if constexpr (uses(kRow, kFirst, kPart)) {
            const unsigned from = WindowRow<P, S>::at(zeros, from_a, first_row, kRow,
                                                      S::in_row * sizeof(T));
            unsigned x[kPairs][4];
#pragma unroll
            for (int i = 0; i < kPairs; ++i) load_transposed(x[i], from + i * 32);
            static_for<kPart>([&](auto tap) {
              constexpr int kTap = decltype(tap)::value;
              constexpr int kOut = output_of(kRow, kFirst + kTap);
              if constexpr (kOut >= 0) {
#pragma unroll
                for (int i = 0; i < kPairs; ++i) {
                  auto& four = reinterpret_cast<float(&)[4]>(sums[kJob].of[kTap][i * 4]);
                  multiply_add<T>(four, x[i], y[kOut][0], y[kOut][1]);
                }
              }
            });
          }
        });
      });
    }
  }

  // Adds diagonals up, those of several filter rows at once.
  template <int kFirst>
  static __device__ __forceinline__ void fold_diagonals(const Sums& sums, float* scratch,
                                                        float* to) {
    constexpr int kPart = smaller(S::part_rows, kRows.count - kFirst);
    const int lane = threadIdx.x % 32;
    static_for<divide_up(kPart, kRowsAtOnce)>([&](auto group) {
      constexpr int kBegin = decltype(group)::value * kRowsAtOnce;
      constexpr int kCount = smaller(kRowsAtOnce, kPart - kBegin);
      __syncwarp();
#pragma unroll
      for (int r = 0; r < kCount; ++r) {
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
          const int w = i / 4 * 16 + lane / 4 + i % 4 / 2 * 8, q = lane % 4 * 2 + i % 2;
          scratch[r * kRowScratch + w * kPitch + q] = sums.of[kBegin + r][i];
        }
      }
      __syncwarp();
#pragma unroll 1
      for (int i = lane; i < kCount * kCols.count; i += 32) {
        const int first = S::shift + kCols.first + i % kCols.count * kCols.step;
        const float* diagonal = scratch + i / kCols.count * kRowScratch + first * kPitch;
        float total = 0.0f;
#pragma unroll
        for (int q = 0; q < kDepthwiseChunk; ++q) total += diagonal[q * (P::col_step * kPitch + 1)];
        to[kBegin * kCols.count + i] += total;
      }
    });
  }
  // Whether a row of the window is read by one of `part` tap rows from `first` on.
  static constexpr bool uses(int row, int first, int part) {
    for (int tap = first; tap < first + part; ++tap) {
      if (output_of(row, tap) >= 0) return true;
    }
    return false;
  }

  // The same without tensor cores: a lane has some strips, and lanes add up in pairs.
  template <int kFirst, int kCount>
  static __device__ __forceinline__ void add_simt(Sums (&sums)[kCount], const T* shared, int job,
                                                  const Tile& tile) {
    constexpr int kPart = smaller(S::part_rows, kRows.count - kFirst);
#pragma unroll 1
    for (int m = threadIdx.x % 32; m < StripOf::kCount; m += 32) {
      const Strip<S> strip(m);
      const int first_a = window(strip), first_row = origin(tile, strip);
      const int first_c = gradients(strip);
      static_for<kCount>([&](auto number) {
        constexpr int kJob = decltype(number)::value;
        const T* from_a = plane_of_a(shared, job + kJob * kWarps) + first_a;
        const T* from_c = plane_of_c(shared, job + kJob * kWarps) + first_c;
        float y[S::unroll][kDepthwiseChunk];
#pragma unroll
        for (int i = 0; i < S::unroll; ++i) load_row(y[i], from_c + i * S::out_row);
        static_for<kWindow>([&](auto row) {
          constexpr int kRow = decltype(row)::value;
          if constexpr (uses(kRow, kFirst, kPart)) {
            float x[kChunks * kDepthwiseChunk];
            load_row(x, WindowRow<P, S>::at(shared, from_a, first_row, kRow, S::in_row));
            static_for<kPart>([&](auto tap) {
              constexpr int kTap = decltype(tap)::value;
              constexpr int kOut = output_of(kRow, kFirst + kTap);
              if constexpr (kOut >= 0) {
                static_for<kCols.count>([&](auto col) {
                  constexpr int kTapCol = decltype(col)::value;
                  constexpr int kAt = S::shift + kCols.first + kTapCol * kCols.step;
#pragma unroll
                  for (int q = 0; q < kDepthwiseChunk; ++q) {
                    float& sum = sums[kJob].of[kTap][kTapCol];
                    sum = fmaf(x[kAt + q * P::col_step], y[kOut][q], sum);
                  }
                });
              }
            });
          }
        });
      });
    }
    __syncwarp();
  }

  // Each step halves what a lane has: at last lane l has the totals of values l, l + 32, …
  template <int kFirst>
  static __device__ __forceinline__ void fold_lanes(const Sums& sums, float* to) {
    constexpr int kValues = smaller(S::part_rows, kRows.count - kFirst) * kCols.count;
    constexpr int kRounds = divide_up(kValues, 32);
    const int lane = threadIdx.x % 32;
    float held[kRounds * 32];
#pragma unroll
    for (int i = 0; i < kRounds * 32; ++i) {
      const int value = min(i, kValues - 1);
      held[i] = i < kValues ? sums.of[value / kCols.count][value % kCols.count] : 0.0f;
    }
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
      const bool upper = lane & apart;
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
#pragma unroll
        for (int j = 0; j < 16; ++j) {
          if (j >= apart) continue;
          float& low = held[i * 32 + j];
          const float high = held[i * 32 + j + apart];
          const float given = __shfl_xor_sync(~0u, upper ? low : high, apart);
          low = (upper ? high : low) + given;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      if (i * 32 + lane < kValues) to[i * 32 + lane] += held[i * 32];
    }
  }
};

}  // namespace convir
