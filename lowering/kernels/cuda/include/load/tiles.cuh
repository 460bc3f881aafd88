// Tiles of operands in shared memory: lines of elements, swizzled so that eight adjacent lines
// lie in different banks, filled by asynchronous copies, read by ldmatrix or by quads.
#pragma once

#include "arith/scalars.cuh"
#include "load/vectors.cuh"
#include "ptx/cp_async.cuh"

namespace convir {

// kOuter x kReduced elements, `line` along the reduction or across it, by kThreads threads which
// each move kVector neighbours at a time.
template <class E, int kOuter, int kReduced, bool kAlongReduction, int kVector, int kThreads>
struct Tile {
  using Element = E;
  static constexpr bool kLineIsReduced = kAlongReduction;
  static constexpr int kWidth = kVector;
  static constexpr int kLine = kAlongReduction ? kReduced : kOuter;
  static constexpr int kLines = kAlongReduction ? kOuter : kReduced;
  static constexpr int kVectors = kLine / kVector;
  static constexpr int kLinesAtOnce = kThreads / kVectors;
  static constexpr int kPasses = (kLines + kLinesAtOnce - 1) / kLinesAtOnce;
  static constexpr bool kIsAsync = kVector * sizeof(E) >= 4;
  static constexpr int kBytes = kLines * kLine * sizeof(E);
  static constexpr int kPerChunk = 16 / sizeof(E);
  static constexpr int kChunks = kLine / kPerChunk;
  static_assert(kLine % kVector == 0 && kLine % kPerChunk == 0, "lines are whole chunks");
  static_assert(kThreads % kVectors == 0, "a thread's vectors lie at one place of their lines");
  static constexpr int kSwizzled = kChunks < 8 ? kChunks : 8;
  // Lanes read four lines of 32-bit elements at once where lines run across the reduction.
  static constexpr int kTurn = sizeof(E) == 4 && !kAlongReduction ? 2 : 1;

  // By what chunks of a line are moved.
  static constexpr __device__ __forceinline__ int turn(int line) {
    return line * kTurn / (8 / kSwizzled) % kSwizzled;
  }
  // The byte of an element; neighbours up to the end of its 16 bytes follow it.
  static __device__ __forceinline__ int byte(int line, int at) {
    const int chunk = (at / kPerChunk) ^ turn(line);
    return (line * kChunks + chunk) * 16 + (at % kPerChunk) * static_cast<int>(sizeof(E));
  }
  // The same of the line `pass` * kLinesAtOnce behind `line`, of which `first` is the byte: with a
  // constant `pass`, an addition and few other constants. `line` is one of the first kLinesAtOnce.
  static constexpr bool kTurnsAdd = (kLinesAtOnce & (kLinesAtOnce - 1)) == 0 &&
                                    8 % kSwizzled == 0 && kChunks % kSwizzled == 0;
  static __device__ __forceinline__ int byte_of_pass(int first, int pass, int line, int at) {
    if constexpr (!kTurnsAdd) return byte(line + pass * kLinesAtOnce, at);
    const int lines = pass * kLinesAtOnce;
    return (first ^ (turn(lines) * 16)) + lines * kChunks * 16;
  }
};

}  // namespace convir
