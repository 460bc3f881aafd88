// How rows of X and dY get into shared memory; see sm90_row_packed_wgrad/kernel.cuh.
#pragma once

#include "load/pieces.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "sm90_row_packed_wgrad/tile.cuh"

namespace convir::row_packed_wgrad {

using hopper::TensorMap;

// Of the producer warps; consumer warpgroups have consumer_warpgroups::kBarrier, and the one behind
// it.
constexpr int kLoadBarrier = 3;

// The window of dY that a step's output pixels of X read; it may begin and end outside.
template <class P, class C>
struct Window {
  int row, col;

  __device__ __forceinline__ Window(const Place<P, C>& place, const Step<P, C>& step)
      : row(step.row - P::kFirstTapRow - (place.tap_row + C::kTapRows - 1)),
        col(step.col - place.last_col) {}

  static __device__ __forceinline__ bool is_inside(int y_row, int y_col) {
    return static_cast<unsigned>(y_row) < static_cast<unsigned>(P::kOutRows) &&
           static_cast<unsigned>(y_col) < static_cast<unsigned>(P::kOutCols);
  }
};

// TMA brings X; threads copy dY, piece by piece.
template <class P, class C>
struct Filler {
  using L = Layout<P, C>;
  using E = typename P::E;
  using Offset = typename P::Offset;
  static constexpr int kLiveOutChannels = L::kOutChannelTiles == 1 ? P::kOutChannels : C::kOutChannels;
  static constexpr int kPieces = (kLiveOutChannels * 2 + P::kYPiece - 1) / P::kYPiece;  // of a position
  static constexpr int kRowPieces = L::kWindowCols * kPieces;
  static constexpr int kCopies = L::kWindowRows * kRowPieces;
  // How far apart the pieces of a thread are.
  static constexpr int kNextRow = L::kLoadThreads / kRowPieces;
  static constexpr int kNextCol = L::kLoadThreads % kRowPieces / kPieces;
  static constexpr int kNextPiece = L::kLoadThreads % kRowPieces % kPieces;

  const TensorMap* x;
  const E* y;
  int thread;

  // One thread asks for X, and one for rows of dY: of the warps that have least to take apart.
  static constexpr int kAsking = L::kLoadThreads - 32, kAskingX = L::kLoadThreads - 64;
  __device__ __forceinline__ bool is_asking() const { return thread == kAskingX; }

  __device__ __forceinline__ void ask_x(const Place<P, C>& place, const Step<P, C>& step,
                                        unsigned stage, unsigned full) const {
    if (!is_asking()) return;
    arrive_expecting(full, L::kXBytes);
#pragma unroll
    for (int i = 0; i < C::kInChannelGroups; ++i) {
      const int in_channels = place.group * P::kInChannels + place.in_channels + i * kInChannels_;
      const unsigned to = stage + i * L::kXChannelsBytes;
      hopper::load_4d<L::kReadsOnce>(to, x, full, in_channels, step.col, step.row, step.image);
    }
  }

  __device__ __forceinline__ void fill_y(const Place<P, C>& place, const Step<P, C>& step,
                                         unsigned to) const {
    const Window<P, C> window(place, step);
    const E* from = y + P::kYGroup * place.group + P::kYImage * step.image + place.column;
    int row = thread / kRowPieces, col = thread % kRowPieces / kPieces;
    int piece = thread % kPieces;
    copy_pieces<kCopies, L::kLoadThreads, P::kYPiece, 2>(thread, [&](int, int, auto copy) {
      const int y_row = window.row + row, y_col = window.col + col;
      const bool inside = window.is_inside(y_row, y_col);
      const Offset at = P::kYRow * static_cast<Offset>(y_row) +
                        P::kYCol * static_cast<Offset>(y_col) + piece * (P::kYPiece / 2);
      const int byte = piece * P::kYPiece;
      if (L::kOutChannelTiles == 1 || piece * (P::kYPiece / 2) < P::kOutChannels - place.column) {
        copy(to + row * L::kYRowBytes + byte / 16 * L::kPlaneBytes + col * 16 + byte % 16,
             inside ? from + at : y, inside);
      }
      piece += kNextPiece;
      col += kNextCol + (piece >= kPieces);
      piece -= piece >= kPieces ? kPieces : 0;
      row += kNextRow + (col >= L::kWindowCols);
      col -= col >= L::kWindowCols ? L::kWindowCols : 0;
    });
  }
};

// TMA brings rows of dY as they lie, and threads take them apart.
template <class P, class C>
struct BulkRows {
  using L = Layout<P, C>;
  static constexpr int kPieces = L::kPixelBytes_ / P::kYPiece;

