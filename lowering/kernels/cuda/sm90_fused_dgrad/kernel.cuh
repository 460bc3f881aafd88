// Phases of a backward data convolution as columns of one product (sm_90a): rows of A that several
// phases read are loaded once for all of them, and all of B stays in shared memory.
//
// A *shift* is a distance between the rows of A and the output pixels that some tap has. For
// each of them a tile of A meets the matrices of the phases that have such a tap. Each of the two
// pairs of a producer thread and a warpgroup works through tiles of its own, so one stores while
// the other multiplies.
//
// Problem (generated): Input, Epilogue, Operands, kSpatial, kFilterByInChannel as for
// `sm90_implicit_gemm/kernel.cuh`;
//   kInChannels, kOutChannels              of one tap
//   kPhases, kShifts              phases are ordered by their place in C
//   matrix[shift][phase]          of B, -1 where the phase has no such tap
//   shift(i), used(i)             a `Tap`; the matrices in the order of their use
//   kPixels, sizes, corner, steps, strides   of the output pixels of all phases together;
//                                  kPixels counts those of an image, of which a launch hands over
//                                  how many there are
//   kPhaseColumns                 of the product
//   phase_sizes[phase], offsets[phase]          of one phase: its output pixels, its place in C
//   kRun                          phases whose columns follow each other in C
//   kSharedBytes                  dynamic shared memory of a block
#pragma once

#include "arith/sizes.cuh"
#include "epilogue/phase_rows.cuh"
#include "mma/sm90_tile.cuh"
#include "pipeline/warp_specialized.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mma_sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "schedule/wgmma_schedule.cuh"

namespace convir::wgmma {

template <int kStages_, int kStoreChannels_>
struct FusedDgradConfig {
  static constexpr int kStages = kStages_;              // tiles of A in flight, for each consumer
  static constexpr int kStoreChannels = kStoreChannels_;  // staged at a time
};

template <class Problem, class Config>
struct FusedDgradKernel {
  using Input = typename Problem::Input;
  using Epilogue = typename Problem::Epilogue;
  using Output = typename Epilogue::Stored;
  using Pointers = typename Epilogue::Pointers;

  static constexpr int kConsumers = 2;
  static constexpr int kThreads = (1 + kConsumers) * kWarpgroupThreads, kConsumerRegisters = 232;
  static constexpr int kRows = 64, kBlockK = 64, kStages = Config::kStages;
  static constexpr int kWidth = Problem::kPhases * Problem::kOutChannels;
  static constexpr int kChunksK = (Problem::kInChannels + kBlockK - 1) / kBlockK;

  // A matrix of B, 64 input channels of it: blocks of as many columns as a swizzled row has, or
  // columns of 64 input channels.
  static constexpr hopper::Major kMajorB =
      Problem::kFilterByInChannel ? hopper::kMajorK : hopper::kMajorMN;
  static constexpr int kBlockChannels = Problem::kOutChannels % 64 == 0 ? 64 : 32;
  static constexpr int kRowBytesB = kMajorB == hopper::kMajorK ? 128 : kBlockChannels * 2;
  static constexpr int kCopiesB =
      kMajorB == hopper::kMajorK ? 1 : Problem::kOutChannels / kBlockChannels;
  static constexpr int kMatrixBytes = Problem::kOutChannels * kBlockK * 2;

  static constexpr int kBytesA = kRows * hopper::kSwizzleBytes;
  using WarpStaging = Staging<Config::kStoreChannels>;

  // Matrices of all shifts, in the order of their use.
  static constexpr int matrices_before(int shift, int phase) {
    int count = 0;
    for (int i = 0; i < shift * Problem::kPhases + phase; ++i) {
      count += Problem::matrix[i / Problem::kPhases][i % Problem::kPhases] >= 0;
    }
    return count;
  }
  static constexpr int kMatrices = matrices_before(Problem::kShifts, 0);
  static constexpr int kBytesB = kMatrices * kChunksK * kMatrixBytes;
  static constexpr int kSharedBytes = hopper::kAtomBytes + kConsumers * kStages * kBytesA + kBytesB +
                                      kConsumers * 4 * WarpStaging::kBytes +
                                      (2 * kConsumers * kStages + 1) * 8;
  static_assert(kWidth <= 256 && Problem::kOutChannels % 32 == 0);
  static_assert(Problem::kRun * Problem::kOutChannels % Config::kStoreChannels == 0);
  static_assert(kSharedBytes == Problem::kSharedBytes);

