// RUN: convir-opt %s -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},assign-warp-roles{producer-warps=0 consumer-warps=8},outline-kernels,convert-to-rt{device=cuda}' | filecheck %s
// RUN: convir-opt %s -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},partition-reduction{kind=stream-k reduction=tree},assign-warp-roles{producer-warps=0 consumer-warps=8}' --remarks 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: convir-opt %s -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},assign-warp-roles{producer-warps=0 consumer-warps=4}' --remarks 2>&1 | filecheck %s --check-prefix=NARROW
// sm90_wgrad has a uniform pipeline in every partition; one warpgroup still has registers for half of the sums.

// CHECK: rt.launch @wide_0 {{.*}} {configs = {cuda = "sm90_wgrad {{256x128|128x256}} {{.*}} roles=0:8 {{.*}}"}}
// BOTH: remark: [assign-warp-roles] kernel.region rewritten: sm90_wgrad {{256x128|128x256}} {{.*}} roles=0:8 cluster=1 partition=stream-k:tree blocks=132
// NARROW: remark: [assign-warp-roles] kernel.region not rewritten: a tile's accumulators exceed the registers
func.func @wide(%x: tensor<32x100x100x256xf16>, %dy: tensor<32x100x100x256xf16>, %init: tensor<256x3x3x256xf16>) -> tensor<256x3x3x256xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<256x3x3x256xf16>) -> tensor<256x3x3x256xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<32x100x100x256xf16>, tensor<32x100x100x256xf16>) outs(%zeros : tensor<256x3x3x256xf16>)
  return %dw : tensor<256x3x3x256xf16>
}
