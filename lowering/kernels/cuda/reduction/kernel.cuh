// Passes over rows. A program says what a pass computes of each element and of each row; a kernel,
// which threads go over which elements, and where a row's totals meet.
//
//   struct Program   what it reads and writes: Pointers; Base, addresses of a row or a column;
//                    Row, what is known of a row; Held, what several passes read of a vector
//   Pass<Program, k> operands of its reductions, their Totals, what it stores; what is known behind
//
// Along rows, a vector is of one row, and position i of a row is its vector i. Across, a thread has
// one column of vectors, whose lanes are of neighbouring rows, and position i is element i of it.
#pragma once

#include "arith/scalars.cuh"
#include "arith/sizes.cuh"
#include "load/vectors.cuh"
#include "ptx/cluster.cuh"
#include "reduce/row_totals.cuh"
#include "reduction/meetings.cuh"

namespace convir {

template <class P, int kPass>
struct Pass;

// Elements of any count, in accesses of 16 bytes where they are more.
template <int kWidth, typename T>
__device__ __forceinline__ Vector<T, kWidth> load_lanes(const T* from) {
  constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  if constexpr (kBytes <= 16) {
    return load<kWidth>(from);
  } else {
    constexpr int kPiece = 16 / sizeof(T);
    Vector<T, kWidth> found;
#pragma unroll
    for (int i = 0; i < kWidth / kPiece; ++i) {
      const Vector<T, kPiece> piece = load<kPiece>(from + i * kPiece);
#pragma unroll
      for (int j = 0; j < kPiece; ++j) found[i * kPiece + j] = piece[j];
    }
    return found;
  }
}
template <int kWidth, typename T>
__device__ __forceinline__ void store_lanes(T* to, const Vector<T, kWidth>& lanes) {
  constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  if constexpr (kBytes <= 16) {
    store(to, lanes);
  } else {
    constexpr int kPiece = 16 / sizeof(T);
#pragma unroll
    for (int i = 0; i < kWidth / kPiece; ++i) {
      Vector<T, kPiece> piece;
#pragma unroll
      for (int j = 0; j < kPiece; ++j) piece[j] = lanes[i * kPiece + j];
      store(to + i * kPiece, piece);
    }
  }
}

// The parts that a thread's totals are of: its vectors, or lanes of them that are of one row.
template <class P, class Totals, int kCount, int kOperands>
__device__ __forceinline__ void add_operands(
    Totals (&totals)[P::kParts],
    const typename P::Element (&x)[kCount][kOperands][P::kWidth]) {
  constexpr int kLanes = P::kWidth / P::kParts, kEach = kCount * kLanes;
#pragma unroll
  for (int part = 0; part < P::kParts; ++part) {
    typename P::Element operands[kOperands][kEach];
#pragma unroll
    for (int o = 0; o < kOperands; ++o) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        operands[o][i] = x[i / kLanes][o][part * kLanes + i % kLanes];
      }
    }
    totals[part].add(operands);
  }
}

// What a pass does with some positions.
template <class P, int kPass, int kCount, class Totals>
__device__ __forceinline__ void visit(Totals (&totals)[P::kParts],
                                      const typename P::Held (&held)[kCount],
                                      const typename P::Base& base,
                                      const typename P::Row (&known)[P::kParts],
                                      const unsigned (&at)[kCount]) {
  using This = Pass<P, kPass>;
  if constexpr (This::kOperands > 0) {
    typename P::Element x[kCount][This::kOperands][P::kWidth];
#pragma unroll
    for (int i = 0; i < kCount; ++i) This::operands(x[i], held[i], base, known, at[i]);
    add_operands<P>(totals, x);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) This::store(held[i], base, known, at[i]);
}

// A pass over positions from `first` to `end`, every `kStep`-th, which are read now.
template <class P, int kPass, int kStep, int kCount, class Totals>
__device__ __forceinline__ void walk(Totals (&totals)[P::kParts], const typename P::Base& base,
                                     const typename P::Row (&known)[P::kParts], unsigned first,
                                     unsigned end) {
  unsigned from = first;
#pragma unroll 1
  for (; from + (kCount - 1) * kStep < end; from += kCount * kStep) {
    typename P::Held held[kCount];
    unsigned at[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      at[i] = from + i * kStep;
      P::load(held[i], base, at[i]);
    }
    visit<P, kPass, kCount>(totals, held, base, known, at);
  }
  if constexpr (kCount > 1) walk<P, kPass, kStep, kCount / 2>(totals, base, known, from, end);
}

// Passes over what threads keep. Blocks of a cluster share rows, or a block has its rows for itself.
template <class P, template <class, int, int> class Lie, int kX, int kY, int kHeld, int kCluster>
struct OnChip {
  using Threads = Lie<P, kX, kY>;
  using Cluster = ClusterMeeting<P, Threads, kX * kY, kCluster>;
  static constexpr int kStep = Threads::kStep * kCluster;
  // Of what is not kept, some loads are under way together.
  static constexpr int kTogether = P::kHolds || kHeld < 4 ? 1 : 4;

