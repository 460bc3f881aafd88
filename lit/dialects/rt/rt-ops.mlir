// The rt ops print what they parse.
// RUN: convir-opt %s | convir-opt | filecheck %s
// RUN: convir-opt %s --print-op-generic | convir-opt | filecheck %s

kernel.func @add(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = arith.addf %x, %y : tensor<4x8xf32>
  kernel.return %0 : tensor<4x8xf32>
}

// Two results are two buffers, and the counter of a stream is state.
// CHECK-LABEL: func.func @every_op(
// CHECK-SAME:  attributes {rt.program, rt.outputs = 2 : i64}
// CHECK-NEXT:  %arena = rt.arena : memref<1024xi8>
// CHECK-NEXT:  %t = rt.view %arena[256] : memref<1024xi8> to memref<4x8xf32>
// CHECK-NEXT:  %c = rt.constant dense<1.000000e+00> : tensor<8x8xf32> : memref<8x8xf32>
// CHECK-NEXT:  %s = rt.state : memref<16xi32>
// CHECK-NEXT:  rt.fill 0.000000e+00 : f32 into %t : memref<4x8xf32>
// CHECK-NEXT:  rt.gemm {m = 4 : i64, n = 8 : i64, k = 8 : i64, batch = 1 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64, transpose_b, accumulate} ins(%x, %c : memref<4x8xf32>, memref<8x8xf32>) outs(%t : memref<4x8xf32>)
// CHECK-NEXT:  rt.launch @add ins(%x, %t : memref<4x8xf32>, memref<4x8xf32>) outs(%y : memref<4x8xf32>)
// CHECK-NEXT:  rt.copy %y to %z : memref<4x8xf32> to memref<32xf32>
func.func @every_op(%x: memref<4x8xf32>, %y: memref<4x8xf32>, %z: memref<32xf32>) attributes {rt.program, rt.outputs = 2 : i64} {
  %arena = rt.arena : memref<1024xi8>
  %t = rt.view %arena[256] : memref<1024xi8> to memref<4x8xf32>
  %c = rt.constant dense<1.0> : tensor<8x8xf32> : memref<8x8xf32>
  %s = rt.state : memref<16xi32>
  rt.fill 0.0 : f32 into %t : memref<4x8xf32>
  rt.gemm {m = 4 : i64, n = 8 : i64, k = 8 : i64, batch = 1 : i64,
           lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64,
           stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64, transpose_b, accumulate}
    ins(%x, %c : memref<4x8xf32>, memref<8x8xf32>) outs(%t : memref<4x8xf32>)
  rt.launch @add ins(%x, %t : memref<4x8xf32>, memref<4x8xf32>) outs(%y : memref<4x8xf32>)
  rt.copy %y to %z : memref<4x8xf32> to memref<32xf32>
  return
}

// In place: an output may be an input's buffer. Scratch memory is a kernel's own.
// CHECK-LABEL: func.func @launches(
// CHECK: rt.launch @add ins(%t, %x : memref<4x8xf32>, memref<4x8xf32>) outs(%t : memref<4x8xf32>) workspace(%w : memref<64xi8>)
func.func @launches(%x: memref<4x8xf32>, %t: memref<4x8xf32>) attributes {rt.program} {
  %w = rt.state : memref<64xi8>
  rt.launch @add ins(%t, %x : memref<4x8xf32>, memref<4x8xf32>) outs(%t : memref<4x8xf32>) workspace(%w : memref<64xi8>)
  return
}

// A program may write nothing, and take nothing.
// CHECK-LABEL: func.func @nothing() attributes {rt.program, rt.outputs = 0 : i64}
func.func @nothing() attributes {rt.program, rt.outputs = 0 : i64} {
  return
}

// Batches whose results lie side by side in each other's rows; one B for all.
// CHECK-LABEL: func.func @batched
// CHECK: batch = 3 : i64
// CHECK-SAME: ldc = 12 : i64
// CHECK-SAME: stride_b = 0 : i64, stride_c = 4 : i64
func.func @batched(%a: memref<3x2x5xf16>, %b: memref<5x4xf16>, %c: memref<2x12xf32>) attributes {rt.program} {
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 5 : i64, batch = 3 : i64,
           lda = 5 : i64, ldb = 4 : i64, ldc = 12 : i64,
           stride_a = 10 : i64, stride_b = 0 : i64, stride_c = 4 : i64}
    ins(%a, %b : memref<3x2x5xf16>, memref<5x4xf16>) outs(%c : memref<2x12xf32>)
  return
}
