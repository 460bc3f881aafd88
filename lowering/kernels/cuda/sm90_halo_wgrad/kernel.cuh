// Gradient of the weights of few channels, by wgmma on halos of A in shared memory (sm_90a):
//
//   B[tap, d, n] = sum over output pixels x of A[x + tap, d] * C[x, n]
//
// An instruction multiplies 16 pixels. Its 64 rows are the channels of A at one to four taps of a
// plane, `kApart` pixels of the halo apart; its columns are the channels of C in as many slices as
// there are taps along the third axis. So an instruction has the accumulators of all pairs of such
// taps, and a *set* of them is what one instruction has. Sets are divided over the warpgroups of a
// block, and over blocks; all of a block's read the same stages.
//
// A tile is a box of pixels: of A along the axis of shifts, of C along the two others. So A is
// loaded once along the first, with a halo along the others, and C once for each shift.
//
// P (generated): Element, Epilogue, Stored;
//   in_channels, out_channels   of A, and of C
//   shifts, dilation            taps along the axis of slices, and slices between them
//   corner[3]                   pixels of A, or slices of C, that the box of a tile begins before
//   span[3]                     pixels of the halo; slices of C beside those of a tile
//   sets, pixel(i), apart(i)    of a set the pixel of the halo of its first tap, and those between taps
//   tap(i)[j], shift(i)         elements of B; -1 where another set has the tap
//   b_in_channel, b_out_channel strides of B
// S: the schedule; see `config.py`.
#pragma once

#include "arith/coordinates.cuh"
#include "arith/scalars.cuh"
#include "mma/sm90_tile.cuh"
#include "pipeline/warp_specialized.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "reduce/grouped_wgrad_reduction.cuh"

namespace convir {

template <typename P, typename S>
class Sm90HaloWgrad {
  using Element = typename P::Element;
  using Stored = typename P::Epilogue::Stored;
  static constexpr int kWarpgroups = S::consumers, kStages = S::stages;
  static constexpr int kConsumerThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kRows = 64;  // of an instruction
  static constexpr int kTapsOfSet = kRows / S::a_channels;
  static constexpr int kColumns = P::shifts * S::c_channels;

  // Boxes of a stage.
  static constexpr int kRowBytesA = S::a_channels * 2, kRowBytesC = S::c_channels * 2;
  static constexpr int kLine = S::cols + P::span[0], kLines = S::rows + P::span[1];
  static constexpr int kSlice = S::rows * S::cols;  // of C
  static constexpr int kCopyOfA = kLine * kLines * S::depth * kRowBytesA;
  static constexpr int kCopyOfC = kSlice * (S::depth + P::span[2]) * kRowBytesC;
  static constexpr int kBytesOfA = hopper::to_atom(kCopyOfA);
  static constexpr int kStageBytes = kBytesOfA + hopper::to_atom(kCopyOfC);

  // Pixels are multiplied in eights, two of them at a time, which lie in lines of the boxes.
  static constexpr int kSteps = kSlice * S::depth / 16;
  static constexpr int pixel_of(int eight) {
    const int line = eight / (S::cols / 8);
    return (line / S::rows * kLines + line % S::rows) * kLine + eight % (S::cols / 8) * 8;
  }
  static_assert(S::cols % 8 == 0 && kSlice * S::depth % 16 == 0);

  // Sets of a warpgroup of a block: unit u of all has those from u * sets / units on.
  static constexpr int kUnits = S::parts * kWarpgroups;
  static constexpr int kMost = divide_up(P::sets, kUnits), kLeast = P::sets / kUnits;
  static_assert(kLeast > 0);
  static constexpr int first_set(int unit) { return unit * P::sets / kUnits; }
  static constexpr int sets_of_block() {
    int most = 0;
    for (int part = 0; part < S::parts; ++part) {
      most = larger(most, first_set((part + 1) * kWarpgroups) - first_set(part * kWarpgroups));
    }
    return most;
  }

  // Vectors of four accumulators of a thread.
  static constexpr int kFours = kColumns / 8;
  static constexpr int kVectors = sets_of_block() * kFours * kWarpgroupThreads;
  using Published = PublishedAccumulators<S, kVectors>;
  static constexpr int kOwners = S::parts * S::a_tiles * S::c_tiles;
  static constexpr int kSharedBytes =
      hopper::kAtomBytes + larger(kStages * kStageBytes, Published::kBytes) + Pipeline<kStages>::kBytes;
  static_assert(kSharedBytes == S::shared_bytes);

