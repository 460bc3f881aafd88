// A remark is about an op and the function that it is in, which is named where there are several.
// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction,fuse-epilogue --remarks --check-each -o %t.out.mlir 2>&1 | filecheck %s
// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction,fuse-epilogue --remarks=%t.json --check-each -o %t.out.mlir 2>&1 | filecheck %s --check-prefix=QUIET --allow-empty
// RUN: filecheck %s --check-prefix=JSON < %t.json

// As data, and nothing on stderr.
// QUIET-NOT: remark
// JSON: "remarks": [
// JSON:   "pass": "swap-strided-insert-slice-with-contraction",
// JSON:   "op": "tensor.insert_slice",
// JSON:   "function": "first",
// JSON:   "line": 26,
// JSON:   "column": 8,
// JSON:   "fired": false,
// JSON:   "reason": "no contraction reads it"
// JSON:   "function": "second",
// JSON: "checks": [

// CHECK: remark: [swap-strided-insert-slice-with-contraction] tensor.insert_slice not rewritten: {{.*}} (in @first)
// CHECK: remark: [fuse-epilogue] linalg.matmul rewritten: it is stored through arith.negf (in @second)
// CHECK: remark: [fuse-epilogue] agrees: largest error 0, allowed 0 (bit for bit) (in @first)
// CHECK: remark: [fuse-epilogue] agrees: largest error 0, allowed 0 (bit for bit) (in @second)

func.func @first(%x: tensor<2x5xf32>) -> tensor<2x10xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x10xf32>
  %y = tensor.insert_slice %x into %zeros[0, 0] [2, 5] [1, 2]
      : tensor<2x5xf32> into tensor<2x10xf32>
  return %y : tensor<2x10xf32>
}

func.func @second(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = linalg.matmul ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = arith.negf %m : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
