// Puts the splits of a tile together where the blocks of one cluster have them: each block owns a
// share of the tile, and the others write their accumulators of it into its shared memory, which
// counts bytes. So nobody asks, and nobody waits for more than what it adds: a barrier of the
// cluster would wait until all memory has seen what a thread wrote, which takes longer.
//
// A vector is four accumulators of a thread, 4 i to 4 i + 3. `Owners` says which block owns vector
// i of a thread, and which of its slots that is; split p of a tile is block p of the cluster.
#pragma once

#include "arith/sizes.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/st_async.cuh"
#include "schedule/partition.cuh"

namespace convir::partition {

// A block owns some adjacent vectors of every thread: what a thread adds, it has itself, or the
// same thread of another block has written.
template <int kThreads_, int kAccumulators, int kSplits_>
struct OwnedByVector {
  static constexpr int kThreads = kThreads_, kVectors = kAccumulators / 4, kSplits = kSplits_;
  static constexpr bool kKeepsOwn = true;
  static constexpr int kMost = divide_up(kVectors, kSplits);
  static constexpr int kSlots = kMost * kThreads;

  static __device__ __forceinline__ constexpr int begin_of(int split) {
    return kVectors * split / kSplits;
  }
  static __device__ __forceinline__ constexpr int count_of(int split) {
    return begin_of(split + 1) - begin_of(split);
  }
  static __device__ __forceinline__ constexpr int slots_of(int split) {
    return count_of(split) * kThreads;
  }
  static __device__ __forceinline__ constexpr int owner_of(int i, int) {
    return (kSplits * (i + 1) - 1) / kVectors;
  }
  static __device__ __forceinline__ int slot_of(int i, int thread) {
    return (i - begin_of(owner_of(i, thread))) * kThreads + thread;
  }
};

// A block owns every kSplits-th chunk of vectors, numbered as in `ReduceScatter`: what blocks send
// at the same time goes to all of them, not to one after the other, and any thread adds it.
template <int kThreads_, int kAccumulators, int kSplits_>
struct OwnedByChunk {
  static constexpr int kThreads = kThreads_, kVectors = kAccumulators / 4, kSplits = kSplits_;
  static constexpr bool kKeepsOwn = false;
  static constexpr int kChunk = 16;  // vectors
  static constexpr int kChunks = kThreads * kVectors / kChunk;
  static constexpr int kSlots = divide_up(kChunks, kSplits) * kChunk;

  static __device__ __forceinline__ int slots_of(int split) {
    return (kChunks - split + kSplits - 1) / kSplits * kChunk;
  }
  static __device__ __forceinline__ int owner_of(int i, int thread) {
    return (i * kThreads + thread) / kChunk % kSplits;
  }
  static __device__ __forceinline__ int slot_of(int i, int thread) {
    const int v = i * kThreads + thread;
    return v / kChunk / kSplits * kChunk + v % kChunk;
  }
  // The vector of the tile that a block has in a slot.
  static __device__ __forceinline__ int vector_at(int slot, int split) {
    return (slot / kChunk * kSplits + split) * kChunk + slot % kChunk;
  }
};

template <class Owners>
struct ClusterReduction {
  static constexpr int kSplits = Owners::kSplits, kSlots = Owners::kSlots;
  static constexpr int kBytes = kSplits * kSlots * 16;

  const float4* memory;  // kBytes of shared memory that nothing else uses when splits are written
  unsigned address;      // of the same
  unsigned barrier;      // of one arrival, and for nothing else

  // One thread, before others write.
  static __device__ __forceinline__ void expect(unsigned barrier, int split) {
    arrive_expecting(barrier, (kSplits - Owners::kKeepsOwn) * 16 * Owners::slots_of(split));
  }

  // The same where all threads of all blocks have arrived once, relaxed, as blocks begin; those
  // that send nothing wait for the cluster alone.
  __device__ __forceinline__ void begin(int split, int thread) const {
    hopper::cluster_wait();
    if (thread == 0) expect(barrier, split);
  }

  // Vectors kBegin to kEnd of a thread, 0 to kThreads - 1.
  template <int kBegin, int kEnd, class Accumulators>
  __device__ __forceinline__ void send(int split, int thread, Accumulators&& sum) const {
    const unsigned own = address + split * kSlots * 16;
#pragma unroll
    for (int i = kBegin; i < kEnd; ++i) {
      const int owner = Owners::owner_of(i, thread);
      const unsigned to = own + Owners::slot_of(i, thread) * 16;
      const float4 x = make_float4(sum(4 * i), sum(4 * i + 1), sum(4 * i + 2), sum(4 * i + 3));
      if constexpr (Owners::kKeepsOwn) {
        hopper::store_async(to, barrier, owner, split, x);
      } else {
        hopper::send_to(to, owner, x, barrier);
      }
    }
  }
  template <class Accumulators>
  __device__ __forceinline__ void send(int split, int thread, Accumulators&& sum) const {
    send<0, Owners::kVectors>(split, thread, sum);
  }

  // Adds the block's share when all have sent theirs, by kAll threads; store(v, accumulators)
  // stores vector v of the tile.
  template <int kAll, class Store>
  __device__ __forceinline__ void add(int split, int thread, Store&& store) const {
    hopper::wait_for_stores(barrier);
    add_splits<kAll, kSplits>(
        kSplits, 0, Owners::slots_of(split), thread,
        [&](int from, int slot) { return memory[from * kSlots + slot]; },
        [&](int slot, const float4& total) { store(Owners::vector_at(slot, split), total); });
  }

  // The same by the threads that have the accumulators: store(i, accumulators) stores a thread's
  // vector i.
  template <class Store>
  __device__ __forceinline__ void add_own(int split, int thread, Store&& store) const {
    hopper::wait_for_stores(barrier);
    const int first = Owners::begin_of(split), count = Owners::count_of(split);
    // All accumulators before the first store: their latencies pass together.
    float4 total[Owners::kMost];
#pragma unroll
    for (int i = 0; i < Owners::kMost; ++i) {
      const float4* at = memory + (i < count ? i : 0) * Owners::kThreads + thread;
      total[i] = at[0];
#pragma unroll
      for (int p = 1; p < kSplits; ++p) add_to(total[i], at[p * kSlots]);
    }
#pragma unroll
    for (int i = 0; i < Owners::kMost; ++i) {
      if (i < count) store(first + i, total[i]);
    }
  }
};

}  // namespace convir::partition
