// The uniform pipeline of `wgmma_wgrad.cuh`: all warps multiply, and between two multiplications those
// of one warpgroup ask for the copies of a later step, into the stage that all have just given back.
#pragma once

#include "wgmma_wgrad.cuh"

namespace convir::wgrad {

// The steps of a block, of one part after the other, as its warps ask for them. Warpgroups take turns:
// one multiplies while the other asks. Each warp of a warpgroup has some of the chunks.
template <class Problem, class Config>
class Asker {
  using Kernel = wgrad::Kernel<Problem, Config>;
  using Layout = typename Kernel::Layout;
  using Schedule = typename Kernel::Schedule;

 public:
  __device__ __forceinline__ Asker(const Kernel& kernel, const TensorMap& c, const TensorMap& a)
      : kernel_(kernel), c_(c), a_(a), unit_(kernel.first_unit()), walk_(unit_),
        first_(kernel.first_stage()) {
    is_left_ = unit_ < Schedule::kUnits && begin_part();
  }

  // One more step, if there is one.
  __device__ __forceinline__ void operator()() {
    if (!is_left_) return;
    if (turn_ == 0 && warp_ < kBoxes) ask();
    turn_ = turn_ == 0 ? Config::kConsumers - 1 : turn_ - 1;
    ring_.advance();
    if (++step_ == work_.end) is_left_ = !kHasOnePart && begin_part();
  }

 private:
  static constexpr int kWarps = 4;  // of a warpgroup
  static constexpr int kBoxes = Kernel::kBoxesM + Kernel::kBoxesN;
  static constexpr int kEach = (kBoxes + kWarps - 1) / kWarps;
  static_assert(!Kernel::kTakesTurns || Kernel::kLag < Kernel::kStages,
                "a warpgroup asks for all that the other one needs before it waits for its turn");
  static constexpr bool kHasOnePart = Config::kKind == partition::Kind::kSplitK ||
                                      (Kernel::kIsWhole && Schedule::kUnits <= Config::kBlocks);

  // Whether there is another part.
  __device__ __forceinline__ bool begin_part() {
    while (!Kernel::next(walk_, work_)) {
      unit_ += kernel_.unit_step();
      if (unit_ >= Schedule::kUnits) return false;
      walk_ = typename Kernel::Walk(unit_);
    }
    step_ = work_.begin;
    const int m = Layout::chunk_m(work_.tile);
    const typename Layout::Columns columns(work_.tile);
    const int in_m = min(Kernel::kBoxesM, Layout::kChunksM - m);
    count_ = in_m;
#pragma unroll
    for (int i = 0; i < Kernel::kBoxesN; ++i) count_ += columns.chunk(i) < Layout::kChunksN;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int box = i * kWarps + warp_, column = box - Kernel::kBoxesM;
      const int chunk = columns.chunk(column);
      const bool is_m = box < Kernel::kBoxesM;
      is_inside_[i] = is_m ? box < in_m : box < kBoxes && chunk < Layout::kChunksN;
      channel_[i] = is_m ? (m + box) * kChunk
                         : chunk % Layout::kTapChunks * kChunk + columns.channel(column);
      Layout::tap_offset(chunk / Layout::kTapChunks, offset_[i]);
    }
    return true;
  }

  __device__ __forceinline__ void ask() const {
    const unsigned barrier = kernel_.full + ring_.slot * 8;
    const unsigned to = kernel_.stage_at(ring_.slot, first_) + warp_ * kBoxBytes;
    const int position = Kernel::position_of(work_, step_);
    int at[5];
    Kernel::pixel_at(position, at);
    const bool is_elected = hopper::is_elected();
    hopper::wait(kernel_.empty + ring_.slot * 8, ring_.parity ^ 1);
    if (!is_elected) return;
    if (warp_ == 0) hopper::arrive_expecting(barrier, count_ * kBoxBytes);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (!is_inside_[i]) continue;
      const unsigned box = to + i * kWarps * kBoxBytes;
      at[0] = channel_[i];
      if (i * kWarps + warp_ < Kernel::kBoxesM) {
        Kernel::load_rows(box, c_, barrier, at[0], position);
      } else {
        Kernel::load_pixels(box, a_, barrier, at, offset_[i]);
      }
    }
  }

  const Kernel& kernel_;
  const TensorMap &c_, &a_;
  int unit_, step_;
  typename Kernel::Walk walk_;
  Work work_;
  // By a shuffle the compiler knows that all lanes have the same, and asks with few instructions.
  const int warp_ = __shfl_sync(~0u, threadIdx.x / 32 % kWarps, 0);
  int turn_ = __shfl_sync(~0u, threadIdx.x / kWarpgroup, 0);  // steps until the warpgroup asks
  int count_, channel_[kEach], offset_[kEach][kMaxSpatial];
  bool is_inside_[kEach];
  hopper::Ring<Kernel::kStages> ring_;
  int first_;     // stage of the ring
  bool is_left_;  // something
};

// The body of a kernel.
template <class Problem, class Config>
__device__ __forceinline__ void run_uniform(typename Problem::Epilogue::Stored* out,
                                            float* workspace, unsigned* flags, const TensorMap& c,
                                            const TensorMap& a) {
  using Kernel = wgrad::Kernel<Problem, Config>;
  static_assert(Kernel::kSharedBytes == Problem::kSharedBytes);
  extern __shared__ char memory[];
  const Kernel kernel(memory);
  if (threadIdx.x == 0) {
    hopper::prefetch_map(&c);
    hopper::prefetch_map(&a);
    kernel.init_barriers();
  }
  __syncwarp();
  if constexpr (Config::kIsPushed && Kernel::kDrained == 0) hopper::cluster_arrive_relaxed();
  hopper::named_sync(kReady, Config::kThreads);
  Asker<Problem, Config> ask(kernel, c, a);
  for (int i = 0; i < Kernel::kStages; ++i) ask();
  kernel.consume(out, workspace, flags, ask);
}

}  // namespace convir::wgrad