  unsigned stages, weights, staging, loaded;
  Pipeline<kStages> pipeline;  // of the consumer
  int consumer, pixels;

  __device__ FusedDgradKernel(const char* memory, int consumer, int images)
      : stages(hopper::to_atom(shared_address(memory))),
        weights(stages + kConsumers * kStages * kBytesA),
        staging(weights + kBytesB),
        loaded(staging + kConsumers * (4 * WarpStaging::kBytes + pipeline.kBytes)),
        pipeline(staging + kConsumers * 4 * WarpStaging::kBytes + consumer * pipeline.kBytes),
        consumer(consumer),
        pixels(images * Problem::kPixels) {
    stages += consumer * kStages * kBytesA;
  }

  // One thread of each consumer.
  __device__ void init_barriers() const {
    pipeline.init(1, 4 * kWarpArrivals);
    if (consumer == 0) init_barrier(loaded, 1);
    fence_barrier_init();
  }

  // The tiles of a consumer: every other one of the block's.
  struct Tiles {
    int consumer, tiles;

    template <class Body>
    __device__ __forceinline__ void for_each(Body&& body) const {
      const int step = static_cast<int>(gridDim.x) * kConsumers;
      for (int tile = static_cast<int>(blockIdx.x) * kConsumers + consumer; tile < tiles;
           tile += step) {
        body(tile);
      }
    }
  };

  __device__ __forceinline__ Tiles tiles() const {
    return {consumer, (pixels + kRows - 1) / kRows};
  }

  // One thread: all matrices of B.
  __device__ void load_weights(const hopper::TensorMap& b) const {
    arrive_expecting(loaded, kBytesB);
    for (int i = 0; i < kMatrices * kChunksK; ++i) {
      const int matrix = Problem::used(i % kMatrices), k = i / kMatrices * kBlockK;
      for (int copy = 0; copy < kCopiesB; ++copy) {
        const int n = copy * kBlockChannels;
        hopper::load_3d(weights + i * kMatrixBytes + copy * kBlockK * kRowBytesB, &b, loaded,
                        kMajorB == hopper::kMajorK ? k : n, matrix,
                        kMajorB == hopper::kMajorK ? n : k);
      }
    }
  }

  // One thread of each consumer: the tiles of A of every shift.
  __device__ void produce(const hopper::TensorMap& a) const {
    convir::produce(tiles(), pipeline, [&](int tile, Producer<kStages>& produce) {
      int at[5] = {};
      window_at<Problem::kSpatial>(tile * kRows, Problem::sizes, Problem::steps, Problem::corner,
                                   at);
      for (int chunk = 0; chunk < kChunksK; ++chunk) {
        at[0] = chunk * kBlockK;
        for (int i = 0; i < Problem::kShifts; ++i) {
          produce([&](int stage, unsigned barrier) {
            arrive_expecting(barrier, kBytesA);
            hopper::load_im2col<Problem::kSpatial>(stages + stage * kBytesA, &a, barrier, at,
                                                   Problem::shift(i).offset);
          });
        }
      }
    });
  }

  using Accumulators = float[kWidth / 2];

  template <int kShift>
  static __device__ __forceinline__ void multiply(Accumulators& d, unsigned a, unsigned b) {
    const auto from_a = hopper::tile_descriptor<hopper::kMajorK, kBlockK>(a);
    auto from_b = descriptor_b(b);
    // Descriptors are accumulators of this one and constants: kept from tile to tile they fill
    // registers.
    asm volatile("" : "+l"(from_b));
    static_for<kBlockK / 16>([&](auto step) {
      static_for<Problem::kPhases>([&](auto phase) {
        constexpr int i = decltype(phase)::value;
        if constexpr (Problem::matrix[kShift][i] >= 0) {
          constexpr int matrix = matrices_before(kShift, i) * kMatrixBytes / 16;
          constexpr int kAccumulators = Problem::kOutChannels / 2;
          hopper::Wgmma<Input, Problem::kOutChannels, hopper::kMajorK, kMajorB>::run(
              d + i * kAccumulators, from_a + step.value * hopper::kDescriptorStep<hopper::kMajorK>,
              from_b + (matrix + step.value * kStepB), 1);
        }
      });
    });
  }
  static __device__ __forceinline__ unsigned long long descriptor_b(unsigned address) {
    if constexpr (kMajorB == hopper::kMajorK) {
      return hopper::tile_descriptor<hopper::kMajorK, kBlockK>(address);
    } else {
      return hopper::block_descriptor<kRowBytesB, kBlockK>(address);
    }
  }
  static constexpr int kStepB = kMajorB == hopper::kMajorK
                                    ? hopper::kDescriptorStep<hopper::kMajorK>
                                    : 16 * kRowBytesB / 16;