  const char* y;
  int thread;

  // Bytes of dY before a position, of an image inside of it.
  static __device__ __forceinline__ long long offset(int image, int row, int col) {
    return 2 * (P::kYImage * image + static_cast<long long>(P::kYRow) * row + P::kYCol * col);
  }

  static __device__ __forceinline__ bool is_asking(int thread) {
    return thread == Filler<P, C>::kAsking;
  }

  // One thread asks for what lies inside of the window; it arrives at a barrier.
  __device__ __forceinline__ void ask(const Place<P, C>& place, const Step<P, C>& step,
                                      unsigned to, unsigned barrier) const {
    if (!is_asking(thread)) return;
    const Window<P, C> window(place, step);
    const int row = max(window.row, 0), rows = min(window.row + L::kWindowRows, P::kOutRows) - row;
    const int col = L::kIsWhole ? 0 : max(window.col, 0);
    const int cols = L::kIsWhole ? P::kOutCols
                                 : min(window.col + L::kWindowCols, P::kOutCols) - col;
    if (rows <= 0 || cols <= 0) return arrive(barrier);
    const int copies = L::kIsWhole ? 1 : rows;
    const int bytes = (L::kIsWhole ? rows : 1) * cols * L::kPixelBytes_;
    int expected = 0;
    for (int i = 0; i < copies; ++i) {
      expected += round_up(static_cast<int>(offset(step.image, row + i, col) & 15) + bytes);
    }
    arrive_expecting(barrier, expected);
    to += L::kIsWhole ? 0 : (row - window.row) * L::kWaitingRowBytes;
    for (int i = 0; i < copies; ++i) {
      const long long at = offset(step.image, row + i, col);
      const int skipped = at & 15;
      hopper::load_bulk(to + i * L::kWaitingRowBytes, y + (at - skipped),
                        round_up(skipped + bytes), barrier);
    }
  }
  static __device__ __forceinline__ int round_up(int bytes) { return (bytes + 15) / 16 * 16; }

  // Output pixels of a thread whose loads are all under way before the first one is stored.
  static constexpr int kMostAtOnce = !C::kTradesRegisters ? 4 : L::kThreads / 32 == 12 && !L::kIsPacked ? 2 : 1;

  // The window of a step, and where its rows lie.
  struct Arrived {
    Window<P, C> window;
    int image, first_row, first_col;
    unsigned rows;

    __device__ __forceinline__ Arrived(const Place<P, C>& place, const Step<P, C>& step, unsigned at)
        : window(place, step),
          image(step.image),
          first_row(max(window.row, 0)),
          first_col(max(window.col, 0)),
          rows(L::kIsWhole ? at + static_cast<int>(offset(image, first_row, 0) & 15) : at) {}
  };

