// Coordinates of a number: of an output pixel among all, of a filter tap.
#pragma once

namespace convir {

// visit(axis, coordinate) for kAxes axes, the innermost first, whose sizes are size(axis): the
// outermost has what the others leave. kLastIsInnermost: axes are numbered from the outermost on.
template <int kAxes, bool kLastIsInnermost, class Number, class Size, class Visit>
__device__ __forceinline__ void split_number(Number number, Size&& size, Visit&& visit) {
#pragma unroll
  for (int i = 0; i < kAxes; ++i) {
    const int axis = kLastIsInnermost ? kAxes - 1 - i : i;
    if (i == kAxes - 1) {
      visit(axis, number);
    } else {
      const Number rest = number / size(axis);
      visit(axis, number - rest * size(axis));
      number = rest;
    }
  }
}

}  // namespace convir
