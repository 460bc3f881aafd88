// What is wrong with each chunk is one located line, then the line of the input with a caret below
// the column; the good chunks still come out.
// RUN: not convir-opt %s --split-input-file 2> %t.err > %t.out
// RUN: filecheck %s --strict-whitespace < %t.err
// RUN: filecheck %s --check-prefix=OUT < %t.out

func.func @truncated(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = arith.addf %a, %a :

// CHECK:wrong-input.mlir:11:1: error: type expected
// -----

func.func @good() {
  return
}

// OUT: func.func @good
// -----

  "nowhere.to_be_found"() : () -> ()

// CHECK:wrong-input.mlir:20:3: error: {{.*}}nowhere
// CHECK-NEXT:  "nowhere.to_be_found"() : () -> ()
// CHECK-NEXT:  ^
// -----

func.func @rank(%s: tensor<2x2xf32>, %d: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %r = tensor.insert_slice %s into %d[0] [2] [1] : tensor<2x2xf32> into tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// CHECK:wrong-input.mlir:28:8: error: {{.*}}expected 2 offset values, got 1
// CHECK-NEXT:  %r = tensor.insert_slice
// CHECK-NEXT:       ^
// -----

func.func @bounds(%s: tensor<2xf32>, %d: tensor<4xf32>) -> tensor<4xf32> {
  %r = tensor.insert_slice %s into %d[1] [2] [3] : tensor<2xf32> into tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK:wrong-input.mlir:38:8: error: {{.*}}out-of-bounds
// CHECK-NOT:error:
