// RUN: convir-opt %s -p '' -t cuda --split-input-file | filecheck %s
// A thread transposes a tile: vectors of what is contiguous in the source, then of the result.

// CHECK:       // tiles of 8 by 4 elements a thread
// CHECK-COUNT-8: convir::load<4>(p0 +
// CHECK:       [[V:v[0-9]+]][0] = {{v[0-9]+}}[0];
// CHECK-COUNT-8: convir::store(p1 +
func.func @matrix(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = tensor.empty() : tensor<64x64xf32>
  %0 = linalg.transpose ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) permutation = [1, 0]
  return %0 : tensor<64x64xf32>
}

// -----

// Rows of seven are no multiple of a vector, but the thread that reads one reads all of it.
// CHECK:       // tiles of 7 by 8 elements a thread
// CHECK:       p0[
// CHECK-COUNT-7: convir::store(p1 +
func.func @short_rows(%x: tensor<2x16x7x7xf16>) -> tensor<2x7x7x16xf16> {
  %e = tensor.empty() : tensor<2x7x7x16xf16>
  %0 = linalg.transpose ins(%x : tensor<2x16x7x7xf16>) outs(%e : tensor<2x7x7x16xf16>)
    permutation = [0, 2, 3, 1]
  return %0 : tensor<2x7x7x16xf16>
}

// -----

// The innermost dimension stays: plain vectors.
// CHECK:       // 8 elements a thread, 16 bytes
// CHECK:       convir::load<8>(p0 +
// CHECK:       convir::store(p1 +
func.func @rows(%x: tensor<4x6x16xf16>) -> tensor<6x4x16xf16> {
  %e = tensor.empty() : tensor<6x4x16xf16>
  %0 = linalg.transpose ins(%x : tensor<4x6x16xf16>) outs(%e : tensor<6x4x16xf16>)
    permutation = [1, 0, 2]
  return %0 : tensor<6x4x16xf16>
}
