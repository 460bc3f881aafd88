// Which threads share rows, and where what they have found of a row meets: along rows in registers of
// a warp and in shared memory, across rows in shared memory, in a cluster in that of all its blocks.
#pragma once

#include "arith/sizes.cuh"
#include "ptx/cluster.cuh"
#include "reduce/row_totals.cuh"

namespace convir {

// Joins totals in pairs of pairs, into the first one: each merge waits for few others.
template <class Totals, int kCount>
__device__ __forceinline__ void join_pairs(Totals (&totals)[kCount]) {
#pragma unroll
  for (int step = 1; step < kCount; step *= 2) {
#pragma unroll
    for (int i = 0; i + step < kCount; i += 2 * step) totals[i].merge(totals[i + step]);
  }
}

// kX threads share a row of kY. The totals of a block's threads meet in registers of a warp, and
// those of warps in shared memory, in the same order every time.
template <class P, int kX, int kY>
struct AlongRows {
  static constexpr int kStep = kX;
  static constexpr int kWarps = divide_up(kX * kY, 32);
  static constexpr int kScratch = kX > 32 ? 2 * kWarps : 1;
  static constexpr bool kIsFull = kY == 1;

  unsigned unit, image, column;
  bool is_inside;
  int first;

  __device__ __forceinline__ AlongRows(unsigned block, unsigned images) {
    unit = block;
    image = block * kY + threadIdx.x / kX;
    column = 0;
    is_inside = kIsFull || image < images;
    if (!is_inside) image = images - 1;
    first = threadIdx.x % kX;
  }
  // The thread that keeps what is one for a row.
  __device__ __forceinline__ bool is_keeper() const { return is_inside && first == 0; }
  __device__ __forceinline__ int slot() const { return threadIdx.x / kX; }
  static constexpr int kSlots = kY;

  template <int kPass, bool kNeighbours, class Totals>
  __device__ __forceinline__ void meet(Totals (&totals)[P::kParts],
                                       typename P::Largest* scratch) const {
    Totals& total = totals[0];
    const int lane = threadIdx.x % 32;
    constexpr int kTogether = kX < 32 ? kX : 32;
#pragma unroll
    for (int apart = kTogether / 2; apart > 0; apart /= 2) {
      total.merge(of_lane(total, lane ^ apart));
    }
    if constexpr (kX > 32) {
      constexpr int kShared = kX / 32;
      Totals* const slots = reinterpret_cast<Totals*>(scratch + kPass % 2 * kWarps);
      const int warp = threadIdx.x / 32;
      if (lane == 0) slots[warp] = total;
      __syncthreads();
      total.start();
      if (lane < kShared) total = slots[warp / kShared * kShared + lane];
#pragma unroll
      for (int apart = kShared / 2; apart > 0; apart /= 2) {
        total.merge(of_lane(total, lane ^ apart));
      }
      total = of_lane(total, 0);
    }
  }
};

// kX neighbouring columns, kY threads for each. Totals meet in shared memory, where threads join some
// of a column's until one is left.
template <class P, int kX, int kY>
struct AcrossRows {
  static constexpr int kStep = kY;
  static constexpr int kTiles = (P::kColumns + kX - 1) / kX;
  static constexpr bool kIsFull = P::kColumns % kX == 0;
  static constexpr int kThreads = kX * kY, kLines = kX * P::kParts;
  static constexpr int kScratch = kThreads * P::kParts;
  static constexpr int kMostTogether = 8;  // totals that a thread joins

  unsigned unit, image, column;
  bool is_inside;
  int first;

  __device__ __forceinline__ AcrossRows(unsigned block, unsigned images) {
    unit = block;
    image = block / kTiles;
    column = block % kTiles * kX + threadIdx.x % kX;
    is_inside = kIsFull || column < P::kColumns;
    if (!is_inside) column = P::kColumns - 1;
    first = threadIdx.x / kX;
  }
  __device__ __forceinline__ bool is_keeper() const { return is_inside && first == 0; }
  __device__ __forceinline__ int slot() const { return threadIdx.x % kX; }
  static constexpr int kSlots = kX;

