// RUN: convir-opt %s -p 'form-kernel-regions,select-kernels{device=cuda without=reduction},outline-kernels,convert-to-rt{device=cuda},plan-memory' -t cuda --split-input-file | filecheck %s
// Who computes a reduction: a thread, a team, or teams for parts of it. The order is always the same.

// Rows: a warp each, 16 bytes a read, joined in pairs.
// CHECK:       // 32 threads an element
// CHECK:         const int team = threadIdx.x / 32, member = threadIdx.x % 32;
// CHECK:         for (int [[I:i[0-9]+]] = 0 + member; [[I]] < 32; [[I]] += 32) {
// CHECK:           convir::load<8>(p0 +
// CHECK:         [[ACC:acc[0-9]+]] = convir::join<256, 32, true>([[ACC]], member, {{combine[0-9]+}});
// CHECK:         if (writes) p1[
func.func @rows(%x: tensor<131072x256xf16>) -> tensor<131072xf32> {
  %z = arith.constant dense<0.0> : tensor<131072xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m,k) -> (m,k)>, affine_map<(m,k) -> (m)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<131072x256xf16>) outs(%z : tensor<131072xf32>) {
  ^bb0(%a: f16, %o: f32):
    %1 = arith.extf %a : f16 to f32
    %2 = arith.addf %o, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<131072xf32>
  return %0 : tensor<131072xf32>
}

// -----

// Columns: neighbours read neighbours, eight rows at a time; parts of rows go to other blocks, and
// a second launch joins them.
// CHECK:       // 8 threads an element and part, [[PARTS:[0-9]+]] parts
// CHECK:         const int team = threadIdx.x % 32, member = threadIdx.x / 32;
// CHECK:         convir::join<256, 8, false>(
// CHECK:         if (writes) convir::store(p2 +
// CHECK:       // 8 threads join the parts
// CHECK:         convir::load<4>(p2 +
// CHECK:         if (writes) convir::store(p1 +
func.func @columns(%x: tensor<65536x256xf32>) -> tensor<256xf32> {
  %z = arith.constant dense<0.0> : tensor<256xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m,k) -> (m,k)>, affine_map<(m,k) -> (k)>],
                       iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<65536x256xf32>) outs(%z : tensor<256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %2 = arith.addf %o, %a : f32
    linalg.yield %2 : f32
  } -> tensor<256xf32>
  return %0 : tensor<256xf32>
}

// -----

// An order that matters stays: one thread an element.
// CHECK-NOT:   join
// CHECK:       // 4 elements a thread
// CHECK:         for (int
func.func @horner(%x: tensor<64x128xf32>) -> tensor<128xf32> {
  %z = arith.constant dense<0.0> : tensor<128xf32>
  %half = arith.constant 0.5 : f32
  %0 = linalg.generic {indexing_maps = [affine_map<(m,k) -> (m,k)>, affine_map<(m,k) -> (k)>],
                       iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<64x128xf32>) outs(%z : tensor<128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.mulf %o, %half : f32
    %2 = arith.addf %1, %a : f32
    linalg.yield %2 : f32
  } -> tensor<128xf32>
  return %0 : tensor<128xf32>
}