  // What a block computes of B.
  struct Owner {
    int part, a_channel, c_channel, split;
    __device__ __forceinline__ Owner() {
      const int owner = static_cast<int>(blockIdx.x) % kOwners;
      split = static_cast<int>(blockIdx.x) / kOwners;
      part = owner % S::parts;
      a_channel = owner / S::parts % S::a_tiles * S::a_channels;
      c_channel = owner / (S::parts * S::a_tiles) * S::c_channels;
    }
  };

  // The tiles of a block: blocks take them in turn.
  struct Tiles {
    int split, tiles;

    template <class Body>
    __device__ __forceinline__ void for_each(Body&& body) const {
#pragma unroll 1
      for (int i = split; i < tiles; i += S::splits) body(i);
    }
  };

  // One thread asks for the boxes of all tiles.
  static __device__ __forceinline__ void produce(const hopper::TensorMap* a,
                                                 const hopper::TensorMap* c, const Owner& owner,
                                                 const Tiles& tiles, unsigned stages,
                                                 const Pipeline<kStages>& pipeline) {
    convir::produce(tiles, pipeline, [&](int tile, Producer<kStages>& produce) {
      int at[4];
      split_number<4, false>(
          tile, [&](int axis) { return axis < 3 ? S::tiles[axis] : 1; },
          [&](int axis, int x) { at[axis] = x; });
      const int x = at[0] * S::cols, y = at[1] * S::rows, z = at[2] * S::depth;
      produce([&](int stage, unsigned barrier) {
        const unsigned to = stages + stage * kStageBytes;
        arrive_expecting(barrier, kCopyOfA + kCopyOfC);
        hopper::load_5d(to, a, barrier, owner.a_channel, x + P::corner[0], y + P::corner[1], z, at[3]);
        hopper::load_5d(to + kBytesOfA, c, barrier, owner.c_channel, x, y, z + P::corner[2], at[3]);
      });
    });
  }

  // Adds the products of a stage to the accumulators of kCount sets.
  template <int kCount>
  static __device__ __forceinline__ void multiply(float (&sum)[kCount][kColumns / 2],
                                                  const unsigned long long (&sets)[kCount],
                                                  unsigned stage, bool is_first) {
    constexpr unsigned long long layout_c = hopper::descriptor_layout(
        kRowBytesC, P::dilation * kSlice * kRowBytesC, 8 * kRowBytesC);
    auto from_a = hopper::address_field(stage);
    auto from_c = layout_c | hopper::address_field(stage + kBytesOfA);
    asm volatile("" : "+l"(from_a), "+l"(from_c));
    static_for<kSteps>([&](auto step) {
      constexpr int pixel = pixel_of(2 * decltype(step)::value);
      constexpr int along = (pixel_of(2 * decltype(step)::value + 1) - pixel) * kRowBytesA;
      constexpr unsigned long long at_a =
          (static_cast<unsigned long long>(along / 16) << 32) + pixel * kRowBytesA / 16;
      constexpr int at_c = decltype(step)::value * kRowBytesC;
      static_for<kCount>([&](auto i) {
        using Multiply = hopper::Wgmma<Element, kColumns, hopper::kMajorMN, hopper::kMajorMN>;
        const auto a = sets[i.value] + from_a + at_a, c = from_c + at_c;
        if constexpr (decltype(step)::value == 0) {
          Multiply::run(sum[i.value], a, c, !is_first);
        } else {
          Multiply::run(sum[i.value], a, c);
        }
      });
    });
  }

