// The conv ops print what they parse, and leave out what is said by default.
// RUN: convir-opt %s | convir-opt | filecheck %s
// RUN: convir-opt %s | filecheck %s

// CHECK-LABEL: func.func @fprop
// CHECK: conv.fprop layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) accumulate(f32) ins(%x, %w : tensor<2x50x50x8xf16>, tensor<16x3x3x8xf16>) outs(%init : tensor<2x25x25x16xf16>)
func.func @fprop(%x: tensor<2x50x50x8xf16>, %w: tensor<16x3x3x8xf16>, %init: tensor<2x25x25x16xf16>) -> tensor<2x25x25x16xf16> {
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1:1, 1) dilations(1, 1) groups(1) accumulate(f32)
         ins(%x, %w : tensor<2x50x50x8xf16>, tensor<16x3x3x8xf16>)
         outs(%init : tensor<2x25x25x16xf16>)
  return %y : tensor<2x25x25x16xf16>
}

// One dimension; padding only below.
// CHECK-LABEL: func.func @causal
// CHECK: conv.fprop layouts(NWC, KSC, NWC) padding(4:0) dilations(2) groups(4) ins(
func.func @causal(%x: tensor<1x64x8xf32>, %w: tensor<8x3x2xf32>, %init: tensor<1x64x8xf32>) -> tensor<1x64x8xf32> {
  %y = conv.fprop layouts(NWC, KSC, NWC) padding(4:0) dilations(2) groups(4)
         ins(%x, %w : tensor<1x64x8xf32>, tensor<8x3x2xf32>) outs(%init : tensor<1x64x8xf32>)
  return %y : tensor<1x64x8xf32>
}

// 50 and 49 both give 25: the init says which input is meant.
// CHECK-LABEL: func.func @dgrad
// CHECK: conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) accumulate(f32) ins(
// CHECK-SAME: outs(%{{.*}} : tensor<2x50x50x8xbf16>)
// CHECK: conv.dgrad
// CHECK-SAME: outs(%{{.*}} : tensor<2x49x49x8xbf16>)
func.func @dgrad(%dy: tensor<2x25x25x16xbf16>, %w: tensor<16x1x1x8xbf16>, %init50: tensor<2x50x50x8xbf16>, %init49: tensor<2x49x49x8xbf16>) -> (tensor<2x50x50x8xbf16>, tensor<2x49x49x8xbf16>) {
  %dx50 = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) accumulate(f32)
            ins(%dy, %w : tensor<2x25x25x16xbf16>, tensor<16x1x1x8xbf16>) outs(%init50 : tensor<2x50x50x8xbf16>)
  %dx49 = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) accumulate(f32)
            ins(%dy, %w : tensor<2x25x25x16xbf16>, tensor<16x1x1x8xbf16>) outs(%init49 : tensor<2x49x49x8xbf16>)
  return %dx50, %dx49 : tensor<2x50x50x8xbf16>, tensor<2x49x49x8xbf16>
}

// Three dimensions, a layout per operand, a result wider than its operands, an attribute.
// CHECK-LABEL: func.func @wgrad
// CHECK: conv.wgrad layouts(NCDHW, TRSCK, NDHWC) strides(1, 2, 1) ins(
// CHECK-SAME: attributes {note = "kept"}
func.func @wgrad(%x: tensor<2x4x5x7x6xf16>, %dy: tensor<2x4x3x6x8xf16>, %init: tensor<2x3x1x4x8xf32>) -> tensor<2x3x1x4x8xf32> {
  %dw = conv.wgrad layouts(NCDHW, TRSCK, NDHWC) strides(1, 2, 1) padding(0, 0, 0)
          ins(%x, %dy : tensor<2x4x5x7x6xf16>, tensor<2x4x3x6x8xf16>)
          outs(%init : tensor<2x3x1x4x8xf32>) attributes {note = "kept"}
  return %dw : tensor<2x3x1x4x8xf32>
}

// Dynamic sizes fit whatever they may turn out to be.
// CHECK-LABEL: func.func @dynamic
// CHECK: conv.fprop
func.func @dynamic(%x: tensor<?x?x8xf32>, %w: tensor<8x3x8xf32>, %init: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %y = conv.fprop layouts(NWC, KSC, NWC)
         ins(%x, %w : tensor<?x?x8xf32>, tensor<8x3x8xf32>) outs(%init : tensor<?x?x8xf32>)
  return %y : tensor<?x?x8xf32>
}
