// RUN: convir-opt %s --compile-to=planned -p canonicalize --device host | filecheck %s
// RUN: convir-opt %s --compile-to=planned -p canonicalize --device cuda | filecheck %s --check-prefix=CUDA

// A kernel's own memory is part of the plan: here packed weights, 16 vectors of up to four columns.
// It is the same on every machine.
// CHECK-LABEL: func.func @argument
// CHECK-NEXT:    %[[ARENA:.*]] = rt.arena : memref<256xi8>
// CHECK-NEXT:    %workspace = rt.view %[[ARENA]][0] : memref<256xi8> to memref<256xi8>
// CHECK-NEXT:    rt.launch @argument_0 ins(%x, %w : {{.*}}) outs({{.*}}) workspace(%workspace : memref<256xi8>)
// CUDA-NOT:      workspace
func.func @argument(%x: tensor<2x8x8x16xf32>, %w: tensor<16x3xf32>) -> tensor<2x8x8x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8x3xf32>) -> tensor<2x8x8x3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, p, q, k, c) -> (n, p, q, c)>, affine_map<(n, p, q, k, c) -> (c, k)>, affine_map<(n, p, q, k, c) -> (n, p, q, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x8x8x16xf32>, tensor<16x3xf32>) outs(%f : tensor<2x8x8x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %3 = arith.mulf %a, %b : f32
    %4 = arith.addf %o, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2x8x8x3xf32>
  return %0 : tensor<2x8x8x3xf32>
}

// Constant weights are packed when the program is loaded: no memory of a call's.
// CHECK-LABEL: func.func @constant
// CHECK-NEXT:    %[[W:.*]] = rt.constant dense<{{.*}}> : memref<4x2xf32>
// CHECK-NEXT:    rt.launch @constant_0 ins(%x, %[[W]] : {{.*}}) outs(%{{.*}} : memref<2x8x8x2xf32>)
// CHECK-NEXT:    return
func.func @constant(%x: tensor<2x8x8x4xf32>) -> tensor<2x8x8x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8x2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8x2xf32>) -> tensor<2x8x8x2xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, p, q, k, c) -> (n, p, q, c)>, affine_map<(n, p, q, k, c) -> (c, k)>, affine_map<(n, p, q, k, c) -> (n, p, q, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x8x8x4xf32>, tensor<4x2xf32>) outs(%f : tensor<2x8x8x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %3 = arith.mulf %a, %b : f32
    %4 = arith.addf %o, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2x8x8x2xf32>
  return %0 : tensor<2x8x8x2xf32>
}
