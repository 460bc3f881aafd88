// The kernel ops print what they parse.
// RUN: convir-opt %s | convir-opt | filecheck %s
// RUN: convir-opt %s --print-op-generic | convir-opt | filecheck %s

// CHECK-LABEL: kernel.func @double(%x: tensor<4xf32>) -> tensor<4xf32> attributes {configs = {host = "loops"}} {
// CHECK: kernel.return %{{.*}} : tensor<4xf32>
kernel.func @double(%x: tensor<4xf32>) -> tensor<4xf32> attributes {configs = {host = "loops"}} {
  %0 = arith.addf %x, %x : tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}

// A kernel without arguments and without configs; one that keeps an attribute of its own.
// CHECK-LABEL: kernel.func @zeros() -> tensor<4xf32> {
kernel.func @zeros() -> tensor<4xf32> {
  %0 = arith.constant dense<0.0> : tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}

// CHECK-LABEL: kernel.func @noted() -> tensor<i1> attributes {note} {
kernel.func @noted() -> tensor<i1> attributes {note} {
  %0 = arith.constant dense<true> : tensor<i1>
  kernel.return %0 : tensor<i1>
}

// CHECK-LABEL: func.func @calls
// CHECK-NEXT: %y = kernel.call @double(%x) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %z = kernel.call @zeros() : () -> tensor<4xf32>
func.func @calls(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = kernel.call @double(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = kernel.call @zeros() : () -> tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// A region captures; it yields nothing, one value, or several.
// CHECK-LABEL: func.func @regions
// CHECK-NEXT:  kernel.region {
// CHECK-NEXT:    kernel.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  %y = kernel.region configs {cuda = "loops", host = "gemm"} {
// CHECK-NEXT:    %0 = arith.negf %x : tensor<4xf32>
// CHECK-NEXT:    kernel.yield %0 : tensor<4xf32>
// CHECK-NEXT:  } -> tensor<4xf32>
// CHECK-NEXT:  %{{.*}}, %{{.*}} = kernel.region {
// CHECK-NEXT:    kernel.yield %x, %y : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:  } -> (tensor<4xf32>, tensor<4xf32>)
func.func @regions(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  kernel.region {
    kernel.yield
  }
  %y = kernel.region configs {cuda = "loops", host = "gemm"} {
    %0 = arith.negf %x : tensor<4xf32>
    kernel.yield %0 : tensor<4xf32>
  } -> tensor<4xf32>
  %z, %u = kernel.region {
    kernel.yield %x, %y : tensor<4xf32>, tensor<4xf32>
  } -> (tensor<4xf32>, tensor<4xf32>)
  return %z, %u : tensor<4xf32>, tensor<4xf32>
}
