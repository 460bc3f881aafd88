// Which steps of which tiles a block does, and how the splits of a tile are put together.
//
// `Schedule` mirrors lowering/kernels/cuda/tile_schedule/schedule.py, which explains it: closed
// forms, no tables. `FixUp` is the protocol: a block that does not own a tile writes its
// accumulators to its slot of the workspace and sets its flag; whoever adds them waits for the flag
// and clears it, so every launch leaves the flags zero. Accumulators are added in an order that the
// schedule alone decides: the same bits every time. Waits are for lower blocks only.
#pragma once

#include "ptx/named_barrier.cuh"
#include "ptx/wait.cuh"

namespace convir::partition {

enum class Kind { kDataParallel, kSplitK, kStreamK };

// Steps `begin` to `end` of a tile, part `split` of `splits`.
struct Work {
  int tile, begin, end;
  int split, splits;
  int first_unit, unit_step;  // the unit of split p is first_unit + p * unit_step

  __device__ __forceinline__ bool is_owner() const { return split == splits - 1; }
};

constexpr int kMinSteps = 8;
// Words from a counter of splits to the next: lines of their own, as all who wait keep asking for
// them.
constexpr int kCounterWords = 64;

// kSteps is 0 where a launch hands over the steps of a tile, which is none of stream-K. kSplits is 1
// unless the kind is split-K; kWholeAreBlocks: whole tiles of stream-K have blocks of
// their own, behind those that stream.
template <Kind kKind, int kTiles, int kSteps, int kConcurrent, int kSplits, bool kWholeAreBlocks>
struct Schedule {
  static constexpr int kRest = kTiles % kConcurrent;
  static constexpr int kStreamed = kKind != Kind::kStreamK ? 0
                                   : kTiles < kConcurrent  ? kTiles
                                   : kRest != 0            ? kRest + kConcurrent
                                                           : 0;
  static_assert(static_cast<long long>(kStreamed) * kSteps < 1ll << 30, "steps are 32-bit numbers");
  static_assert(kSteps > 0 || kKind != Kind::kStreamK, "shares are constants");
  static constexpr int kStreamedSteps = kStreamed * kSteps;
  static constexpr int kMostShares = kStreamedSteps < kMinSteps ? 1 : kStreamedSteps / kMinSteps;
  static constexpr int kShares = kStreamed == 0               ? 0
                                 : kMostShares < kConcurrent ? kMostShares
                                                             : kConcurrent;
  static constexpr int kSplitsOfTile = kKind == Kind::kSplitK ? kSplits : 0;  // 0 if tiles differ
  static constexpr int kWhole = kTiles - kStreamed;
  static constexpr int kWholeAtOnce = kWhole < kConcurrent ? kWhole : kConcurrent;
  static constexpr int kUnits = kKind == Kind::kDataParallel ? kTiles
                                : kKind == Kind::kSplitK     ? kTiles * kSplits
                                : kWholeAreBlocks            ? kShares + kWhole
                                : kShares > kWholeAtOnce     ? kShares
                                                             : kWholeAtOnce;
  static constexpr int kBase = kShares == 0 ? 1 : kStreamedSteps / kShares;
  static constexpr int kLonger = kShares == 0 ? 0 : kStreamedSteps % kShares;

  static __device__ __forceinline__ int share_begin(int unit) {
    return unit * kBase + (unit < kLonger ? unit : kLonger);
  }
  static __device__ __forceinline__ int unit_of(int step) {
    constexpr int kInLonger = kLonger * (kBase + 1);
    return step < kInLonger ? step / (kBase + 1) : kLonger + (step - kInLonger) / kBase;
  }

  // The work of one unit: `for (Walk walk(unit); walk.next(work);)`.
  struct Walk {
    int unit;
    int at;    // split-K and data-parallel: what is left; stream-K: the end of what is left
    int whole;  // the next whole tile
    int steps;  // of a tile

    __device__ __forceinline__ explicit Walk(int of, int of_tile = kSteps)
        : unit(of), steps(of_tile) {
      if constexpr (kKind != Kind::kStreamK) {
        at = 1;
      } else {
        const bool streams = unit < kShares;
        at = streams ? share_begin(unit + 1) : 0;
        whole = kStreamed + (kWholeAreBlocks ? (streams ? kWhole : unit - kShares) : unit);
      }
    }

