// RUN: convir-opt %s -p '' -t llvm | filecheck %s
// A bool is a byte in memory, which LLVM has vectors of; a condition is a bit between the ops.

// CHECK:         load i8
// CHECK-NEXT:    icmp ne i8
// CHECK:         xor i1
// CHECK:         zext i1
// CHECK-NEXT:    store i8
func.func @main(%x: tensor<6xi1>) -> tensor<6xi1> {
  %true = arith.constant dense<true> : tensor<6xi1>
  %0 = arith.xori %x, %true : tensor<6xi1>
  return %0 : tensor<6xi1>
}
