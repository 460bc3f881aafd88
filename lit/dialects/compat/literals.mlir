// RUN: convir-opt %s | filecheck %s
// RUN: convir-opt %s | convir-opt | filecheck %s

// CHECK-LABEL: func.func @splats
func.func @splats() {
  // A splat is one element, however many its type has.
  // CHECK: dense<0.000000e+00> : tensor<4096x4096x4096xf32>
  %0 = arith.constant dense<0.0> : tensor<4096x4096x4096xf32>
  // CHECK: dense<1.000000e+00> : tensor<7xf32>
  %1 = arith.constant dense<"0x0000803F"> : tensor<7xf32>
  // CHECK: dense<> : tensor<0x4xf32>
  %2 = arith.constant dense<> : tensor<0x4xf32>
  // CHECK: dense<true> : tensor<3xi1>
  %3 = arith.constant dense<1> : tensor<3xi1>
  // CHECK: dense<-1> : tensor<2xi8>
  %4 = arith.constant dense<255> : tensor<2xi8>
  func.return
}

// CHECK-LABEL: func.func @bit_patterns
func.func @bit_patterns() {
  // CHECK: dense<0xfc00> : tensor<4xf16>
  %0 = arith.constant dense<0xFC00> : tensor<4xf16>
  // CHECK: dense<1.500000e+00> : tensor<4xf16>
  %1 = arith.constant dense<0x3E00> : tensor<4xf16>
  // CHECK: 0x7fc0 : bf16
  %2 = arith.constant 0x7FC0 : bf16
  // Zeros of both signs are not a splat.
  // CHECK: dense<[-0.000000e+00, 0.000000e+00]> : tensor<2xf32>
  %3 = arith.constant dense<[-0.0, 0.0]> : tensor<2xf32>
  // Past the range is infinity.
  // CHECK: 0x7c00 : f16
  %4 = arith.constant 65520.0 : f16
  func.return
}
