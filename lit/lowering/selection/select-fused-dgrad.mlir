// RUN: convir-opt %s -p 'convert-conv-to-linalg,decompose-strided-dgrad,canonicalize,cse,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' --split-input-file | filecheck %s
// RUN: convir-opt %s -p 'convert-conv-to-linalg,decompose-strided-dgrad,canonicalize,cse,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' --split-input-file --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// Phases of a strided gradient that share rows of dY are columns of one product.

// REMARK: remark: [select-kernels] {{[a-z_.]+}} implemented: sm90_halo_implicit_gemm {{.*}}: it computes all of the kernel
// CHECK: kernel.region configs {cuda = "sm90_halo_implicit_gemm {{[0-9x]+}} chunk=64 columns={{[0-9]+}} {{.*}} blocks=132"} {
func.func @narrow_phases(%dy: tensor<64x56x56x64xf16>, %w: tensor<64x3x3x32xf16>, %init: tensor<64x112x112x32xf16>) -> tensor<64x112x112x32xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<64x112x112x32xf16>) -> tensor<64x112x112x32xf16>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) accumulate(f32) ins(%dy, %w : tensor<64x56x56x64xf16>, tensor<64x3x3x32xf16>) outs(%zeros : tensor<64x112x112x32xf16>)
  return %dx : tensor<64x112x112x32xf16>
}

// -----

// REMARK: sm90_implicit_gemm {{.*}}not sm90_fused_dgrad: 4 phases of 128 output channels are no 256 accumulators of a row
// CHECK: kernel.region configs {cuda = "sm90_implicit_gemm
func.func @wide_phases(%dy: tensor<256x10x13x128xf16>, %w: tensor<128x3x3x128xf16>, %init: tensor<256x20x26x128xf16>) -> tensor<256x20x26x128xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<256x20x26x128xf16>) -> tensor<256x20x26x128xf16>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) accumulate(f32) ins(%dy, %w : tensor<256x10x13x128xf16>, tensor<128x3x3x128xf16>) outs(%zeros : tensor<256x20x26x128xf16>)
  return %dx : tensor<256x20x26x128xf16>
}
