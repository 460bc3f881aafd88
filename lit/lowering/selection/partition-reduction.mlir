// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},partition-reduction{kind=stream-k reduction=tree fields="cluster=1"}' | filecheck %s
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},partition-reduction{kind=stream-k reduction=tree fields="cluster=1"}' --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},partition-reduction{kind=split-k splits=40 fields="cluster=1"}' --remarks 2>&1 | filecheck %s --check-prefix=MANY
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},partition-reduction{kind=stream-k reduction=tree}' --remarks 2>&1 | filecheck %s --check-prefix=CONTRADICTED
// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda},partition-reduction{kind=split-k splits=4 reduction=reduce-scatter}' --remarks 2>&1 | filecheck %s --check-prefix=CANDIDATE
// How a kernel's reduction is divided is part of its config.

// REMARK: remark: [partition-reduction] kernel.region rewritten: sm90_row_packed_wgrad {{.*}} partition=stream-k:tree blocks=132
// CHECK: kernel.region configs {cuda = "sm90_row_packed_wgrad {{.*}} partition=stream-k:tree blocks=132"} {
// MANY: remark: [partition-reduction] kernel.region not rewritten: {{[0-9]+}} steps are not divided into 40
// MANY-NOT: partition=split-k:40
// A partition changes no other field: what contradicts it is named, and set by the option, or by a candidate.
// CONTRADICTED: remark: [partition-reduction] kernel.region not rewritten: cluster=8 needs partition=split-k:8:reduce-scatter, not stream-k:tree
// CANDIDATE: remark: [partition-reduction] kernel.region rewritten: sm90_row_packed_wgrad {{.*}} cluster=4 partition=split-k:4:reduce-scatter blocks=132; it needs cluster=4
func.func @narrow(%x: tensor<8x12x12x64xf16>, %dy: tensor<8x12x12x36xf16>, %init: tensor<36x3x3x64xf16>) -> tensor<36x3x3x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<36x3x3x64xf16>) -> tensor<36x3x3x64xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<8x12x12x64xf16>, tensor<8x12x12x36xf16>) outs(%zeros : tensor<36x3x3x64xf16>)
  return %dw : tensor<36x3x3x64xf16>
}

// -----

// f32 has no template with partitions.
// REMARK: remark: [partition-reduction] kernel.region not rewritten: sm80_implicit_gemm has no choice of partition
// CHECK: kernel.region configs {cuda = "sm80_implicit_gemm
func.func @other_template(%x: tensor<8x12x12x64xf32>, %dy: tensor<8x12x12x36xf32>, %init: tensor<36x3x3x64xf32>) -> tensor<36x3x3x64xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = linalg.fill ins(%zero : f32) outs(%init : tensor<36x3x3x64xf32>) -> tensor<36x3x3x64xf32>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) ins(%x, %dy : tensor<8x12x12x64xf32>, tensor<8x12x12x36xf32>) outs(%zeros : tensor<36x3x3x64xf32>)
  return %dw : tensor<36x3x3x64xf32>
}

// -----

// Loops have none either.
// REMARK: remark: [partition-reduction] kernel.region not rewritten: 'loops' is not a config of a family
func.func @loops(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = math.exp %x : tensor<64xf32>
  return %y : tensor<64xf32>
}
