// RUN: convir-opt %s -p 'convert-conv-to-linalg,canonicalize,cse,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' --split-input-file | filecheck %s
// RUN: convir-opt %s -p 'convert-conv-to-linalg,canonicalize,cse,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' --split-input-file --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// Operands with their channels first are copied for the template that takes neighbours, where no
// template takes planes as they lie (grouped_planes: strides up to 2).

// REMARK: remark: [select-kernels] {{[a-z_.]+}} implemented: layout_conversion a{{b?}}c {{(sm90_)?}}grouped_direct {{.*}} for cuda ({{.*}}): it computes all of the kernel; {{.*}}not sm90_grouped_direct: channels are not innermost
// CHECK-LABEL: func.func @planes
// CHECK:         kernel.region configs {cuda = "layout_conversion a{{b?}}c {{(sm90_)?}}grouped_direct {{.*}}"} {
func.func @planes(%x: tensor<33x256x56x56xf16>, %w: tensor<256x8x3x3xf16>, %init: tensor<33x256x19x19xf16>) -> tensor<33x256x19x19xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<33x256x19x19xf16>) -> tensor<33x256x19x19xf16>
  %y = conv.fprop layouts(NCHW, KCRS, NCHW) strides(3, 3) padding(1, 1) groups(32) accumulate(f32) ins(%x, %w : tensor<33x256x56x56xf16>, tensor<256x8x3x3xf16>) outs(%zeros : tensor<33x256x19x19xf16>)
  return %y : tensor<33x256x19x19xf16>
}

// -----

// What is computed behind the sum reads planes: a copy of it would be one more.
// REMARK: remark: [select-kernels] {{[a-z_.]+}} implemented: {{(simt_direct|sm80_implicit_gemm)}} {{.*}}not layout_conversion: its result is computed from planes that are not copied
// CHECK-LABEL: func.func @residual
// CHECK:         kernel.region configs {cuda = "{{(simt_direct|sm80_implicit_gemm)}}
func.func @residual(%x: tensor<2x64x10x13xf16>, %w: tensor<64x8x3x3xf16>, %other: tensor<2x64x4x5xf16>, %init: tensor<2x64x4x5xf16>) -> tensor<2x64x4x5xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<2x64x4x5xf16>) -> tensor<2x64x4x5xf16>
  %y = conv.fprop layouts(NCHW, KCRS, NCHW) strides(3, 3) padding(1, 1) groups(8) accumulate(f32) ins(%x, %w : tensor<2x64x10x13xf16>, tensor<64x8x3x3xf16>) outs(%zeros : tensor<2x64x4x5xf16>)
  %r = linalg.add ins(%y, %other : tensor<2x64x4x5xf16>, tensor<2x64x4x5xf16>) outs(%init : tensor<2x64x4x5xf16>) -> tensor<2x64x4x5xf16>
  return %r : tensor<2x64x4x5xf16>
}

// -----

// REMARK: remark: [select-kernels] {{[a-z_.]+}} implemented: sm80_implicit_gemm {{.*}}not layout_conversion: its operands have contiguous channels, or are no whole planes
// CHECK-LABEL: func.func @neighbours
// CHECK:         kernel.region configs {cuda = "sm80_implicit_gemm
func.func @neighbours(%x: tensor<2x10x13x66xf16>, %w: tensor<66x3x3x33xf16>, %init: tensor<2x10x13x66xf16>) -> tensor<2x10x13x66xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<2x10x13x66xf16>) -> tensor<2x10x13x66xf16>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(1, 1) groups(2) accumulate(f32) ins(%x, %w : tensor<2x10x13x66xf16>, tensor<66x3x3x33xf16>) outs(%zeros : tensor<2x10x13x66xf16>)
  return %y : tensor<2x10x13x66xf16>
}
