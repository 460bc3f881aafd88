// Splits that are put together in a cluster, and whose steps have a stage each: half of the columns
// is multiplied after the other, so that accumulators of the first half are on their way to other
// blocks meanwhile. Not for the last steps of more: ptxas lets products wait for each other that
// share accumulators with wider ones.
#pragma once

#include "pipeline/state.cuh"
#include "ptx/wgmma.cuh"
#include "sm90_row_packed_wgrad/tile.cuh"

namespace convir::row_packed_wgrad {

template <class P, class C>
struct Halves {
  using L = Layout<P, C>;
  static constexpr int kFirst8 = (L::kStack8 + 1) / 2, kOthers8 = L::kStack8 - kFirst8;
  static constexpr int kMostProducts = 32;
  static constexpr int kSteps = C::kSplitSteps;  // of every split; 0 if they differ
  static constexpr int kProducts = kSteps * L::kSlabs;
  static constexpr bool kAreUsed = L::kIsClustered && C::kTapCols == 1 && C::kConsumerWarpgroups == 1 &&
                                   C::kIsBulk && !C::kHasRegisters && kOthers8 > 0 &&
                                   kSteps <= C::kStages && 1 < kProducts &&
                                   kProducts <= kMostProducts;

  // Multiplies all steps of a part, and sends its accumulators. Products wait in a short queue, so
  // accumulators are sent between them, a few at a time.
  template <class Block, class Accumulators>
  static __device__ __forceinline__ void multiply(const Block& block, Accumulators& accumulators, int split,
                                                  Consumer<C::kStages>& full, int thread) {
    const auto pushed = block.pushed();
    const auto sum = [&](int i) { return accumulators(i / 4)[i % 4]; };
    pushed.expect(split, thread);
    unsigned at[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      at[i] = block.stages + full.at.stage * L::kStageBytes;
      full.wait();
      hopper::wgmma_fence();
#pragma unroll
      for (int slab = 0; slab < L::kSlabs; ++slab) product<0, kFirst8>(accumulators, at[i], slab);
      full.at.advance();
    }
    hopper::wgmma_commit();
    product<kFirst8, kOthers8>(accumulators, at[0], 0);
    hopper::wgmma_commit();
    hopper::wgmma_wait<1>();
    hold<0, kFirst8>(accumulators);
    send_between<1>(pushed, accumulators, at, split, thread, sum);
    hopper::wgmma_commit();
    hopper::wgmma_wait<0>();
    hold<kFirst8, kOthers8>(accumulators);
    pushed.template send<4 * kFirst8, 4 * L::kStack8>(split, thread, sum);
  }

  // Products of the second half from `kFrom` on, each with its share of the first half's
  // accumulators.
  template <int kFrom, class Pushed, class Accumulators, class Sum>
  static __device__ __forceinline__ void send_between(const Pushed& pushed, Accumulators& accumulators,
                                                      const unsigned* at, int split, int thread,
                                                      Sum&& sum) {
    if constexpr (kFrom < kProducts) {
      product<kFirst8, kOthers8>(accumulators, at[kFrom / L::kSlabs], kFrom % L::kSlabs);
      constexpr int kOf = kProducts - 1;
      pushed.template send<(kFrom - 1) * kFirst8 / kOf * 4, kFrom * kFirst8 / kOf * 4>(split, thread, sum);
      send_between<kFrom + 1>(pushed, accumulators, at, split, thread, sum);
    }
  }

  // Adds a slab's products for columns 8 kBegin8 to 8 (kBegin8 + kCount8).
  template <int kBegin8, int kCount8, class Accumulators>
  static __device__ __forceinline__ void product(Accumulators& accumulators, unsigned stage, int slab) {
    const typename Accumulators::Operands of(stage, stage + L::kXBytes);
    hopper::Wgmma<typename P::E, 8 * kCount8, hopper::kMajorMN, hopper::kMajorMN>::run(
        accumulators.accumulators[0][kBegin8],
        hopper::moved(of.from_x, Accumulators::x_of(slab)),
        hopper::moved(of.from_y, Accumulators::y_of(slab) + kBegin8 * L::kPlaneBytes));
  }
  template <int kBegin8, int kCount8, class Accumulators>
  static __device__ __forceinline__ void hold(Accumulators& accumulators) {
#pragma unroll
    for (int i = kBegin8; i < kBegin8 + kCount8; ++i) hopper::hold(accumulators.accumulators[0][i]);
  }
};

}  // namespace convir::row_packed_wgrad
