// Parts that are put together in a cluster, and whose steps have a stage each: half of the columns is
// multiplied after the other, so that sums of the first half are on their way to other blocks meanwhile.
// Not for the last steps of more: ptxas lets products wait for each other that share sums with wider
// ones.
#pragma once

#include "pipeline/state.cuh"
#include "ptx/wgmma.cuh"
#include "sm90_row_packed_wgrad/tile.cuh"

namespace convir::stacked_wgrad {

template <class P, class C>
struct Halves {
  using L = Layout<P, C>;
  using State = PipelineState<C::kStages>;
  static constexpr int kFirst8 = (L::kStack8 + 1) / 2, kOthers8 = L::kStack8 - kFirst8;
  static constexpr int kMostProducts = 32;
  static constexpr int kSteps = C::kPartSteps;  // of every part; 0 if they differ
  static constexpr int kProducts = kSteps * L::kSlabs;
  static constexpr bool kAreUsed = L::kIsClustered && C::kTapCols == 1 && C::kConsumerWarpgroups == 1 &&
                                   C::kIsBulk && !C::kHasRegisters && kOthers8 > 0 &&
                                   kSteps <= C::kStages && 1 < kProducts &&
                                   kProducts <= kMostProducts;

  // Multiplies all steps of a part, and sends its sums. Products wait in a short queue, so sums are
  // sent between them, a few at a time.
  template <class Block, class Sums>
  static __device__ __forceinline__ void multiply(const Block& block, Sums& sums, int part,
                                                  State& ring, int thread) {
    const auto pushed = block.pushed();
    const auto sum = [&](int i) { return sums(i / 4)[i % 4]; };
    pushed.expect(part, thread);
    unsigned at[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      at[i] = block.stages + ring.stage * L::kStageBytes;
      wait_barrier(block.full + 8 * ring.stage, ring.phase);
      hopper::wgmma_fence();
#pragma unroll
      for (int slab = 0; slab < L::kSlabs; ++slab) product<0, kFirst8>(sums, at[i], slab);
      ring.advance();
    }
    hopper::wgmma_commit();
    product<kFirst8, kOthers8>(sums, at[0], 0);
    hopper::wgmma_commit();
    hopper::wgmma_wait<1>();
    hold<0, kFirst8>(sums);
    send_between<1>(pushed, sums, at, part, thread, sum);
    hopper::wgmma_commit();
    hopper::wgmma_wait<0>();
    hold<kFirst8, kOthers8>(sums);
    pushed.template send<4 * kFirst8, 4 * L::kStack8>(part, thread, sum);
  }

  // Products of the second half from `kFrom` on, each with its share of the first half's sums.
  template <int kFrom, class Pushed, class Sums, class Sum>
  static __device__ __forceinline__ void send_between(const Pushed& pushed, Sums& sums,
                                                      const unsigned* at, int part, int thread,
                                                      Sum&& sum) {
    if constexpr (kFrom < kProducts) {
      product<kFirst8, kOthers8>(sums, at[kFrom / L::kSlabs], kFrom % L::kSlabs);
      constexpr int kOf = kProducts - 1;
      pushed.template send<(kFrom - 1) * kFirst8 / kOf * 4, kFrom * kFirst8 / kOf * 4>(part, thread, sum);
      send_between<kFrom + 1>(pushed, sums, at, part, thread, sum);
    }
  }

  // Adds a slab's products for columns 8 kBegin8 to 8 (kBegin8 + kCount8).
  template <int kBegin8, int kCount8, class Sums>
  static __device__ __forceinline__ void product(Sums& sums, unsigned stage, int slab) {
    const typename Sums::Operands of(stage, stage + L::kXBytes);
    hopper::Wgmma<typename P::E, 8 * kCount8, hopper::kMajorMN, hopper::kMajorMN>::run(
        sums.sums[0][kBegin8],
        hopper::moved(of.from_x, Sums::x_of(slab)),
        hopper::moved(of.from_y, Sums::y_of(slab) + kBegin8 * L::kPlaneBytes));
  }
  template <int kBegin8, int kCount8, class Sums>
  static __device__ __forceinline__ void hold(Sums& sums) {
#pragma unroll
    for (int i = kBegin8; i < kBegin8 + kCount8; ++i) hopper::hold(sums.sums[0][i]);
  }
};

}  // namespace convir::stacked_wgrad
