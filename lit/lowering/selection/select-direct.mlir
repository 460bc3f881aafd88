// RUN: convir-opt %s -p 'convert-conv-to-linalg,decompose-strided-dgrad,canonicalize,cse,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' --split-input-file | filecheck %s
// RUN: convir-opt %s -p 'convert-conv-to-linalg,decompose-strided-dgrad,canonicalize,cse,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' --split-input-file --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// Who computes a convolution of small groups or few channels, all its phases in one launch.

// REMARK: remark: [select-kernels] {{[a-z_.]+}} implemented: grouped_direct {{.*}} for cuda ({{.*}}): it computes all of the kernel; {{.*}}not few_output_channels: it is not a dense convolution to a few channels; not simt_direct: 576 products are unrolled
// CHECK-LABEL: func.func @small_groups
// CHECK:         kernel.region configs {cuda = "grouped_direct 64x13 warp_channels={{16|32}} rows=1 outputs={{[0-9]+}} tiles={{[0-9]+}} stages=2 warps={{[0-9]+}} producer_warps={{[0-9]+}} copies={{async|tma}} instruction={{mma|wgmma}} blocks=132x{{[0-9]+}}"} {
// CHECK-NOT:     kernel.region
func.func @small_groups(%dy: tensor<256x10x13x64xf16>, %w: tensor<64x3x3x8xf16>, %init: tensor<256x20x26x64xf16>) -> tensor<256x20x26x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<256x20x26x64xf16>) -> tensor<256x20x26x64xf16>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) groups(8) accumulate(f32) ins(%dy, %w : tensor<256x10x13x64xf16>, tensor<64x3x3x8xf16>) outs(%zeros : tensor<256x20x26x64xf16>)
  return %dx : tensor<256x20x26x64xf16>
}

// -----

// CHECK-LABEL: func.func @few_channels
// CHECK:         kernel.region configs {cuda = "few_output_channels {{[0-9]+}} k_warps=1 tiles={{[0-9]+}} stages={{[0-9]+}} warps={{[0-9]+}} producer_warps={{[0-9]+}} blocks=132x{{[0-9]+}}"} {
// CHECK-NOT:     kernel.region
func.func @few_channels(%dy: tensor<64x56x56x32xbf16>, %w: tensor<32x3x3x3xbf16>, %init: tensor<64x112x112x3xbf16>) -> tensor<64x112x112x3xbf16> {
  %zero = arith.constant 0.0 : bf16
  %zeros = linalg.fill ins(%zero : bf16) outs(%init : tensor<64x112x112x3xbf16>) -> tensor<64x112x112x3xbf16>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) accumulate(f32) ins(%dy, %w : tensor<64x56x56x32xbf16>, tensor<32x3x3x3xbf16>) outs(%zeros : tensor<64x112x112x3xbf16>)
  return %dx : tensor<64x112x112x3xbf16>
}

// -----

// Zeros between merged groups would spread Inf and NaN: depthwise needs no tensor cores.
// CHECK-LABEL: func.func @depthwise
// CHECK:         kernel.region configs {cuda = "simt_direct 1x1 warps=2 blocks=132x8"} {
func.func @depthwise(%x: tensor<2x10x13x40xf16>, %w: tensor<40x3x3x1xf16>, %init: tensor<2x10x13x40xf16>) -> tensor<2x10x13x40xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<2x10x13x40xf16>) -> tensor<2x10x13x40xf16>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(1, 1) groups(40) accumulate(f32) ins(%x, %w : tensor<2x10x13x40xf16>, tensor<40x3x3x1xf16>) outs(%zeros : tensor<2x10x13x40xf16>)
  return %y : tensor<2x10x13x40xf16>
}

// -----

