// RUN: convir-opt %s -p '' -t llvm | filecheck %s
// RUN: convir-opt %s -p '' --compile-to=planned | convir-opt -t llvm | filecheck %s
// The LLVM IR of every kernel, from tensors and from rt programs.

// No argument overlaps another: loops may be vectorized.
// CHECK:       ; @main_0 for host: loops
// CHECK:       define internal void @"main_0.loops"(ptr noalias %".1", ptr noalias %".2", i64 %".3", i64 %".4")
// CHECK:         call float @"llvm.floor.f32"
// CHECK:       define void @"main_0.entry"(ptr %args, i64 %begin, i64 %end, i64 %worker)

// A register-tiled contraction has a text of its own.
// CHECK:       ; @main_1 for host: implicit-gemm
// CHECK:       define void @contract(ptr %args, i64 %begin, i64 %end, i64 %worker)

// bf16 needs no instruction and no helper function: it is integers.
// CHECK:       ; @main_2 for host: loops
// CHECK:       define internal void @"main_2.loops"(ptr noalias
// CHECK:         load i16
// CHECK-NEXT:    zext i16
// CHECK-NEXT:    shl i32
// CHECK-NEXT:    bitcast i32
// CHECK:         fadd float

// Written in place: the output is the input, and the loops know one pointer for both.
// CHECK:       ; @main_4 for host: loops
// CHECK:       define internal void @"main_4.loops"(ptr noalias %".1", ptr noalias %".2",
// CHECK-NOT:     ptr %".1"
// CHECK:         [[FROM:%.+]] = getelementptr inbounds double, ptr %".2"
// CHECK:         load double, ptr [[FROM]]
// CHECK:         [[TO:%.+]] = getelementptr inbounds double, ptr %".2"
// CHECK:         store double {{%.+}}, ptr [[TO]]
// CHECK:       define void @"main_4.entry"
func.func @main(%x: tensor<6xf32>, %a: tensor<32x32xf32>, %h: tensor<6xbf16>, %d: tensor<6xf64>) -> (tensor<6xf32>, tensor<32x32xf32>, tensor<6xbf16>, tensor<6xf64>) {
  %init = arith.constant dense<0.0> : tensor<32x32xf32>
  %0 = math.floor %x : tensor<6xf32>
  %1 = linalg.matmul ins(%a, %a : tensor<32x32xf32>, tensor<32x32xf32>) outs(%init : tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = arith.addf %h, %h : tensor<6xbf16>
  %3 = kernel.region {
    %t = arith.negf %d : tensor<6xf64>
    kernel.yield %t : tensor<6xf64>
  } -> tensor<6xf64>
  %4 = kernel.region {
    %t = math.absf %3 : tensor<6xf64>
    kernel.yield %t : tensor<6xf64>
  } -> tensor<6xf64>
  %5 = kernel.region {
    %t = arith.negf %4 : tensor<6xf64>
    kernel.yield %t : tensor<6xf64>
  } -> tensor<6xf64>
  return %0, %1, %2, %5 : tensor<6xf32>, tensor<32x32xf32>, tensor<6xbf16>, tensor<6xf64>
}
