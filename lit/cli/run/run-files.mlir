// Arrays go out to .npy files and come back in; bf16 is two-byte data that the signature types.
// RUN: mkdir -p %t
// RUN: convir-run %s --input=2x2xbf16=1,2,3,4 --output=@%t/y.npy | filecheck %s
// RUN: convir-run %s --input=@%t/y.npy | filecheck %s --check-prefix=AGAIN
// RUN: convir-run %s --input=%t/y.npy --output %t/y.npy | filecheck %s --check-prefix=AGAIN
// RUN: convir-run %s --input=%t/y.npy | filecheck %s --check-prefix=TWICE

// CHECK:      result #0: 2x2xbf16
// CHECK-NEXT: {{\[}}[2. 4.]
// CHECK-NEXT:  [6. 8.]]

// AGAIN:      {{\[}}[ 4.  8.]
// AGAIN-NEXT:  [12. 16.]]

// TWICE:      {{\[}}[ 8. 16.]
// TWICE-NEXT:  [24. 32.]]
func.func @main(%x: tensor<2x2xbf16>) -> tensor<2x2xbf16> {
  %y = arith.addf %x, %x : tensor<2x2xbf16>
  return %y : tensor<2x2xbf16>
}