  template <int kPass, bool kNeighbours, class Totals>
  __device__ __forceinline__ void meet(Totals (&totals)[P::kParts],
                                       typename P::Largest* scratch) const {
    Totals* const slots = reinterpret_cast<Totals*>(scratch);
    const int thread = threadIdx.x, x = thread % kX;
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) slots[part * kThreads + thread] = totals[part];
    __syncthreads();
    join_lines<kY>(slots);
    // Neighbouring parts of one row.
    constexpr int kEach = P::kWidth / P::kParts;
    constexpr int kShared = kNeighbours && P::kRun > kEach ? P::kRun / kEach : 1;
    const auto place = [](int part) { return part % P::kParts * kThreads + part / P::kParts; };
    if constexpr (kShared > 1) {
#pragma unroll 1
      for (int row = thread; row < kLines / kShared; row += kThreads) {
        Totals total = slots[place(row * kShared)];
#pragma unroll 4
        for (int k = 1; k < kShared; ++k) total.merge(slots[place(row * kShared + k)]);
        slots[place(row * kShared)] = total;
      }
      __syncthreads();
    }
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
      totals[part] = slots[place((x * P::kParts + part) / kShared * kShared)];
    }
    __syncthreads();
  }

 private:
  // Joins kCount totals of each line, a part of a column: those of threads that lie evenly apart,
  // into the first thread's. Lines in the order of parts, then of columns: neighbours read neighbours.
  template <int kCount, class Totals>
  static __device__ __forceinline__ void join_lines(Totals* slots) {
    if constexpr (kCount > 1) {
      constexpr int kTogether = kCount < kMostTogether ? kCount : kMostTogether;
      constexpr int kLeft = kCount / kTogether, kApart = kY / kCount * kX;
      static_assert(kLeft * kTogether == kCount);
#pragma unroll 1
      for (int i = threadIdx.x; i < kLines * kLeft; i += kThreads) {
        const int line = i % kLines, first = i / kLines * kTogether;
        Totals* const from = slots + line / kX * kThreads + line % kX + first * kApart;
        Totals found[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; ++k) found[k] = from[k * kApart];
        join_pairs(found);
        from[0] = found[0];
      }
      __syncthreads();
      join_lines<kLeft>(slots);
    }
  }
};

// Rows that the blocks of a cluster share: each has joined what its threads have found, and joins what
// the others have. In the order of their ranks, so that all of them know the same.
template <class P, class Threads, int kThreads, int kCluster>
struct ClusterMeeting {
  static constexpr int kLines = Threads::kSlots * P::kParts;
  static constexpr int kScratch = kCluster > 1 ? 3 * kLines : 0;

  // A block reads what others have left by one pass while they leave that of the next one.
  template <int kPass, class Totals>
  static __device__ __forceinline__ void meet(const Threads& threads, Totals (&totals)[P::kParts],
                                              typename P::Largest* scratch) {
    Totals* const own = reinterpret_cast<Totals*>(scratch + kPass % 2 * kLines);
    Totals* const joined = reinterpret_cast<Totals*>(scratch + 2 * kLines);
    if (threads.first == 0) {
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) {
        own[part * Threads::kSlots + threads.slot()] = totals[part];
      }
    }
    hopper::cluster_sync();
#pragma unroll 1
    for (int line = threadIdx.x; line < kLines; line += kThreads) {
      Totals found[kCluster];
#pragma unroll
      for (int rank = 0; rank < kCluster; ++rank) found[rank] = hopper::of_block(own + line, rank);
      join_pairs(found);
      joined[line] = found[0];
    }
    __syncthreads();
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
      totals[part] = joined[part * Threads::kSlots + threads.slot()];
    }
  }
};

}  // namespace convir
