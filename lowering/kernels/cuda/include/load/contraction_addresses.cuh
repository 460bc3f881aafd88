// Where the operands of a contraction lie: output pixels and taps as elements of A, B and C.
//
// What `Problem` holds is described in lowering/kernels/cuda/sm80_implicit_gemm/problem.py, which
// writes it.
#pragma once

#include "arith/coordinates.cuh"
#include "load/tiles.cuh"

namespace convir {
namespace implicit_gemm {

template <int kAxes>
struct Phase {
  int pixels, taps;
  long long out, weight;                     // elements before position 0, before tap 0
  int size[kAxes], extent[kAxes], step[kAxes];
  int along[kAxes], first[kAxes], tap_step[kAxes];  // taps: how many, the first, the distance
  long long tap_weight[kAxes], row[kAxes], out_stride[kAxes];
};

// The elements of an operand of the epilogue, along a phase's axes.
template <int kAxes>
struct Rows {
  long long offset, stride[kAxes];
};

// visit(axis, coordinate) of an output pixel or a tap, the innermost axis first.
template <class P, class Visit>
__device__ __forceinline__ void along(const int (&sizes)[P::kAxes], int number, Visit&& visit) {
  split_number<P::kAxes, true>(number, [&](int axis) { return sizes[axis]; }, visit);
}

// Where an output pixel reads A for the tap 0, and where it stores.
template <class P>
struct Position {
  typename P::AOffset offset;
  int at[P::kAxes];
  bool inside;
};

template <class P>
__device__ __forceinline__ Position<P> position(int phase, int x) {
  const auto& in = P::kPhase[phase];
  Position<P> result;
  result.inside = x < in.pixels;
  if constexpr (P::kALinear != 0) {
    result.offset = static_cast<typename P::AOffset>(P::kALinear) * x;
    return result;
  }
  result.offset = 0;
  along<P>(in.size, x, [&](int axis, int at) {
    result.at[axis] = at * in.step[axis];
    result.offset += static_cast<typename P::AOffset>(in.row[axis]) * result.at[axis];
  });
  return result;
}

// The element of C of an output pixel.
template <class P, class Offset>
__device__ __forceinline__ Offset out_offset(int phase, int x) {
  const auto& in = P::kPhase[phase];
  Offset offset = static_cast<Offset>(in.out);
  if constexpr (P::kCLinear != 0) return offset + static_cast<Offset>(P::kCLinear) * x;
  along<P>(in.size, x, [&](int axis, int at) {
    offset += static_cast<Offset>(in.out_stride[axis]) * at;
  });
  return offset;
}

// The element of operand i of the epilogue of an output pixel, for column 0 of group 0.
template <class P>
__device__ __forceinline__ long long epilogue_row(int phase, int i, int x) {
  const auto& in = P::kPhase[phase];
  const auto& operand = P::kEpilogue[phase][i];
  long long offset = operand.offset;
  along<P>(in.size, x, [&](int axis, int at) { offset += operand.stride[axis] * at; });
  return offset;
}

// What a tap and a depth add to a position's element of A, and their element of B.
template <class P>
struct Tap {
  typename P::AOffset offset;
  typename P::BOffset weight;
  int at[P::kAxes];
  bool inside;

  __device__ __forceinline__ Tap shifted(int in_channels_) const {
    Tap result = *this;
    result.offset += static_cast<typename P::AOffset>(P::kAStride) * in_channels_;
    result.weight += static_cast<typename P::BOffset>(P::kBInChannel) * in_channels_;
    return result;
  }
};

template <class P>
__device__ __forceinline__ Tap<P> tap(int phase, int j) {
  const auto& in = P::kPhase[phase];
  int rest, in_channels;
  if constexpr (P::kTapMinor) {
    in_channels = j / in.taps;
    rest = j % in.taps;
  } else {
    in_channels = j % P::kInChannels;
    rest = j / P::kInChannels;
  }
  Tap<P> result;
  result.inside = j < in.taps * P::kInChannels;
  result.offset = static_cast<typename P::AOffset>(P::kAStride) * in_channels;
  result.weight = static_cast<typename P::BOffset>(P::kBInChannel) * in_channels +
                  static_cast<typename P::BOffset>(in.weight);
  along<P>(in.along, rest, [&](int axis, int number) {
    result.at[axis] = in.first[axis] + number * in.tap_step[axis];
    result.offset += static_cast<typename P::AOffset>(in.row[axis]) * result.at[axis];
    result.weight += static_cast<typename P::BOffset>(in.tap_weight[axis]) * number;
  });
  return result;
}

// A: rows by output pixels and taps.
template <class P>
__device__ __forceinline__ bool reads(int phase, const Position<P>& x, const Tap<P>& t) {
  bool inside = x.inside && t.inside;
#pragma unroll
  for (int axis = 0; axis < P::kAxes; ++axis) {
    if (P::kBounded[axis]) {
      const unsigned extent = static_cast<unsigned>(P::kPhase[phase].extent[axis]);
      inside = inside && static_cast<unsigned>(x.at[axis] + t.at[axis]) < extent;
    }
  }
  return inside;
}

// Taps in the order of the reduction, kBK steps at a time. Where input channels are whole tiles, a
// tile has one tap, and the next one follows by additions.
template <class P, int kBK>
struct TapWalk {
  static constexpr bool kIsUniform = !P::kTapMinor && P::kInChannels % kBK == 0;
  int phase, begin, in_channels;
  int number[P::kAxes];
  Tap<P> first;

