// The accumulators of a block of `grouped_wgrad` on their way to B: over its warps in shared
// memory, then over the blocks that have other output pixels of the same channels, through global
// memory.
#pragma once

#include "load/row_loads.cuh"
#include "schedule/partition.cuh"

namespace convir {

// The accumulators of a block's channels, kVectors of four, whose splits blocks have published:
// they meet, and each adds up its share of the vectors, over the splits of a thread in ascending
// order, then over threads. S: the schedule.
template <typename S, int kVectors>
struct PublishedAccumulators {
  using Threads = StepThreads<S>;
  static constexpr int kThreads = Threads::kComputing;
  static constexpr int kSplits = S::splits;

  // Of the vectors that a block adds up, a thread has several, or several threads have one.
  static constexpr int kMostLoads = 36;  // of a thread at once: what registers hold
  static constexpr int kShare = divide_up(kVectors, kSplits);
  static constexpr int kThreadsOfVector = larger(1, smaller(kSplits, kThreads / kShare));
  static constexpr int kSplitsOfThread = divide_up(kSplits, kThreadsOfVector);
  static constexpr int kDeep = smaller(kSplitsOfThread, kMostLoads);
  static constexpr int kWide = smaller(divide_up(kShare, kThreads), kMostLoads / kDeep);
  // What it needs of shared memory, where the rows were.
  static constexpr int kBytes = kThreads * 16;

  float4* shared;
  float4* workspace;  // kVectors of every unit
  unsigned* counter;  // of the block's channels: the first word of a line, which nobody else asks for

  // find(v) says where vector v goes, store(target, total) stores it there. `split` of the splits
  // has the slot at part * step vectors.
  template <typename Find, typename Store>
  __device__ __forceinline__ void operator()(int split, long long step, const Find& find,
                                             const Store& store) const {
    using Target = decltype(find(0));
    const int first = static_cast<int>(static_cast<long long>(kVectors) * split / kSplits);
    const int last = static_cast<int>(static_cast<long long>(kVectors) * (split + 1) / kSplits);
    const int thread_of_vector = kThreadsOfVector == 1 ? 0 : threadIdx.x / kShare;
    int v = first + threadIdx.x - thread_of_vector * kShare;
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
      Meeting::wait(counter, kSplits);
      before = Meeting::count_leaving(counter);
    }
    Threads::sync_computing();
    float4 total[kWide];
    if constexpr (kThreadsOfVector == 1) {
#pragma unroll 1
      while (true) {
        add_splits(total, v, last, 0, kSplits, step);
#pragma unroll
        for (int w = 0; w < kWide; ++w) {
          if (v + w * kThreads < last) store(targets[w], total[w]);
        }
        v += kThreads * kWide;
        if (kShare <= kThreads * kWide || v >= last) break;
        find_all();
      }
    } else {
      if (thread_of_vector < kThreadsOfVector) {
        add_splits(total, v, last, thread_of_vector * kSplits / kThreadsOfVector, (thread_of_vector + 1) * kSplits / kThreadsOfVector, step);
        shared[threadIdx.x] = total[0];
      }
      Threads::sync_computing();
      if (thread_of_vector == 0 && v < last) {
        for (int i = 1; i < kThreadsOfVector; ++i) {
          partition::add_to(total[0], shared[i * kShare + threadIdx.x]);
        }
        store(targets[0], total[0]);
      }
    }
    // The answer came while accumulators were added.
    if (threadIdx.x == 0) Meeting::clear_if_last(counter, before, kSplits);
  }

 private:
  using Meeting = partition::Meeting<kThreads, 1, kSplits>;

  // The totals over splits `begin` to `end` of vectors v, v + kThreads, … before `last`.
  template <int kCount>
  __device__ __forceinline__ void add_splits(float4 (&total)[kCount], int v, int last, int begin,
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

// Accumulators that several warps have splits of. kJobs: splits of the accumulators that different
// warps have, kAccumulators: accumulators of a lane, in fours. Vector v of a block has accumulators
// 4 (v / (32 kJobs)) … of lane v % 32 of job v / 32 % kJobs.
template <typename S, int kJobs, int kAccumulators>
struct GroupedWgradReduction {
  using Threads = StepThreads<S>;
  static constexpr int kSharing = Threads::kComputing / 32 / kJobs;  // warps of a job
  static constexpr int kFours = kAccumulators / 4;
  static constexpr int kVectors = kJobs * 32 * kFours;
  using Published = PublishedAccumulators<S, kVectors>;
  static constexpr int kFoldBytes = kSharing > 1 ? kVectors * 16 : 0;
  static constexpr int kBytes = larger(kFoldBytes, Published::kBytes);

  float4* shared;
  float4* workspace;
  unsigned* counter;
  int job, sharing;  // of the warp: its job, and which of the warps that share it it is

  // Which of the warps that share a job adds its i-th four sums up.
  static constexpr int owner(int i) { return i * kSharing / kFours; }

  // As `PublishedAccumulators`.
  template <typename Find, typename Store>
  __device__ __forceinline__ void operator()(float* accumulators, int split, long long step,
                                             const Find& find, const Store& store) const {
    // Which accumulators a warp gives away, keeps and publishes are constants.
    static_for<kSharing>([&](auto own) {
      if (sharing == own.value) {
        fold<own.value>(accumulators);
        publish<own.value>(accumulators, workspace + split * step);
      }
    });
    Published{shared, workspace, counter}(split, step, find, store);
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
  __device__ __forceinline__ void fold(float* accumulators) const {
    float4* const held = shared + first();
    static_for<kSharing - 1>([&](auto round) {
      Threads::sync_computing();
      for_each_four<(kOwn + round.value + 1) % kSharing>([&](int i) {
        const float* four = accumulators + i * 4;
        held[i * kStride] = make_float4(four[0], four[1], four[2], four[3]);
      });
      Threads::sync_computing();
      for_each_four<kOwn>([&](int i) {
        const float4 x = held[i * kStride];
        float* four = accumulators + i * 4;
        four[0] += x.x;
        four[1] += x.y;
        four[2] += x.z;
        four[3] += x.w;
      });
    });
  }
  template <int kOwn>
  __device__ __forceinline__ void publish(const float* accumulators, float4* slot) const {
    float4* const own = slot + first();
    for_each_four<kOwn>([&](int i) {
      const float* four = accumulators + i * 4;
      __stcg(own + i * kStride, make_float4(four[0], four[1], four[2], four[3]));
    });
  }
};

}  // namespace convir
