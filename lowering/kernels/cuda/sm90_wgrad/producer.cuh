// How warps of `sm90_wgrad/mainloop.cuh` ask for copies: kWarps of them, each for some of a step's
// chunks. If kTurns warpgroups do, they take turns.
#pragma once

#include "sm90_wgrad/mainloop.cuh"

namespace convir::wgrad {

// The steps of a block, of one part after the other, as its warps ask for them.
template <class Problem, class Config, int kWarps, int kTurns>
class Producer {
  using Kernel = wgrad::Kernel<Problem, Config>;
  using Layout = typename Kernel::Layout;
  using Schedule = typename Kernel::Schedule;

 public:
  __device__ __forceinline__ Producer(const Kernel& kernel, const TensorMap& c, const TensorMap& a)
      : kernel_(kernel), c_(c), a_(a), at_stage_(kernel.pipeline), first_(kernel.first_stage()) {
    is_left_ = unit_ < Schedule::kUnits && begin_split();
  }

  __device__ __forceinline__ bool is_left() const { return is_left_; }

  // One more step, if there is one.
  __device__ __forceinline__ void operator()() {
    if (!is_left_) return;
    if (turn_ == 0 && warp_ < kBoxes) ask();
    turn_ = turn_ == 0 ? kTurns - 1 : turn_ - 1;
    at_stage_.at.advance();
    if (++step_ == work_.end) {
      is_left_ = !kHasOneSplit && begin_split();
    } else if constexpr (kFindsAhead) {
      find();
    }
  }

 private:
  static constexpr int kBoxes = Kernel::kBoxesM + Kernel::kBoxesN;
  static constexpr int kEach = (kBoxes + kWarps - 1) / kWarps;
  static constexpr bool kFindsAhead = Config::kProducerWarps > 0;
  static constexpr bool kHasOneSplit = Config::kKind == partition::Kind::kSplitK ||
                                      (Kernel::kIsWhole && Schedule::kUnits <= Config::kBlocks);

  // Whether there is another part.
  __device__ __forceinline__ bool begin_split() {
    while (!Kernel::next(walk_, work_)) {
      unit_ += kernel_.unit_step();
      if (unit_ >= Schedule::kUnits) return false;
      walk_ = kernel_.walk_of(unit_);
    }
    step_ = work_.begin;
    const int m = Layout::chunk_m(work_.tile), group = Layout::group_of(work_.tile);
    const typename Layout::Columns out_channels(work_.tile);
    const int in_m = min(Kernel::kBoxesM, Layout::kChunksM - m);
    count_ = in_m;
#pragma unroll
    for (int i = 0; i < Kernel::kBoxesN; ++i) count_ += out_channels.chunk(i) < Layout::kChunksN;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int box = i * kWarps + warp_, column = box - Kernel::kBoxesM;
      const int chunk = out_channels.chunk(column);
      const bool is_m = box < Kernel::kBoxesM;
      is_inside_[i] = is_m ? box < in_m : box < kBoxes && chunk < Layout::kChunksN;
      channel_[i] = is_m ? group * Problem::kOutChannels + (m + box) * kChunk
                         : group * Problem::kInChannels + chunk % Layout::kTapChunks * kChunk +
                               out_channels.channel(column);
      Layout::tap_offset(chunk / Layout::kTapChunks, offset_[i]);
    }
    if constexpr (kFindsAhead) find();
    return true;
  }

  // Where a step's output pixels are. Warps that only load find it while those before are on their
  // way; others have products to begin then.
  __device__ __forceinline__ void find() {
    const int step = Kernel::step_of_tile(work_, step_);
    if constexpr (Problem::kPlanesC) {
      planes_.move_to(step);
      if constexpr (!Problem::kPlanesA) Kernel::pixel_at(planes_.position(), at_);
    } else {
      position_ = step * Kernel::kBlockK;
      Kernel::pixel_at(position_, at_);
    }
  }

  __device__ __forceinline__ void ask() {
    if constexpr (!kFindsAhead) find();
    const unsigned barrier = at_stage_.full();
    const unsigned to = kernel_.stage_at(at_stage_.at.stage, first_) + warp_ * kBoxBytes;
    const bool is_elected = hopper::is_elected();
    at_stage_.wait();
    if (!is_elected) return;
    if (warp_ == 0) arrive_expecting(barrier, count_ * kBoxBytes);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (!is_inside_[i]) continue;
      const unsigned box = to + i * kWarps * kBoxBytes;
      at_[0] = channel_[i];
      if (i * kWarps + warp_ < Kernel::kBoxesM) {
        if constexpr (Problem::kPlanesC) {
          planes_.load_c(box, c_, barrier, at_[0]);
        } else {
          Kernel::load_rows(box, c_, barrier, at_[0], position_);
        }
      } else if constexpr (Problem::kPlanesA) {
        planes_.load_a(box, a_, barrier, at_[0], offset_[i]);
      } else {
        Kernel::load_pixels(box, a_, barrier, at_, offset_[i]);
      }
    }
  }

  const Kernel& kernel_;
  const TensorMap &c_, &a_;
  int unit_ = Kernel::first_unit(), step_, position_, at_[5];
  typename Kernel::Planes planes_;
  typename Kernel::Walk walk_ = kernel_.walk_of(unit_);
  Work work_;
  // By a shuffle the compiler knows that all lanes have the same, and asks with few instructions.
  const int warp_ = kWarps == 1 ? 0 : __shfl_sync(~0u, threadIdx.x / 32 % kWarps, 0);
  // Steps until the warpgroup asks.
  int turn_ = kTurns == 1 ? 0 : __shfl_sync(~0u, threadIdx.x / kWarpgroupThreads, 0);
  int count_, channel_[kEach], offset_[kEach][kMaxSpatial];
  bool is_inside_[kEach];
  convir::Producer<Kernel::kStages> at_stage_;
  int first_;     // stage of the ring
  bool is_left_;  // something
};

}  // namespace convir::wgrad
