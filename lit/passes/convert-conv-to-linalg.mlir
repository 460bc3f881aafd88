// Convolutions become the pads, scatters and generics that other front ends write by hand.
// RUN: convir-opt %s -p convert-conv-to-linalg,canonicalize --split-input-file | filecheck %s
// RUN: convir-opt %s -p convert-conv-to-linalg --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// A window over the padded input; the input's last row and column are in no window, and stay.
// REMARK: conv.fprop rewritten: a contraction with 3x2 windows
// CHECK-LABEL: func.func @fprop
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f16
// CHECK-NEXT: %[[PADDED:.*]] = tensor.pad %x low[0, 1, 0, 0] high[0, 1, 0, 0]
// CHECK: tensor.yield %[[ZERO]] : f16
// CHECK: tensor<2x50x50x8xf16> to tensor<2x52x50x8xf16>
// CHECK: %[[START:.*]] = linalg.generic
// CHECK-SAME: ins(%init : tensor<2x25x24x16xf16>)
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, ((d1 * 2) + d4), ((d2 * 2) + (d5 * 2)), d6)>
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6)>
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
// CHECK-SAME: ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
// CHECK-SAME: ins(%[[PADDED]], %w : tensor<2x52x50x8xf16>, tensor<16x3x2x8xf16>) outs(%[[START]] : tensor<2x25x24x16xf32>)
// CHECK: ^bb0(%[[X:.*]]: f16, %[[W:.*]]: f16, %[[ACC:.*]]: f32):
// CHECK-NEXT: %[[XE:.*]] = arith.extf %[[X]] : f16 to f32
// CHECK-NEXT: %[[WE:.*]] = arith.extf %[[W]] : f16 to f32
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[XE]], %[[WE]] : f32
// CHECK-NEXT: %[[A:.*]] = arith.addf %[[ACC]], %[[P]] : f32
// CHECK-NEXT: linalg.yield %[[A]] : f32
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[SUM]] : tensor<2x25x24x16xf32>)
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @fprop(%x: tensor<2x50x50x8xf16>, %w: tensor<16x3x2x8xf16>, %init: tensor<2x25x24x16xf16>) -> tensor<2x25x24x16xf16> {
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 0) dilations(1, 2) accumulate(f32)
         ins(%x, %w : tensor<2x50x50x8xf16>, tensor<16x3x2x8xf16>) outs(%init : tensor<2x25x24x16xf16>)
  return %y : tensor<2x25x24x16xf16>
}

// -----

// One tap at stride 2: a scatter into zeros and a contraction with the filter as it is.
// REMARK: conv.dgrad rewritten: a scatter with stride 2x2, then a contraction with 1x1 windows
// CHECK-LABEL: func.func @dgrad_1x1
// CHECK-DAG: %[[FILL:.*]] = linalg.fill ins(%{{.*}} : f32)
// CHECK-DAG: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : tensor<32x50x50x2048xf16>
// CHECK-DAG: %[[SCATTERED:.*]] = tensor.insert_slice %dy into %[[ZEROS]][0, 0, 0, 0] [32, 25, 25, 2048] [1, 2, 2, 1]
// CHECK: linalg.generic
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, (d1 + d5), (d2 + d6), d4)>
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>
// CHECK-SAME: ins(%[[SCATTERED]], %w : tensor<32x50x50x2048xf16>, tensor<2048x1x1x1024xf16>) outs(%[[FILL]] : tensor<32x50x50x1024xf32>)
// CHECK-NOT: tensor.extract
// CHECK: return
func.func @dgrad_1x1(%dy: tensor<32x25x25x2048xf16>, %w: tensor<2048x1x1x1024xf16>) -> tensor<32x50x50x1024xf16> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<32x50x50x1024xf16>
  %init = linalg.fill ins(%zero : f16) outs(%empty : tensor<32x50x50x1024xf16>) -> tensor<32x50x50x1024xf16>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) accumulate(f32)
          ins(%dy, %w : tensor<32x25x25x2048xf16>, tensor<2048x1x1x1024xf16>) outs(%init : tensor<32x50x50x1024xf16>)
  return %dx : tensor<32x50x50x1024xf16>
}

// -----