  // A warpgroup of each consumer.
  __device__ __forceinline__ void consume(Output* c, const Pointers& operands) const {
    const int warp = threadIdx.x % kWarpgroupThreads / 32;
    wait_barrier(loaded, 0);
    const auto reduce = [&](int, Accumulators& d, Consumer<kStages>& full) {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) d[i] = 0;
      mma::Mainloop<kStages> mainloop(full);
#pragma unroll 1
      for (int chunk = 0; chunk < kChunksK; ++chunk) {
        static_for<Problem::kShifts>([&](auto shift) {
          mainloop.step(d, [&](int stage, bool) {
            multiply<decltype(shift)::value>(d, stages + stage * kBytesA,
                                             weights + chunk * (kMatrices * kMatrixBytes));
          });
        });
      }
      mainloop.finish(d);
      return true;
    };
    convir::consume<Accumulators>(
        tiles(), pipeline, reduce, [&](int tile, const Accumulators& d) {
          store(d, tile * kRows + warp * kWarpRows,
                staging + (consumer * 4 + warp) * WarpStaging::kBytes, c, operands);
        });
  }

  __device__ __forceinline__ PhaseRow<Problem> row_at(int number) const {
    PhaseRow<Problem> row = {0, 0};
    if (number >= pixels) return row;
    int at[kMaxAxes];
    pixels_of(number, Problem::sizes, at);
    row.offset = offset_of(at, Problem::strides);
    static_for<Problem::kPhases>([&](auto phase) {
      const bool is_inside = is_below(at, Problem::phase_sizes[phase.value]);
      row.phases |= static_cast<unsigned>(is_inside) << phase.value;
    });
    return row;
  }

  __device__ __forceinline__ void store(const Accumulators& d, int m, unsigned to, Output* c,
                                        const Pointers& operands) const {
    constexpr int kOutChannels = Config::kStoreChannels;
    constexpr int kRunChannels = Problem::kRun * Problem::kOutChannels;
    const PhaseRow<Problem> whole = row_at(m + threadIdx.x % kWarpRows);
    static_for<kWidth / kOutChannels>([&](auto part) {
      constexpr int first = decltype(part)::value * kOutChannels;
      const PhaseRow<Problem, first> row = {whole.offset, whole.phases};
      using Finisher = Finish<Problem, PhaseColumns<Problem, first>>;
      stage<kOutChannels, Finisher::kTogether>(to, d, first, Finisher(operands, row));
      Output* const run = c + Problem::offsets[first / kRunChannels * Problem::kRun] +
                          first % kRunChannels;
      store_rows<Problem, kOutChannels>(run, to, row, kOutChannels);
    });
  }
};

// The body of a kernel of `kThreads` threads.
template <class Problem, class Config>
__device__ __forceinline__ void contract_fused_dgrad(typename Problem::Epilogue::Stored* c,
                                                const typename Problem::Epilogue::Pointers& operands,
                                                int images, const hopper::TensorMap& b,
                                                const hopper::TensorMap& a) {
  using Kernel = FusedDgradKernel<Problem, Config>;
  extern __shared__ char memory[];
  const int warpgroup = threadIdx.x / kWarpgroupThreads;
  if (threadIdx.x < Kernel::kConsumers) {
    Kernel(memory, threadIdx.x, images).init_barriers();
  } else if (threadIdx.x == 32) {
    hopper::prefetch_map(&a);
    hopper::prefetch_map(&b);
  } else if (threadIdx.x >= 64 && threadIdx.x < 64 + Problem::kShifts) {
    touch(Problem::shift(threadIdx.x - 64).offset[0]);
  }
  __syncthreads();
  Roles<true, kProducerRegisters, Kernel::kConsumerRegisters>::run(
      warpgroup == 0,
      [&] {
        const Kernel kernel(memory, threadIdx.x / 32 % Kernel::kConsumers, images);
        if (threadIdx.x < 32 * Kernel::kConsumers) {
          if (threadIdx.x % 32 == 0) kernel.produce(a);
        } else if (threadIdx.x == 32 * Kernel::kConsumers) {
          kernel.load_weights(b);
        }
      },
      [&] { Kernel(memory, warpgroup - 1, images).consume(c, operands); });
}

}  // namespace convir::wgmma
