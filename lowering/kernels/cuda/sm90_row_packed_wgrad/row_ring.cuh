// Rows of dY that stay in shared memory from step to step of an image; see
// sm90_row_packed_wgrad/kernel.cuh.
//
// A step's window has kRows rows and kHalo more, which the step below has as well. A ring holds
// them in groups of kRows rows: a step's window begins with a group, and those of an image follow
// each other, so that each step brings only rows kHalo and on. The first rows of the ring stand
// behind its last ones again, for windows that begin with its last group. An image begins a group
// further on and brings all rows of its window, kRows and the others; a part brings all at once,
// and they wait where X of a later step will be, if there is room.
#pragma once

#include "pipeline/warp_specialized.cuh"
#include "ptx/named_barrier.cuh"
#include "sm90_row_packed_wgrad/load.cuh"

namespace convir::row_packed_wgrad {

// The group that a step's window begins with.
template <class P, class C>
struct RingGroup {
  using L = Layout<P, C>;
  int slot = 0;

  // The step after; the next image's windows share no rows with those before.
  __device__ __forceinline__ void advance(bool starts_image) {
    slot += starts_image ? 2 : 1;
    slot -= slot >= L::kRingGroups ? L::kRingGroups : 0;
  }
  __device__ __forceinline__ unsigned bytes() const { return slot * L::kGroupBytes; }
};

template <class P, class C>
__device__ __forceinline__ bool starts_image(int step) {
  return step % Layout<P, C>::kRowSteps == 0;
}
// Where the steps of the image of `step` end.
template <class P, class C>
__device__ __forceinline__ int image_end(int step) {
  return (step / Layout<P, C>::kRowSteps + 1) * Layout<P, C>::kRowSteps;
}

// Rows of a step's window that are brought and taken apart at once.
template <class P, class C>
struct RingChunk {
  using L = Layout<P, C>;
  static constexpr bool kBeginsWhole =
      L::kXBytes >= L::kWindowRows * L::kWaitingRowBytes + 2 * 15;  // of a part

  int step, first = 0, end = kBeginsWhole ? L::kWindowRows : L::kWaitingRows;

  __device__ __forceinline__ explicit RingChunk(int of) : step(of) {}
  __device__ __forceinline__ bool is_whole() const { return end - first == L::kWindowRows; }
  __device__ __forceinline__ bool is_last() const { return end == L::kWindowRows; }
  __device__ __forceinline__ void advance() {
    first = end;
    if (is_last()) first = starts_image<P, C>(++step) ? 0 : L::kHalo;
    end = min(first + L::kWaitingRows, L::kWindowRows);
  }
};

// TMA brings rows of a chunk as they lie, and threads take them apart.
template <class P, class C>
struct RingRows {
  using L = Layout<P, C>;
  using Bulk = BulkRows<P, C>;

  const char* y;
  int thread;

  // The rows of dY of a chunk that exist.
  struct Span {
    int begin, rows;

    __device__ __forceinline__ Span(int window_row, const RingChunk<P, C>& chunk)
        : begin(max(window_row + chunk.first, 0)),
          rows(min(window_row + chunk.end, P::kOutRows) - begin) {}
  };

  // One thread asks for them; it arrives at a barrier.
  __device__ __forceinline__ void ask(const Place<P, C>& place, const RingChunk<P, C>& chunk,
                                      unsigned to, unsigned barrier) const {
    if (!Bulk::is_asking(thread)) return;
    const Step<P, C> step(chunk.step);
    const Span span(Window<P, C>(place, step).row, chunk);
    if (span.rows <= 0) return arrive(barrier);
    const long long at = Bulk::offset(step.image, span.begin, 0);
    const int skipped = at & 15;
    const int bytes = Bulk::round_up(skipped + span.rows * L::kWaitingRowBytes);
    arrive_expecting(barrier, bytes);
    hopper::load_bulk(to, y + (at - skipped), bytes, barrier);
  }

  // Copies a chunk to a ring, with zeros where it lies outside.
  __device__ __forceinline__ void take_apart(const Place<P, C>& place, const RingChunk<P, C>& chunk,
                                             unsigned from, unsigned ring,
                                             const RingGroup<P, C>& group) const {
    const Step<P, C> step(chunk.step);
    const Window<P, C> window(place, step);
    const Span span(window.row, chunk);
    from += Bulk::offset(step.image, span.begin, 0) & 15;
    const int pixels = (chunk.end - chunk.first) * L::kWindowCols;
#pragma unroll 1
    for (int i = thread; i < pixels; i += L::kLoadThreads) {
      const int row = i / L::kWindowCols, col = i % L::kWindowCols;
      const int y_row = window.row + chunk.first + row, y_col = window.col + col;
      unsigned words[4 * L::kPlanes] = {};
      if (Window<P, C>::is_inside(y_row, y_col)) {
        const unsigned source = from + (y_row - span.begin) * L::kWaitingRowBytes +
                                y_col * L::kPixelBytes_;
#pragma unroll
        for (int plane = 0; plane < L::kPlanes; ++plane) {
          Bulk::load_plane(words + 4 * plane, source, plane);
        }
      }
      store(words, ring + col * 16, group.slot * C::kRows + chunk.first + row);
    }
  }