// Groups are a dimension of their own; the filter is flipped, c and k in each other's place.
// CHECK-LABEL: func.func @dgrad_3x3_grouped
// CHECK: %[[DY:.*]] = tensor.expand_shape %dy [{{.*}}[3 : i64, 4 : i64]] output_shape [32, 25, 25, 32, 32]
// CHECK: %[[W:.*]] = tensor.expand_shape %w {{\[}}[0 : i64, 1 : i64], {{.*}}] output_shape [32, 32, 3, 3, 32]
// CHECK: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : tensor<32x52x52x32x32xf16>
// CHECK: %[[SCATTERED:.*]] = tensor.insert_slice %[[DY]] into %[[ZEROS]][0, 1, 1, 0, 0] [32, 25, 25, 32, 32] [1, 2, 2, 1, 1]
// CHECK: %[[LAST:.*]] = arith.constant 2 : index
// CHECK: %[[FLIPPED:.*]] = linalg.generic
// CHECK-DAG: %[[G:.*]] = linalg.index 0 : index
// CHECK-DAG: %[[C:.*]] = linalg.index 1 : index
// CHECK-DAG: %[[R:.*]] = linalg.index 2 : index
// CHECK-DAG: %[[S:.*]] = linalg.index 3 : index
// CHECK-DAG: %[[K:.*]] = linalg.index 4 : index
// CHECK-DAG: %[[RR:.*]] = arith.subi %[[LAST]], %[[R]] : index
// CHECK-DAG: %[[SR:.*]] = arith.subi %[[LAST]], %[[S]] : index
// CHECK: tensor.extract %[[W]][%[[G]], %[[K]], %[[RR]], %[[SR]], %[[C]]] : tensor<32x32x3x3x32xf16>
// CHECK: linalg.generic
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, (d1 + d5), (d2 + d6), d3, d7)>
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d4, d5, d6, d7)>
// CHECK-SAME: ins(%[[SCATTERED]], %[[FLIPPED]] : tensor<32x52x52x32x32xf16>, tensor<32x32x3x3x32xf16>)
// CHECK-SAME: tensor<32x50x50x32x32xf32>
// CHECK: tensor.collapse_shape %{{.*}} : tensor<32x50x50x32x32xf16> into tensor<32x50x50x1024xf16>
func.func @dgrad_3x3_grouped(%dy: tensor<32x25x25x1024xf16>, %w: tensor<1024x3x3x32xf16>) -> tensor<32x50x50x1024xf16> {
  %init = arith.constant dense<0.0> : tensor<32x50x50x1024xf16>
  %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) groups(32) accumulate(f32)
          ins(%dy, %w : tensor<32x25x25x1024xf16>, tensor<1024x3x3x32xf16>) outs(%init : tensor<32x50x50x1024xf16>)
  return %dx : tensor<32x50x50x1024xf16>
}

// -----

// At stride 1 there are no holes, and so no scatter: a pad.
// REMARK: conv.dgrad rewritten: a contraction with 3 windows
// CHECK-LABEL: func.func @dgrad_stride_1
// CHECK: %[[PADDED:.*]] = tensor.pad %dy low[0, 3, 0] high[0, 2, 0]
// CHECK-NOT: tensor.insert_slice
// CHECK: tensor.extract %w
// CHECK: linalg.generic
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4) -> (d0, (d1 + (d3 * 2)), d4)>
// CHECK-SAME: ins(%[[PADDED]], %{{.*}}) outs(%init : tensor<2x9x4xf32>)
func.func @dgrad_stride_1(%dy: tensor<2x8x6xf32>, %w: tensor<6x3x4xf32>, %init: tensor<2x9x4xf32>) -> tensor<2x9x4xf32> {
  %dx = conv.dgrad layouts(NWC, KSC, NWC) padding(1:2) dilations(2)
          ins(%dy, %w : tensor<2x8x6xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x9x4xf32>)
  return %dx : tensor<2x9x4xf32>
}

// -----

