// RUN: convir-opt %s --compile-to=selected -p canonicalize --device host --remarks 2>&1 | filecheck %s

// A strided scatter into zeros has a kernel of its own on the host.
// CHECK:      remark: [select-kernels] {{[a-z_.]+}} implemented: scatter for host (tensor<4x8x64xf32>): it computes all of the kernel
// CHECK:      func.func @rows
// CHECK:      kernel.region {{.*}}{host = "scatter"}
func.func @rows(%x: tensor<4x4x64xf32>) -> tensor<4x8x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x8x64xf32>
  %0 = tensor.insert_slice %x into %zeros[0, 0, 0] [4, 4, 64] [1, 2, 1] : tensor<4x4x64xf32> into tensor<4x8x64xf32>
  return %0 : tensor<4x8x64xf32>
}

// Not where what lies in one piece is shorter than a cache line.
// CHECK:      func.func @elements
// CHECK:      kernel.region {{.*}}{host = "loops"}
func.func @elements(%x: tensor<4x4xf32>) -> tensor<4x8xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x8xf32>
  %0 = tensor.insert_slice %x into %zeros[0, 0] [4, 4] [1, 2] : tensor<4x4xf32> into tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