  // The last pass whose totals meet: behind it, no block reads what another one has.
  template <int kPass = P::kPasses>
  static constexpr int last_meeting() {
    if constexpr (kPass == 0 || Pass<P, kPass>::kOperands > 0) {
      return kPass;
    } else {
      return last_meeting<kPass - 1>();
    }
  }

  template <int kPass>
  static __device__ __forceinline__ void passes(const Threads& threads, unsigned first,
                                                const typename P::Held (&held)[kHeld],
                                                const typename P::Base& base,
                                                typename P::Row (&known)[P::kParts],
                                                typename P::Largest* scratch) {
    if constexpr (kPass <= P::kPasses) {
      using This = Pass<P, kPass>;
      typename This::Totals totals[P::kParts];
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) totals[part].start();
#pragma unroll
      for (int i = 0; i < kHeld; i += kTogether) {
        take<kPass>(threads, first, held, base, known, totals, i);
      }
      if constexpr (This::kOperands > 0) {
        threads.template meet<kPass, true>(totals, scratch);
        if constexpr (kCluster > 1) {
          Cluster::template meet<kPass>(threads, totals, scratch + Threads::kScratch);
          if constexpr (kPass == last_meeting()) hopper::cluster_arrive_relaxed();
        }
      }
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) This::finish(known[part], totals[part]);
      passes<kPass + 1>(threads, first, held, base, known, scratch);
    }
  }

  // Positions from number `i` of a thread on: together, where all threads have all of them.
  template <int kPass, class Totals>
  static __device__ __forceinline__ void take(const Threads& threads, unsigned first,
                                              const typename P::Held (&held)[kHeld],
                                              const typename P::Base& base,
                                              const typename P::Row (&known)[P::kParts],
                                              Totals (&totals)[P::kParts], int i) {
    typename P::Held some[kTogether];
    unsigned at[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      some[k] = held[smaller(i + k, kHeld - 1)];
      at[k] = first + (i + k) * kStep;
    }
    const int end = i + kTogether;
    if (threads.is_inside && end <= kHeld && end * kStep <= P::kPositions) {
      visit<P, kPass, kTogether>(totals, some, base, known, at);
      return;
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (i + k >= kHeld || !has(threads, first, i + k)) continue;
      const typename P::Held one[1] = {some[k]};
      const unsigned place[1] = {at[k]};
      visit<P, kPass, 1>(totals, one, base, known, place);
    }
  }

  static __device__ __forceinline__ bool has(const Threads& threads, unsigned first, int i) {
    const bool all = static_cast<unsigned>((i + 1) * kStep) <= P::kPositions;
    return threads.is_inside && (all || first + i * kStep < P::kPositions);
  }

  static __device__ __forceinline__ void run(const typename P::Pointers& p, unsigned images) {
    __shared__ typename P::Largest scratch[Threads::kScratch + Cluster::kScratch];
    const Threads threads(blockIdx.x / kCluster, images);
    const unsigned rank = blockIdx.x % kCluster;
    const unsigned first = rank * Threads::kStep + threads.first;
    const typename P::Base base = P::base(p, threads.image, threads.column);
    typename P::Held held[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (has(threads, first, i)) P::load(held[i], base, first + i * kStep);
    }
    typename P::Row known[P::kParts];
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
      P::begin(known[part], p, threads.image, threads.column, part);
    }
    passes<1>(threads, first, held, base, known, scratch);
    if (threads.is_keeper() && rank == 0) P::end(known, p, threads.image, threads.column);
    if constexpr (kCluster > 1) hopper::cluster_wait();
  }
};

// Passes that read their elements anew: all of them in one launch, where a block has its rows for
// itself, or one launch each. Then what a block has found of its part is in `parts`, a region for
// each pass, and each block of a later launch joins the parts of its rows.
template <class P, template <class, int, int> class Lie, int kX, int kY, int kSplits>
struct Streamed {
  using Threads = Lie<P, kX, kY>;
  static constexpr int kBatch = 4;

