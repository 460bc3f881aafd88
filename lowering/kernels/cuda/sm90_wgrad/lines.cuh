// f32, of which tensor cores take lines of k (K major) alone. Warps that load convert what arrived
// of A: chunks of channels are transposed to lines. Warps that multiply load their elements of C into
// registers.
//
// As TF32, elements were rounded by TMA. In IEEE arithmetic each product is three of TF32
// (mma/sm90_split_tile.cuh): lines of A are rounded to TF32, with what rounding leaves behind them,
// and elements of C are split in registers.
#pragma once

#include "mma/not_finite.cuh"
#include "mma/sm90_split_tile.cuh"
#include "ptx/shared_memory.cuh"
#include "sm90_wgrad/mainloop.cuh"

namespace convir::wgrad {

constexpr int kTurns = kFixUp + 2;  // barriers, behind those of two warpgroups
constexpr int kConverterRegisters = 72, kLinesConsumerRegisters = 216;

// Where the operands lie.
struct Elements {
  const float *a, *c;
  int pixels;  // output pixels
};

template <class Problem, class Config>
struct LinesKernel : Kernel<Problem, Config> {
  using Base = Kernel<Problem, Config>;
  using Layout = typename Base::Layout;
  using Accumulators = typename Base::Accumulators;
  using P = typename Problem::Elements;
  using Base::kBlockK, Base::kBoxesM, Base::kBoxesN, Base::kIsSplit, Base::kN, Base::kOfStep,
      Base::kStageBytes, Base::kStages;

  static_assert(Base::kTiles == 1 && kBlockK == 32 && !Base::kIsClustered);
  static_assert(!Problem::kStoresChunks, "barriers lie where results would be staged");
  static_assert(Problem::kLinesAhead < kStages, "a stage is converted before the next wait");
  static constexpr int kConverters = Config::kProducerWarps;
  static constexpr int kHalfBytes = kBoxBytes / 2;  // 32 channels or lines

  unsigned lines_done;  // barriers: A of a stage is lines

  __device__ LinesKernel(char* memory, int of_tile)
      : Base(memory, of_tile),
        lines_done(kIsSplit ? this->pipeline.full + this->pipeline.kBytes : this->staging) {}

  // One thread; all others wait for it.
  __device__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) init_barrier(lines_done + i * 8, kConverters * kWarpArrivals);
    Base::init_barriers();
  }

  // The pixel of place k of a line. Where lanes read C's channels along lines of channels, their
  // banks differ if four pixels that follow each other are two apart.
  static constexpr __device__ int pixel_of(int k) {
    return Problem::kPlanesC ? k : k / 8 * 8 + k % 4 * 2 + k % 8 / 4;
  }

  // A warp that loads: converts its parts of A in a stage, 32 lines each, one of a lane.
  __device__ __forceinline__ void convert(const PipelineState<kStages>& at) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % kConverters;
    wait_barrier(this->pipeline.full + at.stage * 8, at.phase);
    const unsigned first = this->stages + at.stage * kStageBytes + kBoxesM * kBoxBytes;
