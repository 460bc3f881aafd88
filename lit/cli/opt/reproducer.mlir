// A pass that fails leaves a file that repeats it: its pipeline, and the IR that it began with.
// RUN: not convir-opt %s -p 'canonicalize,convert-to-rt{target=x86-64},cse' --mlir-pass-pipeline-crash-reproducer=%t.mlir 2>&1 | filecheck %s
// RUN: filecheck %s --check-prefix=FILE < %t.mlir
// RUN: not convir-opt --run-reproducer %t.mlir 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: convir-opt %t.mlir | filecheck %s --check-prefix=READ

func.func @main(%a: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %dead = arith.constant 1 : i32
  %b = arith.negf %a : tensor<16x16xf32>
  %e = tensor.empty() : tensor<16x16xf32>
  %c = linalg.matmul ins(%b, %b : tensor<16x16xf32>, tensor<16x16xf32>)
      outs(%b : tensor<16x16xf32>) -> tensor<16x16xf32>
  %d = linalg.matmul ins(%c, %b : tensor<16x16xf32>, tensor<16x16xf32>)
      outs(%b : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %d : tensor<16x16xf32>
}

// CHECK: reproducer.mlir:{{[0-9:]+}} note: 'convir-opt --run-reproducer {{.*}}.mlir' repeats what fails
// CHECK: error: {{.*}}arith.negf is outside of every kernel

// FILE:     // convir-opt --run-reproducer
// FILE-NOT: arith.constant 1
// FILE:     {-#
// FILE:     pipeline: "builtin.module(convert-to-rt{target=\"x86-64\"})"

// AGAIN: {{.*}}.mlir:{{[0-9:]+}} error: {{.*}}arith.negf is outside of every kernel

// READ: func.func @main

// What is not a reproducer is not run.
// RUN: not convir-opt %s --run-reproducer 2>&1 | filecheck %s --check-prefix=NONE
// NONE: convir-opt: error: --run-reproducer: {{.*}}reproducer.mlir names no pipeline
