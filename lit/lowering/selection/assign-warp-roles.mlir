// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},assign-warp-roles{producer-warps=4 consumer-warps=4}' | filecheck %s
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},assign-warp-roles{producer-warps=4 consumer-warps=4}' --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},partition-reduction{kind=stream-k},assign-warp-roles{producer-warps=0 consumer-warps=8 fields="y=async"},outline-kernels,convert-to-rt{device=cuda}' | filecheck %s --check-prefix=LAUNCH
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},assign-warp-roles{producer-warps=3 consumer-warps=5}' --remarks 2>&1 | filecheck %s --check-prefix=NONE
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},outline-kernels,convert-to-rt{device=cuda},assign-warp-roles{producer-warps=0 consumer-warps=8}' --remarks 2>&1 | filecheck %s --check-prefix=LATE
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},partition-reduction{kind=stream-k},assign-warp-roles{producer-warps=0 consumer-warps=8}' --remarks 2>&1 | filecheck %s --check-prefix=CONTRADICTED
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},assign-warp-roles{producer-warps=4 consumer-warps=4 fields="color=red"}' --remarks 2>&1 | filecheck %s --check-prefix=UNKNOWN
// Which warps load and which multiply is part of a kernel's config, and its launch carries it.

// REMARK: remark: [assign-warp-roles] kernel.region rewritten: sm90_row_packed_wgrad {{.*}} roles=4:4
// CHECK: kernel.region configs {cuda = "sm90_row_packed_wgrad {{.*}} roles=4:4 {{.*}}"} {
// NONE: remark: [assign-warp-roles] kernel.region not rewritten: roles=3:5: one of 0:4, 0:8, 4:4, 4:8, 8:8, 8:4
// Roles change no other field unless the option says so.
// CONTRADICTED: remark: [assign-warp-roles] kernel.region not rewritten: roles=0:8 needs x=shared y=async, not x=shared y=ring
// UNKNOWN: remark: [assign-warp-roles] kernel.region not rewritten: sm90_row_packed_wgrad has no choice of 'color'
// LATE: remark: [assign-warp-roles] kernel.func not rewritten: its workspace is planned already
// LAUNCH: %[[FLAGS:.*]] = rt.state : memref<{{[0-9]+}}xi8>
// LAUNCH: rt.launch @narrow_0 {{.*}} workspace(%[[FLAGS]] : {{.*}}) {configs = {cuda = "sm90_row_packed_wgrad {{.*}} roles=0:8 {{.*}}"}}
func.func @narrow(%x: tensor<32x25x25x64xf16>, %dy: tensor<32x25x25x36xf16>, %init: tensor<36x3x3x64xf16>) -> tensor<36x3x3x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<36x3x3x64xf16>) -> tensor<36x3x3x64xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<32x25x25x64xf16>, tensor<32x25x25x36xf16>) outs(%zeros : tensor<36x3x3x64xf16>)
  return %dw : tensor<36x3x3x64xf16>
}

// -----

// REMARK: remark: [assign-warp-roles] kernel.region not rewritten: sm80_implicit_gemm has no choice of warp roles
func.func @other_template(%x: tensor<8x12x12x64xf32>, %dy: tensor<8x12x12x36xf32>, %init: tensor<36x3x3x64xf32>) -> tensor<36x3x3x64xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = linalg.fill ins(%zero : f32) outs(%init : tensor<36x3x3x64xf32>) -> tensor<36x3x3x64xf32>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) ins(%x, %dy : tensor<8x12x12x64xf32>, tensor<8x12x12x36xf32>) outs(%zeros : tensor<36x3x3x64xf32>)
  return %dw : tensor<36x3x3x64xf32>
}

// -----

// One warpgroup has registers for half of what two multiply.
// REMARK: remark: [assign-warp-roles] kernel.region not rewritten: a tile's accumulators exceed the registers
// NONE: remark: [assign-warp-roles] kernel.region not rewritten: roles=3:5: one of 0:4, 0:8, 1:4, 4:4, 4:8
func.func @wide(%x: tensor<32x100x100x256xf16>, %dy: tensor<32x100x100x256xf16>, %init: tensor<256x3x3x256xf16>) -> tensor<256x3x3x256xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<256x3x3x256xf16>) -> tensor<256x3x3x256xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<32x100x100x256xf16>, tensor<32x100x100x256xf16>) outs(%zeros : tensor<256x3x3x256xf16>)
  return %dw : tensor<256x3x3x256xf16>
}

// -----

// A tile that one warpgroup holds.
// CHECK: kernel.region configs {cuda = "sm90_wgrad 64x64 {{.*}} roles=4:4 {{.*}}"} {
func.func @long(%x: tensor<32x40x40x128xf16>, %dy: tensor<32x40x40x64xf16>, %init: tensor<64x1x1x128xf16>) -> tensor<64x1x1x128xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<64x1x1x128xf16>) -> tensor<64x1x1x128xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) accumulate(f32) ins(%x, %dy : tensor<32x40x40x128xf16>, tensor<32x40x40x64xf16>) outs(%zeros : tensor<64x1x1x128xf16>)
  return %dw : tensor<64x1x1x128xf16>
}
