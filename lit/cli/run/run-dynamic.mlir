// Sizes that the function leaves open are those of the inputs, on every device.
// RUN: convir-run %s --input=2x3xf32=1,2,3,4,5,6 --input=3x4xf32=ONES | filecheck %s
// RUN: convir-run %s --input=2x3xf32=1,2,3,4,5,6 --input=3x4xf32=ONES --device host --check | filecheck %s --check-prefixes=CHECK,AGREES
// RUN: convir-run %s -p canonicalize,cse --input=2x3xf32=1,2,3,4,5,6 --input=3x4xf32=ONES --device host --check | filecheck %s --check-prefixes=CHECK,AGREES
// RUN: not convir-run %s --input=2x3xf32=RANDOM --input=5x4xf32=RANDOM 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: not convir-run %s --input=2x3xf32=RANDOM --input=5x4xf32=RANDOM --device host 2>&1 | filecheck %s --check-prefix=WRONG

// CHECK:      result #0: 2x4xf32
// CHECK-NEXT: {{\[}}[ 6.  6.  6.  6.]
// CHECK-NEXT:  [15. 15. 15. 15.]]
// AGREES: check against the module as read: agrees: largest error 0
// WRONG: run-dynamic.mlir:{{[0-9]+}}:8: error: 'linalg.matmul' op cannot have these sizes: inferred input/output operand #1 has shape's dimension #0 to be 3, but found 5
func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%m) : tensor<?x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x?xf32>, tensor<?x4xf32>) outs(%f : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
