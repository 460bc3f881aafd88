// The sums of a block of `grouped-wgrad` on their way to B: over its warps in shared memory, then over
// the blocks that have other positions of the same channels, through global memory.
#pragma once

#include "load/row_loads.cuh"
#include "schedule/partition.cuh"

namespace convir {

// The sums of a block's channels, kVectors of four, whose parts blocks have published: they meet, and
// each adds up its slice of the vectors, over the parts of a thread in ascending order, then over
// threads. S: the schedule.
template <typename S, int kVectors>
struct PublishedSums {
  using Threads = StepThreads<S>;
  static constexpr int kThreads = Threads::kComputing;
  static constexpr int kParts = S::parts;

  // Of the vectors that a block adds up, a thread has several, or several threads have one.
  static constexpr int kMostLoads = 36;  // of a thread at once: what registers hold
  static constexpr int kShare = divide_up(kVectors, kParts);
  static constexpr int smaller(int a, int b) { return a < b ? a : b; }
  static constexpr int kSplits = larger(1, smaller(kParts, kThreads / kShare));
  static constexpr int kPartsOfThread = divide_up(kParts, kSplits);
  static constexpr int kDeep = smaller(kPartsOfThread, kMostLoads);
  static constexpr int kWide = smaller(divide_up(kShare, kThreads), kMostLoads / kDeep);
  // What it needs of shared memory, where the rows were.
  static constexpr int kBytes = kThreads * 16;

  float4* shared;
  float4* workspace;  // kVectors of every unit
  unsigned* counter;  // of the block's channels: the first word of a line, which nobody else asks for

  // find(v) says where vector v goes, store(target, total) stores it there. `part` of the parts has the
  // slot at part * step vectors.
  template <typename Find, typename Store>
  __device__ __forceinline__ void operator()(int part, long long step, const Find& find,
                                             const Store& store) const {
    using Target = decltype(find(0));
    const int first = static_cast<int>(static_cast<long long>(kVectors) * part / kParts);
    const int last = static_cast<int>(static_cast<long long>(kVectors) * (part + 1) / kParts);
    const int split = kSplits == 1 ? 0 : threadIdx.x / kShare;
    int v = first + threadIdx.x - split * kShare;
    Target targets[kWide];
    const auto find_all = [&] {
#pragma unroll
      for (int w = 0; w < kWide; ++w) targets[w] = find(v + w * kThreads);
    };
    Threads::sync_computing();
    if (threadIdx.x == 0) Meeting::come(counter);
    // While the others are waited for.
    find_all();
    unsigned before = 0;
    if (threadIdx.x == 0) {
      Meeting::wait(counter, kParts);
      before = Meeting::count_leaving(counter);
    }
    Threads::sync_computing();
    float4 total[kWide];
    if constexpr (kSplits == 1) {
#pragma unroll 1
      while (true) {
        add_parts(total, v, last, 0, kParts, step);
#pragma unroll
        for (int w = 0; w < kWide; ++w) {
          if (v + w * kThreads < last) store(targets[w], total[w]);
        }
        v += kThreads * kWide;
        if (kShare <= kThreads * kWide || v >= last) break;
        find_all();
      }
    } else {
      if (split < kSplits) {
        add_parts(total, v, last, split * kParts / kSplits, (split + 1) * kParts / kSplits, step);
        shared[threadIdx.x] = total[0];
      }
      Threads::sync_computing();
      if (split == 0 && v < last) {
        for (int i = 1; i < kSplits; ++i) {
          partition::add_to(total[0], shared[i * kShare + threadIdx.x]);
        }
        store(targets[0], total[0]);
      }
    }
    // The answer came while sums were added.
    if (threadIdx.x == 0) Meeting::clear_if_last(counter, before, kParts);
  }

 private:
  using Meeting = partition::Meeting<kThreads, 1, kParts>;

