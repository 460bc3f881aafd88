// RUN: convir-opt %s -p 'allow-tf32,default,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},outline-kernels,convert-to-rt{device=cuda}' --split-input-file | filecheck %s
// RUN: convir-opt %s -p 'default,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},outline-kernels,convert-to-rt{device=cuda}' --split-input-file | filecheck %s --check-prefix=IEEE

// A kernel has the attribute of its function, and tensor cores multiply it.
// CHECK: kernel.func @main_0
// CHECK-SAME: attributes {convir.allow_tf32, configs = {cuda = "sm90_implicit_gemm {{.*}}"
// IEEE: kernel.func @main_0
// IEEE-NOT: allow_tf32
// IEEE-SAME: "sm80_implicit_gemm {{.* (threads=|warps=[0-9x]+ products=3)}}
func.func @main(%x: tensor<2x28x28x64xf32>, %w: tensor<64x3x3x64xf32>) -> tensor<2x28x28x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x28x28x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x28x28x64xf32>) -> tensor<2x28x28x64xf32>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) ins(%x, %w : tensor<2x28x28x64xf32>, tensor<64x3x3x64xf32>) outs(%init : tensor<2x28x28x64xf32>)
  return %y : tensor<2x28x28x64xf32>
}

// -----

// So does a library.
// CHECK: rt.gemm {
// CHECK-SAME: tf32
// IEEE: rt.gemm {
// IEEE-NOT: tf32
func.func @main(%a: tensor<100352x32xf32>, %b: tensor<32x64xf32>) -> tensor<100352x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<100352x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<100352x64xf32>) -> tensor<100352x64xf32>
  %c = linalg.matmul ins(%a, %b : tensor<100352x32xf32>, tensor<32x64xf32>) outs(%init : tensor<100352x64xf32>) -> tensor<100352x64xf32>
  return %c : tensor<100352x64xf32>
}

// -----

// Operands of f16 are none of TF32.
// CHECK: kernel.func @main_0
// CHECK-NOT: allow_tf32
// CHECK: rt.launch
func.func @main(%x: tensor<2x28x28x64xf16>, %w: tensor<64x3x3x64xf16>) -> tensor<2x28x28x64xf16> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<2x28x28x64xf16>
  %init = linalg.fill ins(%zero : f16) outs(%empty : tensor<2x28x28x64xf16>) -> tensor<2x28x28x64xf16>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) ins(%x, %w : tensor<2x28x28x64xf16>, tensor<64x3x3x64xf16>) outs(%init : tensor<2x28x28x64xf16>)
  return %y : tensor<2x28x28x64xf16>
}
