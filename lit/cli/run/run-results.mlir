// Results are printed with their types; inputs are given by type and fill, or drawn at random.
// RUN: convir-run %s --input=2x3xf32=1,2,3,4,5,6 --input=3xbf16=1.5 | filecheck %s
// RUN: convir-run %s | filecheck %s --check-prefix=RANDOM
// RUN: convir-run - --input=2x3xf32=ONES --input=3xbf16=ZEROS < %s | filecheck %s --check-prefix=STDIN

// CHECK:      result #0: 2x3xf32
// CHECK-NEXT: {{\[}}[ 2.  4.  6.]
// CHECK-NEXT:  [ 8. 10. 12.]]
// CHECK-NEXT: result #1: 3xbf16
// CHECK-NEXT: [1.5 1.5 1.5]

// RANDOM: result #0: 2x3xf32
// RANDOM: result #1: 3xbf16

// STDIN: [2. 2. 2.]]
// STDIN: [0. 0. 0.]
func.func @double(%x: tensor<2x3xf32>, %b: tensor<3xbf16>) -> (tensor<2x3xf32>, tensor<3xbf16>) {
  %y = arith.addf %x, %x : tensor<2x3xf32>
  return %y, %b : tensor<2x3xf32>, tensor<3xbf16>
}
