// Sizes that are known when a kernel is compiled.
#pragma once

namespace convir {

constexpr int kWarpgroupThreads = 128;

constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int smaller(int a, int b) { return a < b ? a : b; }

}  // namespace convir