  template <int kPass>
  static __device__ __forceinline__ void start(
      typename Pass<P, kPass>::Totals (&totals)[P::kParts]) {
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) totals[part].start();
  }

  // Where a pass leaves what the blocks of a unit have found.
  template <int kPass>
  static __device__ __forceinline__ typename Pass<P, kPass>::Totals* left_by(
      unsigned char* parts, unsigned unit, unsigned units) {
    using Totals = typename Pass<P, kPass>::Totals;
    constexpr int kOf = Threads::kSlots * P::kParts * kSplits;
    auto* const region = parts + P::template before<kPass>() * kOf * static_cast<long long>(units);
    return reinterpret_cast<Totals*>(region) + static_cast<long long>(unit) * kOf;
  }

  // What is known behind passes that other launches have made.
  template <int kPass, int kUntil>
  static __device__ __forceinline__ void join(const Threads& threads, unsigned char* parts,
                                              unsigned units,
                                              typename P::Row (&known)[P::kParts],
                                              typename P::Largest* scratch) {
    if constexpr (kPass < kUntil) {
      using This = Pass<P, kPass>;
      typename This::Totals totals[P::kParts];
      start<kPass>(totals);
      if constexpr (This::kOperands > 0) {
        const auto* const left = left_by<kPass>(parts, threads.unit, units);
        // Some loads are under way together.
        constexpr int kTogether = P::kParts < 4 ? 8 / P::kParts : 2;
#pragma unroll 1
        for (int from = threads.first; from < kSplits; from += kTogether * Threads::kStep) {
          typename This::Totals found[kTogether][P::kParts];
#pragma unroll
          for (int i = 0; i < kTogether * P::kParts; ++i) {
            const int split = from + i / P::kParts * Threads::kStep, part = i % P::kParts;
            auto& one = found[i / P::kParts][part];
            if (split < kSplits) {
              one = left[(split * P::kParts + part) * Threads::kSlots + threads.slot()];
            } else {
              one.start();
            }
          }
#pragma unroll
          for (int i = 0; i < kTogether * P::kParts; ++i) {
            totals[i % P::kParts].merge(found[i / P::kParts][i % P::kParts]);
          }
        }
        threads.template meet<kPass, true>(totals, scratch);
      }
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) This::finish(known[part], totals[part]);
      join<kPass + 1, kUntil>(threads, parts, units, known, scratch);
    }
  }

  template <int kPass, int kUntil>
  static __device__ __forceinline__ void passes(const Threads& threads,
                                                const typename P::Base& base, unsigned from,
                                                unsigned to, typename P::Row (&known)[P::kParts],
                                                typename P::Largest* scratch) {
    if constexpr (kPass < kUntil) {
      using This = Pass<P, kPass>;
      typename This::Totals totals[P::kParts];
      start<kPass>(totals);
      walk<P, kPass, Threads::kStep, kBatch>(totals, base, known, from, to);
      if constexpr (This::kOperands > 0) threads.template meet<kPass, true>(totals, scratch);
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) This::finish(known[part], totals[part]);
      passes<kPass + 1, kUntil>(threads, base, from, to, known, scratch);
    }
  }

  // The launch of one pass; of kPasses + 1, what is left to do with rows; of 0, everything.
  template <int kPass>
  static __device__ __forceinline__ void run(const typename P::Pointers& p, unsigned images,
                                             unsigned char* parts) {
    __shared__ typename P::Largest scratch[Threads::kScratch];
    const unsigned units = kPass > P::kPasses ? gridDim.x : gridDim.x / kSplits;
    // The last blocks of a pass have just read what the first ones of the next one read.
    const unsigned block = kPass % 2 == 0 ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const unsigned unit = kPass > P::kPasses ? block : block / kSplits;
    const unsigned split = kPass > P::kPasses ? 0 : block % kSplits;
    const Threads threads(unit, images);
    const typename P::Base base = P::base(p, threads.image, threads.column);
    typename P::Row known[P::kParts];
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
      P::begin(known[part], p, threads.image, threads.column, part);
    }
    constexpr unsigned kLength = (P::kPositions + kSplits - 1) / kSplits;
    const unsigned from = split * kLength + threads.first;
    unsigned to = split * kLength + kLength;
    if (to > P::kPositions) to = P::kPositions;
    if (!threads.is_inside) to = 0;
    if constexpr (kPass == 0) {
      passes<1, P::kPasses + 1>(threads, base, from, to, known, scratch);
      if (threads.is_keeper()) P::end(known, p, threads.image, threads.column);
    } else {
      join<1, kPass>(threads, parts, units, known, scratch);
      if constexpr (kPass > P::kPasses) {
        if (threads.is_keeper()) P::end(known, p, threads.image, threads.column);
      } else {
        using This = Pass<P, kPass>;
        typename This::Totals totals[P::kParts];
        start<kPass>(totals);
        walk<P, kPass, Threads::kStep, kBatch>(totals, base, known, from, to);
        if constexpr (This::kOperands > 0) {
          threads.template meet<kPass, false>(totals, scratch);
          auto* const left = left_by<kPass>(parts, unit, units);
          if (threads.is_keeper()) {
#pragma unroll
            for (int part = 0; part < P::kParts; ++part) {
              left[(split * P::kParts + part) * Threads::kSlots + threads.slot()] = totals[part];
            }
          }
        }
      }
    }
  }
};

}  // namespace convir