  // Multiplies all tiles of a block and publishes the accumulators of kCount sets from `first` on,
  // which are `own` of the block's.
  template <int kCount>
  static __device__ __forceinline__ void reduce(const Tiles& tiles, unsigned stages,
                                                const Pipeline<kStages>& pipeline, int first,
                                                int own, float4* published) {
    float sum[kCount][kColumns / 2];
    unsigned long long sets[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const unsigned pixel = P::pixel(first + i), apart = P::apart(first + i);
      sets[i] = hopper::descriptor_layout(kRowBytesA, 0, 0) +
                (static_cast<unsigned long long>(apart * (kRowBytesA / 16)) << 16) +
                pixel * (kRowBytesA / 16);
    }
    Consumer<kStages> full(pipeline);
    mma::Mainloop<kStages> mainloop(full);
    tiles.for_each([&](int) {
      mainloop.step(sum, [&](int stage, bool is_first) {
        multiply(sum, sets, stages + stage * kStageBytes, is_first);
      });
    });
    mainloop.finish(sum);
    float4* to = published + own * (kFours * kWarpgroupThreads) + threadIdx.x % kWarpgroupThreads;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < kFours; ++j) {
        const float* four = sum[i] + j * 4;
        __stcg(to + (i * kFours + j) * kWarpgroupThreads,
               make_float4(four[0], four[1], four[2], four[3]));
      }
    }
  }

  // Stores the totals of vector v of a block's accumulators.
  static __device__ __forceinline__ void store(Stored* b, const Owner& owner, int v,
                                               const float4& total) {
    const int thread = v % kWarpgroupThreads, eight = v / kWarpgroupThreads % kFours;
    const int set = first_set(owner.part * kWarpgroups) + v / (kWarpgroupThreads * kFours);
    if (set >= first_set((owner.part + 1) * kWarpgroups)) return;
    const float both[2][2] = {{total.x, total.y}, {total.z, total.w}};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + half * 8;
      const long long tap = P::tap(set * kTapsOfSet + row / S::a_channels);
      const int in_channel = owner.a_channel + row % S::a_channels;
      if (tap < 0 || in_channel >= P::in_channels) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = eight * 8 + thread % 4 * 2 + i;
        const int out_channel = owner.c_channel + column % S::c_channels;
        if (out_channel >= P::out_channels) continue;
        b[tap + P::shift(column / S::c_channels) + in_channel * P::b_in_channel +
          out_channel * P::b_out_channel] = P::Epilogue::apply(both[half][i], {}, nullptr);
      }
    }
  }

 public:
  static __device__ __forceinline__ void run(const hopper::TensorMap* a, const hopper::TensorMap* c,
                                             Stored* b, float* workspace, unsigned* counters,
                                             int images) {
    extern __shared__ unsigned char memory[];
    const unsigned stages = hopper::to_atom(shared_address(memory));
    const Pipeline<kStages> pipeline(stages + larger(kStages * kStageBytes, Published::kBytes));
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / kWarpgroupThreads, 0);
    const Owner owner;
    const Tiles tiles = {owner.split, images * (S::tiles[0] * S::tiles[1] * S::tiles[2])};
    if (threadIdx.x == kConsumerThreads) {
      hopper::prefetch_map(a);
      hopper::prefetch_map(c);
      pipeline.init(1, kConsumerThreads / 32 * kWarpArrivals);
      fence_barrier_init();
    }
    __syncthreads();
    const int of_owner = static_cast<int>(blockIdx.x) % kOwners;
    constexpr long long kStep = static_cast<long long>(kOwners) * kVectors;
    float4* const slots = reinterpret_cast<float4*>(workspace) + of_owner * kVectors;
    using Both = Roles<true, kProducerRegisters, S::registers>;
    if (warpgroup == kWarpgroups) {
      Both::become_producer();
      if (threadIdx.x == kConsumerThreads) produce(a, c, owner, tiles, stages, pipeline);
      return;
    }
    Both::become_consumer();
    const int unit = owner.part * kWarpgroups + warpgroup, first = first_set(unit);
    const int own = first - first_set(owner.part * kWarpgroups);
    float4* const published = slots + owner.split * kStep;
    if (first_set(unit + 1) - first == kMost) {
      reduce<kMost>(tiles, stages, pipeline, first, own, published);
    } else {
      reduce<kLeast>(tiles, stages, pipeline, first, own, published);
    }
    float4* const shared = reinterpret_cast<float4*>(memory + (stages - shared_address(memory)));
    Published{shared, slots, counters + of_owner * partition::kCounterWords}(
        owner.split, kStep, [](int v) { return v; },
        [&](int v, const float4& total) { store(b, owner, v, total); });
  }
};

}  // namespace convir