  __device__ __forceinline__ TapWalk(int in_phase, int at) : phase(in_phase), begin(at) {
    if constexpr (kIsUniform) {
      const auto& in = P::kPhase[phase];
      first = tap<P>(phase, begin);
      in_channels = begin % P::kInChannels;
      along<P>(in.along, begin / P::kInChannels, [&](int axis, int at) { number[axis] = at; });
    }
  }

  __device__ __forceinline__ Tap<P> at(int distance) const {
    if constexpr (kIsUniform) {
      return first.shifted(distance);
    } else {
      return tap<P>(phase, begin + distance);
    }
  }

  __device__ __forceinline__ void advance() {
    begin += kBK;
    if constexpr (kIsUniform) {
      in_channels += kBK;
      first = first.shifted(kBK);
      if (in_channels == P::kInChannels) next_tap();
    }
  }

  __device__ __forceinline__ void next_tap() {
    using AOffset = typename P::AOffset;
    using BOffset = typename P::BOffset;
    const auto& in = P::kPhase[phase];
    in_channels = 0;
    first = first.shifted(-P::kInChannels);
    bool carry = true;
#pragma unroll
    for (int axis = P::kAxes - 1; axis >= 0; --axis) {
      if (!carry) continue;
      const bool wraps = axis > 0 && number[axis] + 1 == in.along[axis];
      const int by = wraps ? -number[axis] : 1;
      number[axis] += by;
      first.at[axis] += by * in.tap_step[axis];
      first.offset += static_cast<AOffset>(in.row[axis]) * (by * in.tap_step[axis]);
      first.weight += static_cast<BOffset>(in.tap_weight[axis]) * by;
      carry = wraps;
    }
  }
};

template <class P, int kBK>
struct PositionWalk {
  int phase, begin;
  __device__ __forceinline__ PositionWalk(int in_phase, int at) : phase(in_phase), begin(at) {}
  __device__ __forceinline__ Position<P> at(int distance) const {
    return position<P>(phase, begin + distance);
  }
  __device__ __forceinline__ void advance() { begin += kBK; }
};

// A as the rows of the product. find() is where an element would lie: nothing is read there unless
// it is inside.
template <class P, int kBK>
struct ASource {
  using Element = typename P::A;
  // Elements from a place of the reduction to the next one of a tile; 0 if that varies.
  static constexpr long long kStep =
      !P::kComputesB && TapWalk<P, kBK>::kIsUniform ? P::kAStride : 0;
  int phase;
  const Element* base;

  __device__ __forceinline__ auto walk(int begin) const {
    if constexpr (P::kComputesB) {
      return PositionWalk<P, kBK>(phase, begin);
    } else {
      return TapWalk<P, kBK>(phase, begin);
    }
  }
  __device__ __forceinline__ auto fixed(int outer) const {
    if constexpr (P::kComputesB) {
      return tap<P>(phase, outer);
    } else {
      return position<P>(phase, outer);
    }
  }
  __device__ __forceinline__ const Element* find(const Position<P>& x, const Tap<P>& t,
                                                 bool& inside) const {
    inside = reads<P>(phase, x, t);
    return base + (x.offset + t.offset);
  }
  __device__ __forceinline__ const Element* find(const Tap<P>& t, const Position<P>& x,
                                                 bool& inside) const {
    return find(x, t, inside);
  }
};

template <class P>
struct Column {
  typename P::BOffset offset;
  bool inside;
};

// The other input as the columns of the product: B by taps, or C by output pixels.
template <class P, int kBK>
struct OtherSource {
  using Element = typename P::Other;
  static constexpr long long kStep =
      !P::kComputesB && TapWalk<P, kBK>::kIsUniform ? P::kBInChannel : 0;
  int phase;
  const Element* base;

  struct Out {
    typename P::BOffset weight;
    bool inside;
  };
  struct OutWalk {
    int phase, begin;
    __device__ __forceinline__ Out at(int distance) const {
      const int x = begin + distance;
      return {out_offset<P, typename P::BOffset>(phase, x), x < P::kPhase[phase].pixels};
    }
    __device__ __forceinline__ void advance() { begin += kBK; }
  };

  __device__ __forceinline__ auto walk(int begin) const {
    if constexpr (P::kComputesB) {
      return OutWalk{phase, begin};
    } else {
      return TapWalk<P, kBK>(phase, begin);
    }
  }
  __device__ __forceinline__ Column<P> fixed(int column) const {
    const long long stride = P::kComputesB ? P::kCStride : P::kBOutChannel;
    return {static_cast<typename P::BOffset>(stride) * column, column < P::kOutChannels};
  }
  template <class Moving>
  __device__ __forceinline__ const Element* find(const Column<P>& column, const Moving& moving,
                                                 bool& inside) const {
    inside = column.inside && moving.inside;
    return base + (column.offset + moving.weight);
  }
};

}  // namespace implicit_gemm
}  // namespace convir
