// The uniform pipeline of `wgmma_wgrad.cuh`: all warps multiply, and between two multiplications
// a thread of each asks for one of the copies of a later step, into the stage that all have just given
// back.
#pragma once

#include "wgmma_wgrad.cuh"

namespace convir::wgrad {

// The steps of a block, of one part after the other, as a thread asks for one copy of each: those of
// rows are the first warps'.
template <class Problem, class Config>
class Asker {
  using Kernel = wgrad::Kernel<Problem, Config>;
  using Layout = typename Kernel::Layout;
  using Schedule = typename Kernel::Schedule;

 public:
  __device__ __forceinline__ Asker(const Kernel& kernel, const TensorMap& c, const TensorMap& a)
      : kernel_(kernel), c_(c), a_(a), unit_(kernel.first_unit()), walk_(unit_),
        first_(kernel.first_stage()) {
    const bool asks = threadIdx.x % 32 == 0 && box_ < kBoxes;
    is_left_ = asks && unit_ < Schedule::kUnits && begin_part();
  }

  // Asks for one more step, if there is one.
  __device__ __forceinline__ void operator()() {
    if (!is_left_) return;
    hopper::wait(kernel_.empty + ring_.slot * 8, ring_.parity ^ 1);
    const unsigned barrier = kernel_.full + ring_.slot * 8;
    if (box_ == 0) hopper::arrive_expecting(barrier, count_ * kBoxBytes);
    if (is_inside_) load(kernel_.stage_at(ring_.slot, first_) + box_ * kBoxBytes, barrier);
    ring_.advance();
    if (++step_ == work_.end) is_left_ = !kHasOnePart && begin_part();
  }

 private:
  static constexpr int kBoxes = Kernel::kBoxesM + Kernel::kBoxesN;
  static_assert(kBoxes <= Config::kConsumers * 4, "a warp asks for one copy");
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
    if (box_ < Kernel::kBoxesM) {
      is_inside_ = box_ < in_m;
      at_[0] = (m + box_) * kChunk;
      return true;
    }
    const int column = box_ - Kernel::kBoxesM, chunk = columns.chunk(column);
    is_inside_ = chunk < Layout::kChunksN;
    at_[0] = chunk % Layout::kTapChunks * kChunk + columns.channel(column);
    Layout::tap_offset(chunk / Layout::kTapChunks, offset_);
    return true;
  }

  __device__ __forceinline__ void load(unsigned to, unsigned barrier) {
    const int position = Kernel::position_of(work_, step_);
    if (box_ < Kernel::kBoxesM) {
      Kernel::load_rows(to, c_, barrier, at_[0], position);
    } else {
      Kernel::pixel_at(position, at_);
      Kernel::load_pixels(to, a_, barrier, at_, offset_);
    }
  }

  const Kernel& kernel_;
  const TensorMap &c_, &a_;
  int unit_, step_;
  typename Kernel::Walk walk_;
  Work work_;
  const int box_ = threadIdx.x / 32;
  int count_, at_[5], offset_[kMaxSpatial];
  bool is_inside_;
  hopper::Ring<Kernel::kStages> ring_;
  int first_;     // stage of the ring
  bool is_left_;  // something, to this thread
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
