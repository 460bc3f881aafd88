// RUN: convir-opt %s -p '' --split-input-file -t cuda | filecheck %s
// RUN: convir-opt %s -p '' --split-input-file --compile-to=chained --device=cuda | filecheck %s --check-prefix=REGION

// Rows of frames of a stream: channels are shared among warps, frames are lanes, weights are brought
// to shared memory once.
// REGION-LABEL: func.func @main
// REGION:       kernel.region configs {cuda = "planar"}
// REGION:       kernel.region configs {cuda = "planar"}
// CHECK:        // @main_0
// CHECK-NEXT:   #include "generated/planar.cuh"
// CHECK:        __device__ __forceinline__ void planar0(float* p0, int s0, int t0, float* p1, int s1, int t1, int w2) {
// CHECK:          convir::add_term<1, 2, 1>(sums, &p1[(0 + 0) * s1 + frame], s1, t1, shared + kKept + w2 + channel * 2);
// CHECK:            p0[(0 + channel + o) * s0 + frame] = y0[o];
// CHECK:          __syncthreads();
// CHECK:          convir::keep<8, 256>(shared + kKept, packed);
// The window's rows are 64 frames long, and the block begins 16 frames into them.
// CHECK:          planar0(a0 + 16, 64, 0, a1 + 0, 48, 1, 0);
// CHECK:        // @main_1
// CHECK:          convir::add_term<1, 4, 2>(sums, &p1[(0 + 0) * s1 + frame], s1, t1, shared + kKept + w2 + channel * 8);
// CHECK:            const float [[V:v[0-9]+]] = convir::narrow<float>(tanh(convir::widen(sums[o])));
// CHECK-NEXT:       y0[o] = [[V]];
// CHECK:          planar0(a0 + 0, 48, 0, a1 + 8, 64, 8, 0);
func.func @main(%x: tensor<1x2x48xf32>, %w: tensor<4x2x1xf32>, %w2: tensor<4x4x2xf32>, %window: tensor<1x4x64xf32>) -> (tensor<1x4x48xf32>, tensor<1x4x64xf32>) attributes {convir.states = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x48xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x48xf32>) -> tensor<1x4x48xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c, k) -> (n, c, t + k)>, affine_map<(n, o, t, c, k) -> (o, c, k)>, affine_map<(n, o, t, c, k) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x2x48xf32>, tensor<4x2x1xf32>) outs(%z : tensor<1x4x48xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x48xf32>
  %1 = tensor.insert_slice %0 into %window[0, 0, 16] [1, 4, 48] [1, 1, 1] : tensor<1x4x48xf32> into tensor<1x4x64xf32>
  %2 = tensor.extract_slice %1[0, 0, 8] [1, 4, 56] [1, 1, 1] : tensor<1x4x64xf32> to tensor<1x4x56xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c, k) -> (n, c, t + k * 8)>, affine_map<(n, o, t, c, k) -> (o, c, k)>, affine_map<(n, o, t, c, k) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%2, %w2 : tensor<1x4x56xf32>, tensor<4x4x2xf32>) outs(%z : tensor<1x4x48xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x48xf32>
  %4 = math.tanh %3 : tensor<1x4x48xf32>
  return %4, %1 : tensor<1x4x48xf32>, tensor<1x4x64xf32>
}

// -----

// Not a stream: templates compute it.
// CHECK:        // @once_0
// CHECK-NOT:    generated/planar.cuh
// REGION-LABEL: func.func @once
// REGION-NOT:   planar
func.func @once(%x: tensor<1x2x48xf32>, %w: tensor<4x2x1xf32>) -> tensor<1x4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x48xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x48xf32>) -> tensor<1x4x48xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c, k) -> (n, c, t + k)>, affine_map<(n, o, t, c, k) -> (o, c, k)>, affine_map<(n, o, t, c, k) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x2x48xf32>, tensor<4x2x1xf32>) outs(%z : tensor<1x4x48xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x48xf32>
  return %0 : tensor<1x4x48xf32>
}