  // Copies the windows of `steps` steps, kMost or fewer, to their stages, with zeros where they lie
  // outside.
  template <int kMost>
  __device__ __forceinline__ void take_apart(const Place<P, C>& place, int begin, int steps,
                                             unsigned rows, unsigned stages) const {
    constexpr int kPixels = L::kWindowRows * L::kWindowCols;
    constexpr int kSlabGroups = divide_up(kMost * kPixels, L::kLoadThreads);
    constexpr int kAtOnce = kSlabGroups < kMostAtOnce ? kSlabGroups : kMostAtOnce;
    const Arrived first(place, Step<P, C>(begin), rows);
#pragma unroll 1
    for (int turn = 0; turn < kSlabGroups; turn += kAtOnce) {
      unsigned words[kAtOnce][4 * L::kPlanes] = {};
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int i = thread + (turn + k) * L::kLoadThreads, of = kMost == 1 ? 0 : i / kPixels;
        const int row = (i - of * kPixels) / L::kWindowCols;
        const int col = (i - of * kPixels) % L::kWindowCols;
        const Arrived at = kMost == 1 ? first
                                      : Arrived(place, Step<P, C>(begin + of),
                                                rows + of * L::kWaitingBytes);
        const int y_row = at.window.row + row, y_col = at.window.col + col;
        if (i >= steps * kPixels || !at.window.is_inside(y_row, y_col)) continue;
        unsigned source = at.rows;
        if constexpr (L::kIsWhole) {
          source += (y_row - at.first_row) * L::kWaitingRowBytes + y_col * L::kPixelBytes_;
        } else {
          source += row * L::kWaitingRowBytes + (y_col - at.first_col) * L::kPixelBytes_ +
                    static_cast<int>(offset(at.image, y_row, at.first_col) & 15);
        }
#pragma unroll
        for (int plane = 0; plane < L::kPlanes; ++plane) {
          load_plane(words[k] + 4 * plane, source, plane);
        }
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int i = thread + (turn + k) * L::kLoadThreads, of = kMost == 1 ? 0 : i / kPixels;
        const int row = (i - of * kPixels) / L::kWindowCols;
        const int col = (i - of * kPixels) % L::kWindowCols;
        if (i >= steps * kPixels) continue;
        const unsigned to = stages + of * L::kStageBytes + L::kXBytes;
        if constexpr (L::kIsPacked) {
          if (row < L::kCopyRows) store_packed(words[k], to + col * 16, row);
          if (L::kCopies > 1 && row > 0) {
            store_packed(words[k], to + L::kCopyBytes + col * 16, row - 1);
          }
        } else {
          store_planes<0, L::kPlanes>(words[k], to + row * L::kYRowBytes + col * 16);
        }
      }
    }
  }

  // Columns of a position of row `row` of a copy.
  static __device__ __forceinline__ void store_packed(const unsigned (&words)[4 * L::kPlanes],
                                                      unsigned to, int row) {
    constexpr int kWhole = C::kOutChannels / kEight;  // planes of a row; four more columns are a half
    to += row / 2 * L::kPairBytes;
    if (row % 2 == 0) {
      store_planes<0, kWhole>(words, to);
      store_shared(to + kWhole * L::kPlaneBytes,
                   make_uint2(words[4 * kWhole], words[4 * kWhole + 1]));
    } else {
      to += kWhole * L::kPlaneBytes;
      store_shared(to + 8, make_uint2(words[0], words[1]));
      store_planes<2, kWhole>(words, to + L::kPlaneBytes);
    }
  }
  template <int kFirst, int kPlanes>
  static __device__ __forceinline__ void store_planes(const unsigned (&words)[4 * L::kPlanes],
                                                      unsigned to) {
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      const unsigned* of = words + kFirst + 4 * plane;
      store_shared(to + plane * L::kPlaneBytes, make_uint4(of[0], of[1], of[2], of[3]));
    }
  }

  // The 8 columns of a plane, as far as there are any.
  static __device__ __forceinline__ void load_plane(unsigned* words, unsigned position,
                                                    int plane) {
    constexpr int kWords = P::kYPiece / 4, kOfPlane = 16 / P::kYPiece;
#pragma unroll
    for (int i = 0; i < kOfPlane; ++i) {
      const int piece = plane * kOfPlane + i;
      if (piece >= kPieces) continue;
      load_shared<kWords>(words + i * kWords, position + piece * P::kYPiece);
    }
  }
};

}  // namespace convir::row_packed_wgrad
