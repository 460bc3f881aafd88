// What is wrong with each chunk is one located line; the good chunks still come out.
// RUN: not convir-opt %s --split-input-file 2> %t.err > %t.out
// RUN: filecheck %s < %t.err
// RUN: filecheck %s --check-prefix=OUT < %t.out

func.func @truncated(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = arith.addf %a, %a :

// CHECK: wrong_input.mlir:10:1: error: type expected
// -----

func.func @good() {
  return
}

// OUT: func.func @good
// -----

  "nowhere.to_be_found"() : () -> ()

// CHECK-NEXT: wrong_input.mlir:19:3: error: {{.*}}nowhere
// CHECK-NOT: error
