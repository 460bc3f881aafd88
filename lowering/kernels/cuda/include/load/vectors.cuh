// Consecutive elements that a thread loads and stores at once, in one access of up to 16 bytes.
#pragma once

namespace convir {

constexpr int vector_alignment(int bytes) {
  const int power = bytes & -bytes;
  return power < 16 ? power : 16;
}

template <typename T, int kLanes>
struct alignas(vector_alignment(sizeof(T) * kLanes)) Vector {
  T lanes[kLanes];
  __device__ T &operator[](int lane) { return lanes[lane]; }
  __device__ const T &operator[](int lane) const { return lanes[lane]; }
};

template <int kBytes>
struct Word;
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

// The elements from `from` on, which lies at a multiple of all their bytes.
template <int kLanes, typename T>
__device__ inline Vector<T, kLanes> load(const T *from) {
  using Bits = typename Word<sizeof(T) * kLanes>::Type;
  const Bits bits = *reinterpret_cast<const Bits *>(from);
  Vector<T, kLanes> vector;
  memcpy(&vector, &bits, sizeof(Bits));
  return vector;
}

template <typename T, int kLanes>
__device__ inline void store(T *to, const Vector<T, kLanes> &vector) {
  if constexpr (sizeof(T) != 2) {
    *reinterpret_cast<Vector<T, kLanes> *>(to) = vector;
  } else {
    using Bits = typename Word<sizeof(T) * kLanes>::Type;
    Bits bits;
    memcpy(&bits, &vector, sizeof(Bits));
    *reinterpret_cast<Bits *>(to) = bits;
  }
}

// The same to global memory, in one instruction even where the compiler would take it apart, as it
// does with the results of long accumulators.
template <typename T, int kLanes>
__device__ inline void store_whole(T *to, const Vector<T, kLanes> &vector) {
  if constexpr (sizeof(T) * kLanes == 16) {
    uint4 bits;
    memcpy(&bits, &vector, sizeof(bits));
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(bits.x), "r"(bits.y),
                 "r"(bits.z), "r"(bits.w)
                 : "memory");
  } else if constexpr (sizeof(T) * kLanes == 8) {
    uint2 bits;
    memcpy(&bits, &vector, sizeof(bits));
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(bits.x), "r"(bits.y)
                 : "memory");
  } else {
    store(to, vector);
  }
}

}  // namespace convir
