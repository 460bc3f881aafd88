// The store of what a thread has of a row, or of several: in one access, or as far as there are
// elements.
#pragma once

#include "load/vectors.cuh"

namespace convir {

// How elements are stored: each by itself; or all in one access, as they are contiguous and
// aligned; or so even where the compiler would take the access apart.
enum Access { kApart, kTogether, kAtOnce };

// Stores make(i) in element i * stride of `to` where inside(i), for i below kElements; unless they
// are apart, all are inside or none.
template <int kElements, Access kAccess, class Stored, class Inside, class Make>
__device__ __forceinline__ void store_results(Stored* to, long long stride, Inside&& inside,
                                              Make&& make) {
  if constexpr (kAccess == kApart) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (inside(i)) to[i * stride] = make(i);
    }
  } else {
    if (!inside(0)) return;
    Vector<Stored, kElements> results;
#pragma unroll
    for (int i = 0; i < kElements; ++i) results[i] = make(i);
    if constexpr (kAccess == kAtOnce) {
      store_whole(to, results);
    } else {
      store(to, results);
    }
  }
}
// The same of elements that are all inside, in one access.
template <int kElements, Access kAccess = kTogether, class Stored, class Make>
__device__ __forceinline__ void store_results(Stored* to, Make&& make) {
  store_results<kElements, kAccess>(to, 1, [](int) { return true; }, make);
}

// Stores a block of four accumulators of the weights at `out`: of input channels `in_channels` and
// 8 further, and of two columns, as far as there are any.
template <class P, class Epilogue>
__device__ __forceinline__ void store_four(typename Epilogue::Stored* out, int in_channels,
                                           int column, const float (&accumulators)[4]) {
  const typename Epilogue::Pointers none{};
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int d = in_channels + row * 8;
    store_results<2, kApart>(
        out + (P::kBInChannel * d + P::kBOutChannel * column), P::kBOutChannel,
        [&](int i) { return d < P::kInChannels && column + i < P::kOutChannels; },
        [&](int i) { return Epilogue::apply(accumulators[2 * row + i], none, nullptr); });
  }
}

}  // namespace convir