  // The totals over parts `begin` to `end` of vectors v, v + kThreads, … before `last`.
  template <int kCount>
  __device__ __forceinline__ void add_parts(float4 (&total)[kCount], int v, int last, int begin,
                                            int end, long long step) const {
#pragma unroll
    for (int w = 0; w < kCount; ++w) total[w] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int from = begin; from < end; from += kDeep) {
      float4 x[kCount][kDeep];
#pragma unroll
      for (int w = 0; w < kCount; ++w) {
#pragma unroll
        for (int i = 0; i < kDeep; ++i) {
          const bool inside = from + i < end && v + w * kThreads < last;
          const float4* at = workspace + (from + i) * step + v + w * kThreads;
          x[w][i] = inside ? __ldcg(at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
      }
#pragma unroll
      for (int w = 0; w < kCount; ++w) {
#pragma unroll
        for (int i = 0; i < kDeep; ++i) partition::add_to(total[w], x[w][i]);
      }
    }
  }
};

// Sums that several warps have parts of. kJobs: parts of the sums that different warps have, kSums:
// sums of a lane, in fours. Vector v of a block has sums 4 (v / (32 kJobs)) … of lane v % 32 of job
// v / 32 % kJobs.
template <typename S, int kJobs, int kSums>
struct GroupedWgradSums {
  using Threads = StepThreads<S>;
  static constexpr int kSharing = Threads::kComputing / 32 / kJobs;  // warps of a job
  static constexpr int kFours = kSums / 4;
  static constexpr int kVectors = kJobs * 32 * kFours;
  using Published = PublishedSums<S, kVectors>;
  static constexpr int kFoldBytes = kSharing > 1 ? kVectors * 16 : 0;
  static constexpr int kBytes = larger(kFoldBytes, Published::kBytes);

  float4* shared;
  float4* workspace;
  unsigned* counter;
  int job, sharing;  // of the warp: its job, and which of the warps that share it it is

  // Which of the warps that share a job adds its i-th four sums up.
  static constexpr int owner(int i) { return i * kSharing / kFours; }

  // As `PublishedSums`.
  template <typename Find, typename Store>
  __device__ __forceinline__ void operator()(float* sums, int part, long long step,
                                             const Find& find, const Store& store) const {
    // Which sums a warp gives away, keeps and publishes are constants.
    static_for<kSharing>([&](auto own) {
      if (sharing == own.value) {
        fold<own.value>(sums);
        publish<own.value>(sums, workspace + part * step);
      }
    });
    Published{shared, workspace, counter}(part, step, find, store);
  }

 private:
  // Where a lane has its first four of the block's; the others follow kStride vectors apart.
  static constexpr int kStride = kJobs * 32;
  __device__ __forceinline__ int first() const { return job * 32 + threadIdx.x % 32; }
  // body(i) for the fours that a warp of its job owns.
  template <int kOwning, typename Body>
  static __device__ __forceinline__ void for_each_four(const Body& body) {
    static_for<kFours>([&](auto i) {
      if constexpr (owner(i.value) == kOwning) body(i.value);
    });
  }

  // Every warp gives each of the others of its job what that one owns, in rounds.
  template <int kOwn>
  __device__ __forceinline__ void fold(float* sums) const {
    float4* const held = shared + first();
    static_for<kSharing - 1>([&](auto round) {
      Threads::sync_computing();
      for_each_four<(kOwn + round.value + 1) % kSharing>([&](int i) {
        const float* four = sums + i * 4;
        held[i * kStride] = make_float4(four[0], four[1], four[2], four[3]);
      });
      Threads::sync_computing();
      for_each_four<kOwn>([&](int i) {
        const float4 x = held[i * kStride];
        float* four = sums + i * 4;
        four[0] += x.x;
        four[1] += x.y;
        four[2] += x.z;
        four[3] += x.w;
      });
    });
  }
  template <int kOwn>
  __device__ __forceinline__ void publish(const float* sums, float4* slot) const {
    float4* const own = slot + first();
    for_each_four<kOwn>([&](int i) {
      const float* four = sums + i * 4;
      __stcg(own + i * kStride, make_float4(four[0], four[1], four[2], four[3]));
    });
  }
};

}  // namespace convir