    __device__ __forceinline__ bool next(Work& work) {
      if constexpr (kKind == Kind::kDataParallel) {
        work = {unit, 0, steps, 0, 1, unit, 0};
        return at-- > 0;
      } else if constexpr (kKind == Kind::kSplitK) {
        const int split = unit / kTiles, tile = unit % kTiles;
        const auto end_of = [this](int splits) {
          if constexpr (kSteps == 0) {
            return steps / kSplits * splits + steps % kSplits * splits / kSplits;
          } else if constexpr (static_cast<long long>(kSteps) * kSplits < 1ll << 31) {
            return kSteps * splits / kSplits;
          } else {
            return static_cast<int>(static_cast<long long>(kSteps) * splits / kSplits);
          }
        };
        work = {tile, end_of(split), end_of(split + 1), split, kSplits, tile, kTiles};
        return at-- > 0;
      } else {
        const int begin = unit < kShares ? share_begin(unit) : 0;
        if (at > begin) {
          const int tile = (at - 1) / kSteps, origin = tile * kSteps;
          const int start = begin > origin ? begin : origin;
          const int first = unit_of(origin), last = unit_of(origin + kSteps - 1);
          work = {tile, start - origin, at - origin, unit - first, last - first + 1, first, 1};
          at = start;
          return true;
        }
        if (whole >= kTiles) return false;
        work = {whole, 0, kSteps, 0, 1, unit, 0};
        whole += kWholeAreBlocks ? kTiles : kUnits;
        return true;
      }
    }
  };
};

// The parts of tiles that one unit of a schedule does.
template <class Schedule>
struct Tiles {
  int unit;

  template <class Body>
  __device__ __forceinline__ void for_each(Body&& body) const {
    Work work;
    for (typename Schedule::Walk walk(unit); walk.next(work);) body(work);
  }
};

__device__ __forceinline__ unsigned load_acquired(const unsigned* from) {
  unsigned x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  return x;
}

__device__ __forceinline__ void publish_flag(unsigned* flag) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1u) : "memory");
}

// Waits until `flag` is set, and clears it.
__device__ __forceinline__ void take_flag(unsigned* flag) {
  wait_until([&] { return load_acquired(flag) != 0; });
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(0u) : "memory");
}

// Puts the splits of tiles together, for kThreads threads that hold kAccumulators accumulators
// each; barrier kBarrier of the block is theirs. A slot of the workspace has kThreads *
// kAccumulators floats.
template <int kThreads, int kAccumulators, bool kTree, int kBarrier = 0>
struct FixUp {
  static_assert(kAccumulators % 4 == 0, "sums are written in vectors of four");
  static constexpr int kSlot = kThreads * kAccumulators;

  float* workspace;
  unsigned* flags;
  int thread;  // 0 to kThreads - 1

  // Whether the caller now has the accumulators of the whole tile, and stores it. `sum(i)` is a
  // reference to sum i of the thread; the same i of the same thread is the same result in every
  // split.
  template <class Accumulators>
  __device__ __forceinline__ bool operator()(const Work& work, Accumulators&& sum) const {
    if (work.splits == 1) return true;
    if constexpr (kTree) {
      const int down = work.splits - 1 - work.split;
      int distance = 1;
      while (down % (2 * distance) == 0 && down + distance < work.splits) {
        const int unit = work.first_unit + (work.split - distance) * work.unit_step;
        if (thread == 0) take_flag(flags + unit);
        barrier();
        add(unit, sum);
        distance *= 2;
      }
    } else if (work.is_owner()) {
      for (int split = thread; split < work.split; split += kThreads) {
        take_flag(flags + work.first_unit + split * work.unit_step);
      }
      barrier();
      for (int split = work.split - 1; split >= 0; --split) {
        add(work.first_unit + split * work.unit_step, sum);
      }
    }
    if (work.is_owner()) return true;
    publish(work.first_unit + work.split * work.unit_step, sum);
    return false;
  }

  static __device__ __forceinline__ void barrier() { named_sync(kBarrier, kThreads); }

