// RUN: convir-opt %s -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},partition-reduction{kind=stream-k reduction=tree waves=blocks},outline-kernels,convert-to-rt{device=cuda}' | filecheck %s
// The tiles that stream-K leaves whole may have blocks of their own; a launch says so.

// CHECK: rt.launch @many_tiles_0 {{.*}} {configs = {cuda = "sm90_wgrad {{.*}} partition=stream-k:tree:blocks blocks=132"}}
func.func @many_tiles(%x: tensor<32x25x25x256xf16>, %dy: tensor<32x25x25x2376xf16>, %init: tensor<2376x3x3x256xf16>) -> tensor<2376x3x3x256xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<2376x3x3x256xf16>) -> tensor<2376x3x3x256xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<32x25x25x256xf16>, tensor<32x25x25x2376xf16>) outs(%zeros : tensor<2376x3x3x256xf16>)
  return %dw : tensor<2376x3x3x256xf16>
}
