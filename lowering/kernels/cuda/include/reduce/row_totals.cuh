// What elements of a row come to, part by part: a part begins with `start`, takes elements by `add`,
// which pairs them up, and other parts by `merge`, in either order with the same bits.
#pragma once

namespace convir {

// Adds pairs of pairs: rounding errors grow with the logarithm of the count.
template <int kCount, typename T>
__device__ __forceinline__ T sum_of_pairs(const T (&x)[kCount]) {
  T sums[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] = x[i];
#pragma unroll
  for (int step = 1; step < kCount; step *= 2) {
#pragma unroll
    for (int i = 0; i + step < kCount; i += 2 * step) sums[i] += sums[i + step];
  }
  return sums[0];
}

// A sum, and what rounding has lost of it (Knuth's TwoSum).
template <typename T>
struct Sum {
  T high, low;
  __device__ __forceinline__ void start() { high = low = T(0); }
  __device__ __forceinline__ void add_one(T x) { low += lost_by_adding(x); }
  template <int kCount>
  __device__ __forceinline__ void add(const T (&x)[kCount]) {
    add_one(sum_of_pairs(x));
  }
  __device__ __forceinline__ void merge(const Sum& other) {
    low += other.low;
    low += lost_by_adding(other.high);
  }
  // What is lost of an infinity is no number.
  __device__ __forceinline__ T total() const {
    const T both = high + low;
    return both == both ? both : high;
  }

 private:
  __device__ __forceinline__ T lost_by_adding(T x) {
    const T sum = high + x;
    const T added = sum - high;
    const T lost = (high - (sum - added)) + (x - added);
    high = sum;
    return lost;
  }
};

template <typename T>
struct Product {
  T value;
  __device__ __forceinline__ void start() { value = T(1); }
  template <int kCount>
  __device__ __forceinline__ void add(const T (&x)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) value *= x[i];
  }
  __device__ __forceinline__ void merge(const Product& other) { value *= other.value; }
  __device__ __forceinline__ T total() const { return value; }
};

template <typename T>
struct Maximum {
  T value;
  __device__ __forceinline__ void start() { value = -T(from_bits<float>(0x7f800000ull)); }
  template <int kCount>
  __device__ __forceinline__ void add(const T (&x)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) value = maximum(value, x[i]);
  }
  __device__ __forceinline__ void merge(const Maximum& other) {
    value = maximum(value, other.value);
  }
  __device__ __forceinline__ T total() const { return value; }
};

template <typename T>
struct Minimum {
  T value;
  __device__ __forceinline__ void start() { value = T(from_bits<float>(0x7f800000ull)); }
  template <int kCount>
  __device__ __forceinline__ void add(const T (&x)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) value = minimum(value, x[i]);
  }
  __device__ __forceinline__ void merge(const Minimum& other) {
    value = minimum(value, other.value);
  }
  __device__ __forceinline__ T total() const { return value; }
};

// A quotient by a count, almost always rounded to nearest, without the branch of a division.
__device__ __forceinline__ float over_count(float x, float count) {
  const float inverse = __fdividef(1.0f, count);
  const float quotient = x * inverse;
  return fmaf(fmaf(-quotient, count, x), inverse, quotient);
}
__device__ __forceinline__ double over_count(double x, double count) { return x / count; }

// A sum, and the sum of the squares of what differs from the mean (Chan, Golub and LeVeque).
template <typename T>
struct Moments {
  T count;
  Sum<T> sum;
  T squares;
  __device__ __forceinline__ void start() {
    count = squares = T(0);
    sum.start();
  }
  template <int kCount>
  __device__ __forceinline__ void add(const T (&x)[kCount]) {
    const T total = sum_of_pairs(x);
    const T mean = total * (T(1) / T(kCount));
    T differing[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) differing[i] = (x[i] - mean) * (x[i] - mean);
    join(T(kCount), mean, sum_of_pairs(differing));
    sum.add_one(total);
    count += T(kCount);
  }
  __device__ __forceinline__ void merge(const Moments& other) {
    if (other.count == T(0)) return;
    join(other.count, over_count(other.sum.high, other.count), other.squares);
    sum.merge(other.sum);
    count += other.count;
  }
  __device__ __forceinline__ T total() const { return sum.total(); }

 private:
  __device__ __forceinline__ void join(T others, T mean, T more) {
    const T apart = count == T(0) ? T(0) : mean - over_count(sum.high, count);
    squares = (squares + more) + apart * apart * over_count(count * others, count + others);
  }
};

// A value that another thread of the warp has.
template <class T>
__device__ __forceinline__ T of_lane(const T& value, int lane) {
  unsigned words[sizeof(T) / 4];
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (unsigned i = 0; i < sizeof(T) / 4; ++i) words[i] = __shfl_sync(~0u, words[i], lane);
  T found;
  memcpy(&found, words, sizeof(T));
  return found;
}

}  // namespace convir