  template <class Accumulators>
  __device__ __forceinline__ void add(int unit, Accumulators&& sum) const {
    const float4* slot = slot_of(unit);
#pragma unroll
    for (int i = 0; i < kAccumulators; i += 4) {
      const float4 split = __ldcg(slot + i / 4 * kThreads);
      sum(i) += split.x;
      sum(i + 1) += split.y;
      sum(i + 2) += split.z;
      sum(i + 3) += split.w;
    }
  }

  template <class Accumulators>
  __device__ __forceinline__ void publish(int unit, Accumulators&& sum) const {
    float4* slot = slot_of(unit);
#pragma unroll
    for (int i = 0; i < kAccumulators; i += 4) {
      __stcg(slot + i / 4 * kThreads, make_float4(sum(i), sum(i + 1), sum(i + 2), sum(i + 3)));
    }
    barrier();
    if (thread == 0) publish_flag(flags + unit);
  }

  __device__ __forceinline__ float4* slot_of(int unit) const {
    return reinterpret_cast<float4*>(workspace + static_cast<long long>(unit) * kSlot) + thread;
  }
};

__device__ __forceinline__ void add_to(float4& total, const float4& x) {
  total.x += x.x;
  total.y += x.y;
  total.z += x.z;
  total.w += x.w;
}

// Adds vectors `first` to `last` over `count` splits in ascending order: load(part, v) is vector v
// of a part, emit(v, accumulators) gets the total. kCount is `count` if that is known here: then
// all splits of a vector are loaded at once, or in the fewest rounds of up to kMostSplits; else 0.
template <int kThreads, int kCount, class Load, class Emit>
__device__ __forceinline__ void add_splits(int count, int first, int last, int thread, Load&& load,
                                          Emit&& emit) {
  constexpr int kMostSplits = 36;
  constexpr int kRounds = (kCount + kMostSplits - 1) / kMostSplits;
  constexpr int kAtOnce = kRounds == 0 ? 0 : (kCount + kRounds - 1) / kRounds;
  for (int v = first + thread; v < last; v += kThreads) {
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if constexpr (kCount == 0) {
#pragma unroll 16
      for (int split = 0; split < count; ++split) add_to(total, load(split, v));
    } else {
#pragma unroll 1
      for (int split = 0; split < kCount; split += kAtOnce) {
        float4 x[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (split + i < kCount) x[i] = load(split + i, v);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (split + i < kCount) add_to(total, x[i]);
        }
      }
    }
    emit(v, total);
  }
}

// The same for a few splits, two vectors of a thread at a time: their latencies pass together.
template <int kThreads, int kCount, class Load, class Emit>
__device__ __forceinline__ void add_parts_of_two(int first, int last, int thread, Load&& load,
                                                 Emit&& emit) {
  for (int v = first + thread; v < last; v += 2 * kThreads) {
    const bool has_second = v + kThreads < last;
    float4 x[kCount], y[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = load(i, v);
    if (has_second) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) y[i] = load(i, v + kThreads);
    }
#pragma unroll
    for (int i = 1; i < kCount; ++i) add_to(x[0], x[i]);
    emit(v, x[0]);
    if (!has_second) return;
#pragma unroll
    for (int i = 1; i < kCount; ++i) add_to(y[0], y[i]);
    emit(v + kThreads, y[0]);
  }
}

// Blocks that have written splits of the same vectors to a slot each meet, and each adds one share
// of them over all slots. All blocks must run at the same time (a cooperative launch). kCount is
// the number of slots if that is known here, else 0.
template <int kThreads, int kBarrier, int kCount>
struct Meeting {
  static constexpr unsigned kLeaving = 1u << 16;
  static constexpr int kFew = 16;

  const float4* slots;  // the first one
  long long step;       // vectors between two slots
  int count;            // of slots
  unsigned* counter;    // zero before, and zero again after
  int thread;           // 0 to kThreads - 1
  int group = 0;        // of several in a block, whose barriers follow each other

  // Block `own` of them adds its share of vectors `begin` to `end`; store(v, accumulators) stores
  // vector v.
  template <class Store>
  __device__ __forceinline__ void operator()(int own, int begin, int end, Store&& store) const {
    when_all_are_there([&] {
      const int first = begin + share(end - begin, own);
      const int last = begin + share(end - begin, own + 1);
      const auto load = [&](int slot, int v) { return __ldcg(slots + slot * step + v); };
      if constexpr (kCount > 1 && kCount <= kFew) {
        add_parts_of_two<kThreads, kCount>(first, last, thread, load, store);
      } else {
        add_splits<kThreads, kCount>(count, first, last, thread, load, store);
      }
    });
  }