// REMARK: not few_output_channels: it reduces 40 channels and 9 taps; not simt_direct: 40 and 3 channels a group are no small groups; not simt_wgrad: it computes another operand than B, or adds to it; not depthwise: 1 groups of 40 and 3 channels; not grouped_planes: groups of 40 and 3 channels; not sm90_grouped_direct: groups have 40 and 3 channels; not grouped_direct: {{.*}}
// CHECK-LABEL: func.func @not_whole_steps
// CHECK:         kernel.region configs {cuda = "{{(col2im )?}}sm80_implicit_gemm
func.func @not_whole_steps(%dy: tensor<2x10x13x40xbf16>, %w: tensor<40x3x3x3xbf16>, %init: tensor<2x20x26x3xbf16>) -> tensor<2x20x26x3xbf16> {
  %zero = arith.constant 0.0 : bf16
  %zeros = linalg.fill ins(%zero : bf16) outs(%init : tensor<2x20x26x3xbf16>) -> tensor<2x20x26x3xbf16>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) accumulate(f32) ins(%dy, %w : tensor<2x10x13x40xbf16>, tensor<40x3x3x3xbf16>) outs(%zeros : tensor<2x20x26x3xbf16>)
  return %dx : tensor<2x20x26x3xbf16>
}

// -----

// Two rows of 32 channels are the rows of a matrix instruction.
// REMARK: {{[a-z_.]+}} implemented: sm90_grouped_direct {{.*}}predicted {{[0-9.]+}} µs, {{[a-z0-9_]+}} {{[0-9.]+}} µs; {{.*}}not simt_direct: its weights take
// CHECK-LABEL: func.func @pairs_of_rows
// CHECK:         kernel.region configs {cuda = "sm90_grouped_direct 7 stages=3 group_blocks={{[0-9]+}} blocks=132x1"} {
// CHECK-NOT:     kernel.region
func.func @pairs_of_rows(%dy: tensor<256x14x14x64xf16>, %w: tensor<64x3x3x32xf16>, %init: tensor<256x14x14x64xf16>) -> tensor<256x14x14x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<256x14x14x64xf16>) -> tensor<256x14x14x64xf16>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(1, 1) groups(2) accumulate(f32) ins(%dy, %w : tensor<256x14x14x64xf16>, tensor<64x3x3x32xf16>) outs(%zeros : tensor<256x14x14x64xf16>)
  return %dx : tensor<256x14x14x64xf16>
}

// -----

// Most of what 7 columns fill of an instruction is for nothing, and is still predicted to be the
// fastest.
// CHECK-LABEL: func.func @few_columns
// CHECK:         kernel.region configs {cuda = "sm90_grouped_direct 
func.func @few_columns(%dy: tensor<256x7x7x64xf16>, %w: tensor<64x3x3x32xf16>, %init: tensor<256x7x7x64xf16>) -> tensor<256x7x7x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<256x7x7x64xf16>) -> tensor<256x7x7x64xf16>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(1, 1) groups(2) accumulate(f32) ins(%dy, %w : tensor<256x7x7x64xf16>, tensor<64x3x3x32xf16>) outs(%zeros : tensor<256x7x7x64xf16>)
  return %dx : tensor<256x7x7x64xf16>
}

// -----

// The rows of a first layer's filter are runs of neighbours.
// CHECK-LABEL: func.func @first_layer
// CHECK:         kernel.region configs {cuda = "few_input_channels {{[0-9]+}}x32 tiles={{[12]}} warps={{[0-9]+}} blocks=132x{{[0-9]+}}"} {
// CHECK-NOT:     kernel.region
func.func @first_layer(%x: tensor<2x20x24x3xf16>, %w: tensor<32x7x7x3xf16>, %init: tensor<2x10x12x32xf16>) -> tensor<2x10x12x32xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<2x10x12x32xf16>) -> tensor<2x10x12x32xf16>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(3, 3) accumulate(f32) ins(%x, %w : tensor<2x20x24x3xf16>, tensor<32x7x7x3xf16>) outs(%zeros : tensor<2x10x12x32xf16>)
  return %y : tensor<2x10x12x32xf16>
}

// -----