// Where padding reaches beyond the filter, gradients that only saw padding are cropped first.
// CHECK-LABEL: func.func @dgrad_cropped
// CHECK: %[[KEPT:.*]] = tensor.extract_slice %dy[0, 1, 0] [2, 3, 6] [1, 1, 1]
// CHECK: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : tensor<2x5x6xf32>
// CHECK: tensor.insert_slice %[[KEPT]] into %[[ZEROS]][0, 0, 0] [2, 3, 6] [1, 2, 1]
func.func @dgrad_cropped(%dy: tensor<2x5x6xf32>, %w: tensor<6x2x4xf32>, %init: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %dx = conv.dgrad layouts(NWC, KSC, NWC) strides(2) padding(3)
          ins(%dy, %w : tensor<2x5x6xf32>, tensor<6x2x4xf32>) outs(%init : tensor<2x4x4xf32>)
  return %dx : tensor<2x4x4xf32>
}

// -----

// No gradient reaches the input at all: what is left is the init.
// CHECK-LABEL: func.func @dgrad_of_padding
// CHECK-NEXT: return %init
func.func @dgrad_of_padding(%dy: tensor<2x1x6xf32>, %w: tensor<6x1x4xf32>, %init: tensor<2x1x4xf32>) -> tensor<2x1x4xf32> {
  %dx = conv.dgrad layouts(NWC, KSC, NWC) strides(2) padding(1:0)
          ins(%dy, %w : tensor<2x1x6xf32>, tensor<6x1x4xf32>) outs(%init : tensor<2x1x4xf32>)
  return %dx : tensor<2x1x4xf32>
}

// -----

// Channels first: loops follow the result's dimensions, then the remaining ones of dY.
// REMARK: conv.wgrad rewritten: a contraction with 3x3 windows
// CHECK-LABEL: func.func @wgrad_nchw
// CHECK: linalg.generic
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d1, ((d5 * 2) + d2), ((d6 * 2) + d3))>
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d0, d5, d6)>
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
// CHECK-SAME: ins(%x, %dy : tensor<2x4x9x9xf32>, tensor<2x6x4x4xf32>) outs(%init : tensor<6x4x3x3xf32>)
func.func @wgrad_nchw(%x: tensor<2x4x9x9xf32>, %dy: tensor<2x6x4x4xf32>, %init: tensor<6x4x3x3xf32>) -> tensor<6x4x3x3xf32> {
  %dw = conv.wgrad layouts(NCHW, KCRS, NCHW) strides(2, 2)
          ins(%x, %dy : tensor<2x4x9x9xf32>, tensor<2x6x4x4xf32>) outs(%init : tensor<6x4x3x3xf32>)
  return %dw : tensor<6x4x3x3xf32>
}

// -----

// A dynamic batch.
// CHECK-LABEL: func.func @dynamic_batch
// CHECK: %[[N:.*]] = tensor.dim %dy
// CHECK: %[[EMPTY:.*]] = tensor.empty(%[[N]]) : tensor<?x9x6xf32>
// CHECK: %[[ZEROS:.*]] = linalg.fill ins(%{{.*}}) outs(%[[EMPTY]] : tensor<?x9x6xf32>)
// CHECK: tensor.insert_slice %dy into %[[ZEROS]][0, 0, 0] [%[[N]], 5, 6] [1, 2, 1]
func.func @dynamic_batch(%dy: tensor<?x5x6xf32>, %w: tensor<6x1x4xf32>, %init: tensor<?x9x4xf32>) -> tensor<?x9x4xf32> {
  %dx = conv.dgrad layouts(NWC, KSC, NWC) strides(2)
          ins(%dy, %w : tensor<?x5x6xf32>, tensor<6x1x4xf32>) outs(%init : tensor<?x9x4xf32>)
  return %dx : tensor<?x9x4xf32>
}

// -----

// Not rewritten: the scatter of a dynamic width would need its size at run time.
// REMARK: conv.dgrad not rewritten: dimension W of the input is dynamic
// CHECK-LABEL: func.func @dynamic_width
// CHECK: conv.dgrad
func.func @dynamic_width(%dy: tensor<2x?x6xf32>, %w: tensor<6x1x4xf32>, %init: tensor<2x?x4xf32>) -> tensor<2x?x4xf32> {
  %dx = conv.dgrad layouts(NWC, KSC, NWC) strides(2)
          ins(%dy, %w : tensor<2x?x6xf32>, tensor<6x1x4xf32>) outs(%init : tensor<2x?x4xf32>)
  return %dx : tensor<2x?x4xf32>
}