  // add() adds the share of the block.
  template <class Add>
  __device__ __forceinline__ void when_all_are_there(Add&& add) const {
    barrier();
    unsigned before = 0;
    if (thread == 0) {
      meet(counter, count);
      before = count_leaving(counter);
    }
    barrier();
    add();
    // The answer came while accumulators were added.
    if (thread == 0) clear_if_last(counter, before, count);
  }

  __device__ __forceinline__ int share(int vectors, int blocks) const {
    return static_cast<int>(static_cast<long long>(vectors) * blocks / count);
  }
  __device__ __forceinline__ void barrier() const {
    named_sync(kBarrier + group, kThreads);
  }

  // Comes, and waits until all splits have come.
  static __device__ __forceinline__ void meet(unsigned* counter, int splits) {
    come(counter);
    wait(counter, splits);
  }
  static __device__ __forceinline__ void come(unsigned* counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(1u) : "memory");
  }
  static __device__ __forceinline__ void wait(unsigned* counter, int splits) {
    wait_until([&] { return static_cast<int>(load_acquired(counter) % kLeaving) >= splits; });
  }
  // The last split to leave clears the counter.
  static __device__ __forceinline__ void leave(unsigned* counter, int splits) {
    clear_if_last(counter, count_leaving(counter), splits);
  }
  // The counter before, whose answer nothing here waits for.
  static __device__ __forceinline__ unsigned count_leaving(unsigned* counter) {
    unsigned before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(kLeaving)
                 : "memory");
    return before;
  }
  static __device__ __forceinline__ void clear_if_last(unsigned* counter, unsigned before, int splits) {
    if (static_cast<int>(before / kLeaving) == splits - 1) *counter = 0;
  }
};

// Puts the splits of tiles together by a reduce-scatter: every part of a tile publishes all of its
// accumulators, waits for all other splits, and then adds one share of the tile over the splits in
// ascending order. `counters` has one for each tile. Slots are those of `FixUp`; vector v of a slot
// has accumulators 4 (v / kThreads) … of thread v % kThreads. kSplits is the number of splits, 0 if
// it is known when the kernel runs.
template <int kThreads, int kAccumulators, int kBarrier = 0, int kSplits = 0>
struct ReduceScatter {
  static constexpr int kVectors = kThreads * kAccumulators / 4;

  float* workspace;
  unsigned* counters;
  int thread;
  int group = 0;

  // That of one of several groups of a block that have accumulators of their own, and so slots of
  // kUnits units, and counters of kTiles tiles.
  template <int kUnits, int kTiles>
  static __device__ __forceinline__ ReduceScatter of_group(float* workspace, unsigned* counters,
                                                           int thread, int group) {
    constexpr long long kOfGroup = static_cast<long long>(kUnits) * kThreads * kAccumulators;
    return {workspace + group * kOfGroup, counters + group * kTiles * kCounterWords, thread, group};
  }

  // The first vector that a part stores; its threads store every kThreads-th.
  static __device__ __forceinline__ int begin_of(int split, int splits) {
    return static_cast<int>(static_cast<long long>(kVectors) * split / splits);
  }

  // store(v, accumulators) stores vector v of the tile.
  template <class Accumulators, class Store>
  __device__ __forceinline__ void operator()(const Work& work, Accumulators&& sum, Store&& store) const {
    float4* first = reinterpret_cast<float4*>(workspace) +
                    static_cast<long long>(work.first_unit) * kVectors;
    const long long step = static_cast<long long>(work.unit_step) * kVectors;
    float4* own = first + work.split * step + thread;
#pragma unroll
    for (int i = 0; i < kAccumulators; i += 4) {
      __stcg(own + i / 4 * kThreads, make_float4(sum(i), sum(i + 1), sum(i + 2), sum(i + 3)));
    }
    const Meeting<kThreads, kBarrier, kSplits> meeting = {first, step, work.splits,
                                                         counters + work.tile * kCounterWords,
                                                         thread, group};
    meeting(work.split, 0, kVectors, store);
  }
};

}  // namespace convir::partition
