// f32 in IEEE arithmetic as three products of TF32 (mma/sm90_split_tile.cuh). A launch before splits
// B, whose halves a stage holds; warps that multiply split their rows of A in registers.
#pragma once

#include "mma/not_finite.cuh"
#include "mma/sm90_split_tile.cuh"
#include "sm90_implicit_gemm/kernel.cuh"

namespace convir::wgmma {

// B rounded to TF32, and what is left of it `count` elements behind.
__device__ __forceinline__ void split_filter(const float* b, float* halves, long long count) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= count) return;
  unsigned high[1] = {__float_as_uint(b[i])}, low[1];
  split_operands(high, low);
  halves[i] = __uint_as_float(high[0]);
  halves[count + i] = __uint_as_float(low[0]);
}

// Where the operands lie.
struct Elements {
  const float *a, *b;
};

template <class Problem, class Config>
struct SplitKernel : Kernel<Problem, Config> {
  using Base = Kernel<Problem, Config>;
  using Accumulators = typename Base::Accumulators;
  using P = typename Problem::Elements;
  using Base::Base, Base::kBlockM, Base::kBlockN, Base::kRowBytes, Base::kStageBytes, Base::kStages;

  static_assert(!Config::kIsPingPong && Config::kWarpgroupTiles == 1 && Config::kSplits == 1);
  static_assert(Problem::kPieces == 1 && Config::kProducts == 3);

  __device__ __forceinline__ void consume(int consumer, typename Base::Output* c,
                                          const typename Base::Pointers& operands,
                                          const Elements& elements) const {
    const int warp = threadIdx.x % kWarpgroupThreads / 32, first_row = consumer * 64;
    const mma::Turns<1> turns(consumer);
    convir::consume<Accumulators>(
        this->tiles, this->pipeline,
        [&](const Tile& tile, Accumulators& d, Consumer<kStages>& full) {
          const int steps = Base::steps_of(Problem::phase(tile.phase));
          mma::clear(d[0]);
#pragma unroll 1
          for (int step = 0; step < steps; ++step) {
            full.wait();
            const unsigned stage = this->stages + full.at.stage * kStageBytes;
            unsigned first = mma::first_of_lines(stage + first_row * kRowBytes);
            asm volatile("" : "+r"(first));
            mma::multiply_split<kBlockN, kRowBytes / hopper::kStepBytes>(
                d[0], stage + Base::kBytesA, Base::kBytesB, turns,
                [&](unsigned (&x)[4], int k) { mma::load_lines(x, first, k); }, [] {},
                [&] { full.release(full.at.stage); });
            full.at.advance();
          }
          if (!mma::are_finite(d[0])) compute_again(d[0], tile, first_row, elements);
          __syncwarp();
          return true;
        },
        [&](const Tile& tile, const Accumulators& d) {
          typename Base::TileRows none;
          Base::template store<0>(Problem::phase(tile.phase), this->tiles.images, d[0],
                                  Base::m_of(tile) + first_row + warp * kWarpRows,
                                  tile.n * kBlockN,
                                  this->staging + (consumer * 4 + warp) * Base::WarpStaging::kBytes,
                                  c, operands, nullptr, none);
        });
  }

 private:
  // Computes those that are infinite or NaN in IEEE arithmetic: rounding to TF32, or what is left
  // of an infinity, may have made them so.
  __device__ __forceinline__ void compute_again(float (&d)[kBlockN / 2], const Tile& tile,
                                                int first_row, const Elements& elements) const {
    const int m = Base::m_of(tile) + first_row, n = tile.n * kBlockN;
    const Phase& phase = Problem::phase(tile.phase);
    const long long rows = static_cast<long long>(phase.pixels) * this->tiles.images;
    mma::compute_again(
        d,
        [&](int row, int column) { return m + row < rows && n + column < Problem::kOutChannels; },
        [&](int row, int column) {
          return implicit_gemm::ieee_sum<P>(elements.a, elements.b, tile.phase, m + row, n + column,
                                            0, phase.taps * Problem::kInChannels);
        });
  }
};

template <class Problem, class Config, class... Maps>
__device__ __forceinline__ void contract_split(typename Problem::Epilogue::Stored* c,
                                               const typename Problem::Epilogue::Pointers& operands,
                                               int images, const Elements& elements,
                                               const hopper::TensorMap& b, const Maps&... a) {
  contract_by<SplitKernel<Problem, Config>, Problem>(
      images, nullptr,
      [&](const auto& kernel, int consumer) { kernel.consume(consumer, c, operands, elements); }, c,
      b, a...);
}

}  // namespace convir::wgmma