// Every second window begins at an odd element.
// CHECK-LABEL: func.func @odd_windows
// CHECK:         kernel.region configs {cuda = "few_input_channels
func.func @odd_windows(%x: tensor<32x64x64x3xf16>, %w: tensor<64x3x3x3xf16>, %init: tensor<32x64x64x64xf16>) -> tensor<32x64x64x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<32x64x64x64xf16>) -> tensor<32x64x64x64xf16>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(1, 1) accumulate(f32) ins(%x, %w : tensor<32x64x64x3xf16>, tensor<64x3x3x3xf16>) outs(%zeros : tensor<32x64x64x64xf16>)
  return %y : tensor<32x64x64x64xf16>
}

// -----

// REMARK: not few_input_channels: the pixels of a filter row are not contiguous
// CHECK-LABEL: func.func @dilated_columns
// CHECK-NOT:     few_input_channels
// CHECK:         kernel.region configs {cuda = "{{simt_direct|sm80_implicit_gemm}}
func.func @dilated_columns(%x: tensor<2x20x24x3xf16>, %w: tensor<32x3x3x3xf16>, %init: tensor<2x20x24x32xf16>) -> tensor<2x20x24x32xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<2x20x24x32xf16>) -> tensor<2x20x24x32xf16>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(2, 2) dilations(2, 2) accumulate(f32) ins(%x, %w : tensor<2x20x24x3xf16>, tensor<32x3x3x3xf16>) outs(%zeros : tensor<2x20x24x32xf16>)
  return %y : tensor<2x20x24x32xf16>
}

// -----

// Any tap of any of few channels is a column at a constant distance.
// REMARK: {{[a-z_.]+}} implemented: few_channels_wgrad
// CHECK-LABEL: func.func @gradient_of_a_first_layer
// CHECK:         kernel.region configs {cuda = "few_channels_wgrad
func.func @gradient_of_a_first_layer(%x: tensor<32x64x64x3xf16>, %dy: tensor<32x64x64x64xf16>, %init: tensor<64x3x3x3xf16>) -> tensor<64x3x3x3xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<64x3x3x3xf16>) -> tensor<64x3x3x3xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<32x64x64x3xf16>, tensor<32x64x64x64xf16>) outs(%zeros : tensor<64x3x3x3xf16>)
  return %dw : tensor<64x3x3x3xf16>
}

// -----

// The few channels are those of dY: X and dY change places, as windows do not step.
// REMARK: {{[a-z_.]+}} implemented: few_channels_wgrad
// CHECK-LABEL: func.func @gradient_of_a_last_layer
// CHECK:         kernel.region configs {cuda = "few_channels_wgrad
func.func @gradient_of_a_last_layer(%x: tensor<8x128x128x64xf16>, %dy: tensor<8x128x128x3xf16>, %init: tensor<3x3x3x64xf16>) -> tensor<3x3x3x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<3x3x3x64xf16>) -> tensor<3x3x3x64xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<8x128x128x64xf16>, tensor<8x128x128x3xf16>) outs(%zeros : tensor<3x3x3x64xf16>)
  return %dw : tensor<3x3x3x64xf16>
}

// -----

// REMARK: not few_channels_wgrad: few output channels, and windows that step
// CHECK-LABEL: func.func @gradient_of_a_last_layer_that_steps
// CHECK-NOT:     few_channels_wgrad
// CHECK:         kernel.region configs {cuda = "
func.func @gradient_of_a_last_layer_that_steps(%x: tensor<8x128x128x64xf16>, %dy: tensor<8x64x64x3xf16>, %init: tensor<3x3x3x64xf16>) -> tensor<3x3x3x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<3x3x3x64xf16>) -> tensor<3x3x3x64xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<8x128x128x64xf16>, tensor<8x64x64x3xf16>) outs(%zeros : tensor<3x3x3x64xf16>)
  return %dw : tensor<3x3x3x64xf16>
}

// -----