#pragma unroll 1
    for (int half = warp; half < 2 * kBoxesN; half += kConverters) {
      const unsigned tile = first + half * kHalfBytes;
      unsigned line = tile + mma::byte_of_line(lane, 0), channel = tile + lane * 4;
      asm volatile("" : "+r"(line), "+r"(channel));
      unsigned x[kBlockK];
#pragma unroll
      for (int k = 0; k < kBlockK; ++k) {
        if constexpr (!Problem::kPlanesA) {
          load_shared<1>(x + k, mma::flipped(channel, k % 8) + k * hopper::kSwizzleBytes);
        } else if (k % 4 == 0) {
          load_shared<4>(x + k, mma::flipped(line, k / 4));
        }
      }
      __syncwarp();
#pragma unroll
      for (int k = 0; k < kBlockK; k += 4) {
        unsigned high[4], low[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) high[i] = x[pixel_of(k + i)];
        const unsigned to = mma::flipped(line, k / 4);
        if constexpr (kIsSplit) {
          split_operands(high, low);
          store_shared(to + kBoxesN * kBoxBytes, make_uint4(low[0], low[1], low[2], low[3]));
        }
        store_shared(to, make_uint4(high[0], high[1], high[2], high[3]));
      }
    }
    hopper::fence_proxy();
    __syncwarp();
    arrive_for_warp(lines_done + at.stage * 8);
  }

  // What a lane reads of 64 channels of C: where that begins, and its elements at places 8 k to
  // 8 k + 7 of lines.
  static __device__ __forceinline__ unsigned first_of_c(unsigned box) {
    if constexpr (Problem::kPlanesC) return mma::first_of_lines(box);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    return box + warp / 2 * kHalfBytes + lane / 4 % 4 * 4 +
           mma::byte_of_line(lane % 4 * 2, warp % 2 * 4 + lane / 16);
  }
  static __device__ __forceinline__ void load_c(unsigned (&to)[4], unsigned first, int k) {
    if constexpr (Problem::kPlanesC) {
      mma::load_lines(to, first, k);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int pixel = k * 8 + i / 2;
        load_shared<1>(to + i, mma::flipped(first, i / 2 ^ i % 2 * 2) +
                                   pixel * hopper::kSwizzleBytes);
      }
    }
  }

  __device__ __forceinline__ void consume(typename Base::Output* out, float* workspace,
                                          unsigned* flags, const Elements& elements) const {
    const int consumer = threadIdx.x / kWarpgroupThreads;
    // Both are the first one, which lets no other begin, where warpgroups take no turns.
    const mma::Turns<kTurns> turns(kIsSplit ? consumer : 0);
    convir::consume<Accumulators>(
        typename Base::Tiles{*this}, this->pipeline,
        [&](const partition::Work& work, Accumulators& d, Consumer<kStages>& full) {
          reduce(d[0], consumer, work, full, turns);
          if constexpr (kIsSplit) {
            if (!mma::are_finite(d[0])) compute_again(d[0], consumer, work, elements);
          }
          __syncwarp();
          return true;
        },
        [&](const partition::Work& work, Accumulators& d) {
          this->finish(d, consumer, work, out, workspace, flags);
        });
  }

 private:
  __device__ __forceinline__ void reduce(float (&d)[kN / 2], int consumer,
                                         const partition::Work& work,
                                         Consumer<kStages>& full,
                                         const mma::Turns<kTurns>& turns) const {
    const int box_m = consumer / Config::kWarpgroupsN;
    const int box_n = kBoxesM + Base::first_box(consumer);
    mma::clear(d);
#pragma unroll 1
    for (int step = work.begin; step < work.end; ++step) {
      full.wait();
      const unsigned stage = this->stages + full.at.stage * kStageBytes;
      unsigned first = first_of_c(stage + box_m * kBoxBytes);
      asm volatile("" : "+r"(first));
      const unsigned a = stage + box_n * kBoxBytes;
      const auto load = [&](unsigned (&x)[4], int k) { load_c(x, first, k); };
      const auto ready = [&] { wait_barrier(lines_done + full.at.stage * 8, full.at.phase); };
      const auto read = [&] { full.release(full.at.stage); };
      if constexpr (kIsSplit) {
        mma::multiply_split<kN, kOfStep>(d, a, kBoxesN * kBoxBytes, turns, load, ready, read);
      } else {
        mma::multiply_lines<kN, kOfStep>(d, a, load, ready, read);
      }
      full.at.advance();
    }
  }

  // Output pixels of a step, in their order.
  struct Range {
    int begin, end;
  };
  __device__ __forceinline__ Range pixels_of(int step, int all) const {
    if constexpr (Problem::kPlanesC) {
      typename Base::Planes planes;
      planes.move_to(step);
      int line = planes.at[Problem::kOuter + 1];
#pragma unroll
      for (int axis = Problem::kOuter; axis > 0; --axis) {
        line = line * Problem::line_steps(axis) + planes.at[axis];
      }
      const int begin = line * Problem::kImagePixels + planes.at[0];
      return {begin, begin + min(kBlockK, Problem::kImagePixels - planes.at[0])};
    } else {
      return {step * kBlockK, min((step + 1) * kBlockK, all)};
    }
  }

  // Computes those that are infinite or NaN in IEEE arithmetic: rounding to TF32, or what is left
  // of an infinity, may have made them so.
  __device__ __forceinline__ void compute_again(float (&d)[kN / 2], int consumer,
                                                const partition::Work& work,
                                                const Elements& elements) const {
    const int group = Layout::group_of(work.tile);
    const float* a = elements.a + P::kAGroup * group;
    const float* c = elements.c + P::kCGroup * group;
    const int first = (Layout::chunk_m(work.tile) + consumer / Config::kWarpgroupsN) * kChunk;
    const typename Layout::Columns columns(work.tile);
    const auto chunk_of = [&](int n) {
      return columns.chunk(Base::first_box(consumer) + n / kChunk);
    };
    const auto channel_of = [&](int n) {
      return chunk_of(n) % Layout::kTapChunks * kChunk + n % kChunk;
    };
    mma::compute_again(
        d,
        [&](int m, int n) {
          return first + m < Problem::kOutChannels && chunk_of(n) < Layout::kChunksN &&
                 channel_of(n) < Problem::kInChannels;
        },
        [&](int m, int n) {
          const int tap = chunk_of(n) / Layout::kTapChunks, channel = channel_of(n);
          const int row = P::kTapMinor ? channel * Problem::kTaps + tap
                                       : tap * Problem::kInChannels + channel;
          float total = 0.0f;
#pragma unroll 1
          for (int step = work.begin; step < work.end; ++step) {
            const Range range = pixels_of(Base::step_of_tile(work, step), elements.pixels);
            total += implicit_gemm::ieee_sum<P>(a, c, 0, row, first + m, range.begin, range.end);
          }
          return total;
        });
  }
};

}  // namespace convir::wgrad
