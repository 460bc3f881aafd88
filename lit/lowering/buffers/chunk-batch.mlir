// RUN: convir-opt %s -p '' --compile-to=chunked --workspace-bytes=100000 --remarks 2>&1 | filecheck %s
// RUN: convir-opt %s -p '' --compile-to=chunked --workspace-bytes=1000000 | filecheck %s --check-prefix=FITS
// RUN: not convir-opt %s -p '' --compile-to=chunked --workspace-bytes=100 2>&1 | filecheck %s --check-prefix=NEVER

// One sample of the scattered tensor takes 12288 bytes, and packed weights take 256: eight samples
// fit, nine do not. The last chunk holds what is left, and all chunks share one arena.

// CHECK:        remark: [chunk-batch] func.func rewritten: peak 246 -> 98.6 kB of workspace: 3 chunks of up to 8 samples
// CHECK:        kernel.func @main_0_of_8(
// CHECK:        kernel.func @main_0_of_4(
// CHECK:        func.func @main(%x: memref<20x8x8x16xf32>, %w: memref<16x3xf32>, %{{.*}}: memref<20x8x24x3xf32>)
// CHECK-NEXT:   rt.arena : memref<98560xi8>
// CHECK-NEXT:   rt.view %x[0] : memref<20x8x8x16xf32> to memref<8x8x8x16xf32>
// CHECK:        rt.launch @main_0_of_8
// CHECK:        rt.view %x[32768] : memref<20x8x8x16xf32> to memref<8x8x8x16xf32>
// CHECK:        rt.launch @main_0_of_8
// CHECK:        rt.view %x[65536] : memref<20x8x8x16xf32> to memref<4x8x8x16xf32>
// CHECK:        rt.launch @main_0_of_4
// CHECK:        return

// FITS:     func.func @main(%x: tensor<20x8x8x16xf32>
// FITS-NOT: rt.view

// NEVER: chunk-batch.mlir:{{[0-9:]+}} error: {{.*}}@main needs 246016 bytes of workspace, the budget is 100, and its batch cannot be chunked: one sample alone needs more than 100 bytes of workspace

func.func @main(%x: tensor<20x8x8x16xf32>, %w: tensor<16x3xf32>) -> tensor<20x8x24x3xf32> {
  %zeros = arith.constant dense<0.0> : tensor<20x8x24x16xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0, 0] [20, 8, 8, 16] [1, 1, 3, 1] : tensor<20x8x8x16xf32> into tensor<20x8x24x16xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20x8x24x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<20x8x24x3xf32>) -> tensor<20x8x24x3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, p, q, k, c) -> (n, p, q, c)>, affine_map<(n, p, q, k, c) -> (c, k)>, affine_map<(n, p, q, k, c) -> (n, p, q, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<20x8x24x16xf32>, tensor<16x3xf32>) outs(%f : tensor<20x8x24x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %3 = arith.mulf %a, %b : f32
    %4 = arith.addf %o, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<20x8x24x3xf32>
  return %0 : tensor<20x8x24x3xf32>
}