// What a tile reads of 32 channels is copied once for 125 taps.
// REMARK: {{[a-z_.]+}} implemented: halo_implicit_gemm
// CHECK-LABEL: func.func @volume
// CHECK:         kernel.region configs {cuda = "halo_implicit_gemm
func.func @volume(%x: tensor<2x32x32x32x32xf16>, %w: tensor<64x5x5x5x32xf16>, %init: tensor<2x32x32x32x64xf16>) -> tensor<2x32x32x32x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<2x32x32x32x64xf16>) -> tensor<2x32x32x32x64xf16>
  %y = conv.fprop layouts(NDHWC, KTRSC, NDHWC) strides(1, 1, 1) padding(2, 2, 2) accumulate(f32) ins(%x, %w : tensor<2x32x32x32x32xf16>, tensor<64x5x5x5x32xf16>) outs(%zeros : tensor<2x32x32x32x64xf16>)
  return %y : tensor<2x32x32x32x64xf16>
}

// -----

// Two places of 32 channels are the rows of a matrix instruction.
// REMARK: {{[a-z_.]+}} implemented: sm90_grouped_wgrad
// CHECK-LABEL: func.func @gradient_of_groups_of_32_channels
// CHECK:         kernel.region configs {cuda = "sm90_grouped_wgrad 15 stages=3 blocks=132x1"} {
// CHECK-NOT:     kernel.region
func.func @gradient_of_groups_of_32_channels(%x: tensor<256x14x14x64xf16>, %dy: tensor<256x14x14x64xf16>, %init: tensor<64x3x3x32xf16>) -> tensor<64x3x3x32xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<64x3x3x32xf16>) -> tensor<64x3x3x32xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(1, 1) groups(2) accumulate(f32) ins(%x, %dy : tensor<256x14x14x64xf16>, tensor<256x14x14x64xf16>) outs(%zeros : tensor<64x3x3x32xf16>)
  return %dw : tensor<64x3x3x32xf16>
}

// -----

// REMARK: {{[a-z_.]+}} implemented: grouped_wgrad {{.*}}not grouped_direct: it computes another operand than C, or adds to it; {{.*}}not sm90_grouped_wgrad: groups have 8 and 8 channels
// CHECK-LABEL: func.func @gradient_of_small_groups
// CHECK:         kernel.region configs {cuda = "grouped_wgrad 64x13 warp_channels=16 rows={{[0-9]+}} tiles={{[0-9]+}} stages={{[0-9]+}} warps={{[0-9]+}} producer_warps={{[0-9]+}} copies={{async|tma}} blocks=132x{{[0-9]+}}"} {
// CHECK-NOT:     kernel.region
func.func @gradient_of_small_groups(%x: tensor<256x20x26x64xf16>, %dy: tensor<256x10x13x64xf16>, %init: tensor<64x3x3x8xf16>) -> tensor<64x3x3x8xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<64x3x3x8xf16>) -> tensor<64x3x3x8xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) groups(8) accumulate(f32) ins(%x, %dy : tensor<256x20x26x64xf16>, tensor<256x10x13x64xf16>) outs(%zeros : tensor<64x3x3x8xf16>)
  return %dw : tensor<64x3x3x8xf16>
}

// -----

// REMARK: not grouped_wgrad: one group is an implicit GEMM's
// CHECK-LABEL: func.func @gradient_of_one_group
// CHECK-NOT:     grouped_wgrad
func.func @gradient_of_one_group(%x: tensor<2x10x13x64xf16>, %dy: tensor<2x10x13x64xf16>, %init: tensor<64x3x3x64xf16>) -> tensor<64x3x3x64xf16> {
  %zero = arith.constant 0.0 : f16
  %zeros = linalg.fill ins(%zero : f16) outs(%init : tensor<64x3x3x64xf16>) -> tensor<64x3x3x64xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) strides(1, 1) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<2x10x13x64xf16>, tensor<2x10x13x64xf16>) outs(%zeros : tensor<64x3x3x64xf16>)
  return %dw : tensor<64x3x3x64xf16>
}