  // Row `row` of the ring, which may be one behind its end, in both copies of it.
  static __device__ __forceinline__ void store(const unsigned (&words)[4 * L::kPlanes],
                                               unsigned to, int row) {
    const int at = row - (row >= L::kRingRows ? L::kRingRows : 0);
    store_row(words, to, at);
    if (at < L::kAgainRows) store_row(words, to, at + L::kRingRows);
    if constexpr (L::kIsPacked && L::kCopies > 1) {
      const int before = at == 0 ? L::kRingRows - 1 : at - 1;
      store_row(words, to + L::kCopyBytes, before);
      if (before < L::kAgainRows) store_row(words, to + L::kCopyBytes, before + L::kRingRows);
    }
  }
  static __device__ __forceinline__ void store_row(const unsigned (&words)[4 * L::kPlanes],
                                                   unsigned to, int row) {
    if constexpr (L::kIsPacked) {
      Bulk::store_packed(words, to, row);
    } else {
      Bulk::template store_planes<0, L::kPlanes>(words, to + row * L::kYRowBytes);
    }
  }
};

// Where rows of a chunk wait: of a window, where X of the ring's last stage will be.
template <class P, class C, class Block>
__device__ __forceinline__ unsigned place_of(const Block& block, const RingChunk<P, C>& chunk,
                                             int slot, int last_stage) {
  return chunk.is_whole() ? block.stages + last_stage * Layout<P, C>::kStageBytes
                          : block.staging(slot);
}

// Asks for a block's first rows.
template <class P, class C, class Block>
__device__ __forceinline__ void ask_first(const Block& block, const RingRows<P, C>& rows,
                                          const Place<P, C>& place, const partition::Work& work) {
  RingChunk<P, C> next(work.begin);
  for (int i = 0; i < C::kWaiting && next.step < work.end; ++i, next.advance()) {
    rows.ask(place, next, place_of(block, next, i, C::kStages - 1), block.arrived + 8 * i);
  }
}

// What warps do that load: `block` has barriers and memory.
template <class P, class C, class S, class Block>
__device__ __forceinline__ void load_ring(const Block& block, const Filler<P, C>& filler,
                                          const RingRows<P, C>& rows) {
  using L = Layout<P, C>;
  PipelineState<C::kWaiting> asked, taken;
  Drain drained = block.drain;
  const partition::Tiles<S> tiles = {Block::unit()};
  produce(tiles, block.pipeline, [&](const partition::Work& work, Producer<C::kStages>& fill) {
    PipelineState<C::kStages>& ring = fill.at;
    const Place<P, C> place(work.tile);
    const bool is_asked = drained.tiles == 0;
    drained.wait();
    RingGroup<P, C> group;
    RingChunk<P, C> next(work.begin), own(work.begin);
    const int last_stage = (ring.stage + C::kStages - 1) % C::kStages;
    const auto ask = [&](bool is_asked = false) {
      if (next.step >= work.end) return;
      if (!is_asked) {
        rows.ask(place, next, place_of(block, next, asked.stage, last_stage),
                 block.arrived + 8 * asked.stage);
      }
      asked.advance();
      next.advance();
    };
    for (int i = 0; i < C::kWaiting; ++i) ask(is_asked);
    for (; own.step < work.end; own.advance()) {
      const bool starts = own.step == work.begin || starts_image<P, C>(own.step);
      if (own.first == (starts ? 0 : L::kHalo)) {
        if (own.step > work.begin) group.advance(starts);
        fill.wait();
        // Behind the beginning of an image there is room for a step less.
        const int since = own.step % L::kRowSteps;
        if (since < C::kStages - 1 && own.step - since > work.begin) {
          PipelineState<C::kStages> after = ring;
          after.advance();
          wait_barrier(block.pipeline.empty + 8 * after.stage, after.phase ^ 1);
        }
        filler.ask_x(place, Step<P, C>(own.step), block.stages + ring.stage * L::kStageBytes,
                     fill.full());
      }
      wait_barrier(block.arrived + 8 * taken.stage, taken.phase);
      rows.take_apart(place, own, place_of(block, own, taken.stage, last_stage),
                      block.stages + L::kRingAt, group);
      hopper::fence_proxy();  // wgmma reads what was written
      __syncwarp();
      if (own.is_last()) {
        arrive_for_warp(fill.full());
        ring.advance();
      }
      named_sync(kLoadBarrier, L::kLoadThreads);  // all warps have read them
      ask();
      taken.advance();
    }
  });
}

}  // namespace convir::row_packed_wgrad
