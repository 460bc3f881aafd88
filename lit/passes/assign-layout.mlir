// RUN: convir-opt %s -p assign-layout --split-input-file | filecheck %s
// RUN: convir-opt %s -p assign-layout --split-input-file --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: convir-opt %s -p 'assign-layout{layout=channels-outermost}' --split-input-file | filecheck %s --check-prefix=OUTER
// Channels last within a graph, transposes at its edges.

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

// Two convolutions, a bias and an activation: one transposition on the way in, one on the way out.
// REMARK: conv.fprop rewritten: NCHW to channels-last for 2 convolutions: 2 transposes at the edges move 25.6 kB instead of 51.2 kB
// CHECK-LABEL: func.func @graph
// CHECK:       linalg.transpose ins(%x : tensor<1x16x10x10xf32>) outs({{%.*}} : tensor<1x10x10x16xf32>) permutation = [0, 2, 3, 1]
// CHECK:       conv.fprop layouts(NHWC, KCRS, NHWC) padding(1, 1)
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>]
// CHECK-NOT:   linalg.transpose
// CHECK:       arith.maximumf {{.*}} : tensor<1x10x10x16xf32>
// CHECK:       conv.fprop layouts(NHWC, KCRS, NHWC)
// CHECK:       linalg.transpose {{.*}} permutation = [0, 3, 1, 2]
// CHECK-NEXT:  func.return
// OUTER-LABEL: func.func @graph
// OUTER:       linalg.transpose {{.*}} permutation = [1, 0, 2, 3]
// OUTER:       conv.fprop layouts(CNHW, KCRS, CNHW) padding(1, 1)
// OUTER:       affine_map<(d0, d1, d2, d3) -> (d0)>
func.func @graph(%x: tensor<1x16x10x10xf32>, %w: tensor<16x16x3x3xf32>, %b: tensor<16xf32>, %v: tensor<16x16x1x1xf32>) -> tensor<1x16x10x10xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x16x10x10xf32>
  %e = tensor.empty() : tensor<1x16x10x10xf32>
  %0 = conv.fprop layouts(NCHW, KCRS, NCHW) padding(1, 1) ins(%x, %w : tensor<1x16x10x10xf32>, tensor<16x16x3x3xf32>) outs(%zeros : tensor<1x16x10x10xf32>)
  %1 = linalg.generic {indexing_maps = [#id, #channel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%0, %b : tensor<1x16x10x10xf32>, tensor<16xf32>) outs(%e : tensor<1x16x10x10xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<1x16x10x10xf32>
  %2 = arith.maximumf %1, %zeros : tensor<1x16x10x10xf32>
  %3 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%2, %v : tensor<1x16x10x10xf32>, tensor<16x16x1x1xf32>) outs(%zeros : tensor<1x16x10x10xf32>)
  return %3 : tensor<1x16x10x10xf32>
}

// -----

// A pool's windows, a pad and a slice are permuted with the image; the mean over it reads it so.
// REMARK: conv.fprop rewritten: NCHW to channels-last for 2 convolutions: 1 transposes
// CHECK-LABEL: func.func @around
// CHECK:       tensor.pad {{.*}} low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, ((d1 * 2) + d4), ((d2 * 2) + d5), d3)>
// CHECK:       tensor.extract_slice {{.*}}[0, 0, 0, 0] [1, 4, 4, 16] [1, 1, 1, 1]
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>]
// CHECK-NOT:   linalg.transpose
// CHECK:       func.return
func.func @around(%x: tensor<1x16x8x8xf32>, %w: tensor<16x16x1x1xf32>) -> tensor<1x16xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<1x16x8x8xf32>
  %none = arith.constant dense<0.0> : tensor<1x16xf32>
  %0 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%x, %w : tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) outs(%zeros : tensor<1x16x8x8xf32>)
  %1 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%0, %w : tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) outs(%zeros : tensor<1x16x8x8xf32>)
  %2 = tensor.pad %1 low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x16x8x8xf32> to tensor<1x16x10x10xf32>
  %taps = tensor.empty() : tensor<2x2xf32>
  %e = tensor.empty() : tensor<1x16x5x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x5x5xf32>) -> tensor<1x16x5x5xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(n, c, h, w, r, s) -> (n, c, h * 2 + r, w * 2 + s)>, affine_map<(n, c, h, w, r, s) -> (r, s)>, affine_map<(n, c, h, w, r, s) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%2, %taps : tensor<1x16x10x10xf32>, tensor<2x2xf32>) outs(%init : tensor<1x16x5x5xf32>) {
  ^bb0(%a: f32, %t: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<1x16x5x5xf32>
  %4 = tensor.extract_slice %3[0, 0, 0, 0] [1, 16, 4, 4] [1, 1, 1, 1] : tensor<1x16x5x5xf32> to tensor<1x16x4x4xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%4 : tensor<1x16x4x4xf32>) outs(%none : tensor<1x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<1x16xf32>
  return %5 : tensor<1x16xf32>
}

// -----

// Not rewritten: alone, a convolution copies no more than the transposes do.
// REMARK: conv.fprop not rewritten: transposing moves 25.6 kB, the copies of 1 convolutions 25.6 kB
// CHECK-LABEL: func.func @alone
// CHECK:       conv.fprop layouts(NCHW, KCRS, NCHW)
func.func @alone(%x: tensor<1x16x10x10xf32>, %w: tensor<16x16x3x3xf32>) -> tensor<1x16x10x10xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x16x10x10xf32>
  %0 = conv.fprop layouts(NCHW, KCRS, NCHW) padding(1, 1) ins(%x, %w : tensor<1x16x10x10xf32>, tensor<16x16x3x3xf32>) outs(%zeros : tensor<1x16x10x10xf32>)
  return %0 : tensor<1x16x10x10xf32>
}

// -----

// Nothing to do: the channels are last already.
// CHECK-LABEL: func.func @channels_last
// CHECK-NOT:   linalg.transpose
func.func @channels_last(%x: tensor<1x10x10x16xf32>, %w: tensor<16x1x1x16xf32>) -> tensor<1x10x10x16xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x10x10x16xf32>
  %0 = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : tensor<1x10x10x16xf32>, tensor<16x1x1x16xf32>) outs(%zeros : tensor<1x10x10x16xf32>)
  %1 = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%0, %w : tensor<1x10x10x16xf32>, tensor<16x1x1x16xf32>) outs(%zeros : tensor<1x10x10x16xf32>)
  return %1 : tensor<1x10x10x16xf32>
}

// -----

// A state stays as its caller has it: what is inserted into it is transposed back.
// CHECK-LABEL: func.func @state
// CHECK:       linalg.transpose
// CHECK:       %[[BACK:.*]] = linalg.transpose
// CHECK-NEXT:  tensor.insert_slice %[[BACK]] into %s[0, 0, 8] [1, 72, 8] [1, 1, 1] : tensor<1x72x8xf32> into tensor<1x72x16xf32>
// CHECK:       conv.fprop layouts(NWC, KCS, NWC)
func.func @state(%x: tensor<1x72x8xf32>, %w: tensor<72x72x1xf32>, %s: tensor<1x72x16xf32>) -> (tensor<1x72x8xf32>, tensor<1x72x16xf32>) attributes {convir.states = 1 : i64} {
  %zeros = arith.constant dense<0.0> : tensor<1x72x8xf32>
  %0 = conv.fprop layouts(NCW, KCS, NCW) ins(%x, %w : tensor<1x72x8xf32>, tensor<72x72x1xf32>) outs(%zeros : tensor<1x72x8xf32>)
  %1 = conv.fprop layouts(NCW, KCS, NCW) ins(%0, %w : tensor<1x72x8xf32>, tensor<72x72x1xf32>) outs(%zeros : tensor<1x72x8xf32>)
  %2 = conv.fprop layouts(NCW, KCS, NCW) ins(%1, %w : tensor<1x72x8xf32>, tensor<72x72x1xf32>) outs(%zeros : tensor<1x72x8xf32>)
  %3 = tensor.insert_slice %2 into %s[0, 0, 8] [1, 72, 8] [1, 1, 1] : tensor<1x72x8xf32> into tensor<1x72x16xf32>
  %4 = conv.fprop layouts(NCW, KCS, NCW) ins(%2, %w : tensor<1x72x8xf32>, tensor<72x72x1xf32>) outs(%zeros : tensor<1x72x8xf32>)
  return %4, %3 : tensor<1x72x8xf32>, tensor<1x72x16xf32>
}

// -----

// A concatenation joins its parts along the dimension that the channels become.
// CHECK-LABEL: func.func @concat
// CHECK:       linalg.transpose
// CHECK-NOT:   linalg.transpose
// CHECK:       tensor.concat dim(3) {{.*}} : (tensor<1x10x10x16xf32>, tensor<1x10x10x16xf32>) -> tensor<1x10x10x32xf32>
// CHECK-NEXT:  tensor.empty
// CHECK-NEXT:  linalg.transpose {{.*}} permutation = [0, 3, 1, 2]
// CHECK-NEXT:  func.return
// OUTER-LABEL: func.func @concat
// OUTER:       tensor.concat dim(0)
func.func @concat(%x: tensor<1x16x10x10xf32>, %w: tensor<16x16x3x3xf32>) -> tensor<1x32x10x10xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x16x10x10xf32>
  %0 = conv.fprop layouts(NCHW, KCRS, NCHW) padding(1, 1) ins(%x, %w : tensor<1x16x10x10xf32>, tensor<16x16x3x3xf32>) outs(%zeros : tensor<1x16x10x10xf32>)
  %1 = conv.fprop layouts(NCHW, KCRS, NCHW) padding(1, 1) ins(%0, %w : tensor<1x16x10x10xf32>, tensor<16x16x3x3xf32>) outs(%zeros : tensor<1x16x10x10xf32>)
  %2 = conv.fprop layouts(NCHW, KCRS, NCHW) padding(1, 1) ins(%1, %w : tensor<1x16x10x10xf32>, tensor<16x16x3x3xf32>) outs(%zeros : tensor<1x16x10x10xf32>)
  %3 = tensor.concat dim(1) %2, %1 : (tensor<1x16x10x10xf32>, tensor<1x16x10x10xf32>) -> tensor<1x32x10x10xf32>
  return %3 : tensor<1x32x10x10xf32>
}

// -----

// Not rewritten: the host convolves few channels along frames where these are neighbours.
// CHECK-LABEL: func.func @frames
// CHECK-NOT:   linalg.transpose
// CHECK:       conv.fprop layouts(NCW, KCS, NCW)
func.func @frames(%x: tensor<1x16x8xf32>, %w: tensor<16x16x1xf32>) -> tensor<1x16x8xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x16x8xf32>
  %0 = conv.fprop layouts(NCW, KCS, NCW) ins(%x, %w : tensor<1x16x8xf32>, tensor<16x16x1xf32>) outs(%zeros : tensor<1x16x8xf32>)
  %1 = conv.fprop layouts(NCW, KCS, NCW) ins(%0, %w : tensor<1x16x8xf32>, tensor<16x16x1xf32>) outs(%zeros : tensor<1x16x8xf32>)
  %2 = conv.fprop layouts(NCW, KCS, NCW) ins(%1, %w : tensor<1x16x8xf32>, tensor<16x16x1xf32>) outs(%zeros : tensor<1x16x8xf32>)
  return %2 : tensor<1x16x8xf32>
}

// -----

// What reads images of one component and computes those of another is of both, one after the other.
// CHECK-LABEL: func.func @volumes_to_images
// CHECK:       conv.fprop layouts(NDHWC, KCTRS, NDHWC)
// CHECK:       %[[V:.*]] = conv.fprop layouts(NDHWC, KCTRS, NDHWC)
// CHECK-NOT:   linalg.transpose
// CHECK:       %[[S:.*]] = linalg.generic {{.*}} ins(%[[V]] : tensor<1x2x4x4x8xf32>) outs(%{{.*}} : tensor<1x2x4x8xf32>)
// CHECK:       conv.fprop layouts(NHWC, KCRS, NHWC) ins(%[[S]]
// CHECK:       conv.fprop layouts(NHWC, KCRS, NHWC)
// CHECK:       linalg.transpose
func.func @volumes_to_images(%x: tensor<1x8x2x4x4xf32>, %w: tensor<8x8x1x1x1xf32>, %f: tensor<8x8x1x1xf32>) -> tensor<1x8x2x4xf32> {
  %volumes = arith.constant dense<0.0> : tensor<1x8x2x4x4xf32>
  %images = arith.constant dense<0.0> : tensor<1x8x2x4xf32>
  %0 = conv.fprop layouts(NCDHW, KCTRS, NCDHW) ins(%x, %w : tensor<1x8x2x4x4xf32>, tensor<8x8x1x1x1xf32>) outs(%volumes : tensor<1x8x2x4x4xf32>)
  %1 = conv.fprop layouts(NCDHW, KCTRS, NCDHW) ins(%0, %w : tensor<1x8x2x4x4xf32>, tensor<8x8x1x1x1xf32>) outs(%volumes : tensor<1x8x2x4x4xf32>)
  %2 = linalg.generic {indexing_maps = [affine_map<(n, c, d, h, w) -> (n, c, d, h, w)>, affine_map<(n, c, d, h, w) -> (n, c, d, h)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%1 : tensor<1x8x2x4x4xf32>) outs(%images : tensor<1x8x2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %out, %in : f32
    linalg.yield %s : f32
  } -> tensor<1x8x2x4xf32>
  %3 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%2, %f : tensor<1x8x2x4xf32>, tensor<8x8x1x1xf32>) outs(%images : tensor<1x8x2x4xf32>)
  %4 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%3, %f : tensor<1x8x2x4xf32>, tensor<8x8x1x1xf32>) outs(%images : tensor<1x8x2x4xf32>)
  return %4 : tensor<1x8x2x4xf32>
}

// -----

// What each element is repeated by is computed as well on permuted images: neither a window nor a
// place of its own ends a component.
// CHECK-LABEL: func.func @nearest_neighbours
// CHECK:       %[[Y:.*]] = conv.fprop layouts(NHWC, KCRS, NHWC)
// CHECK-NOT:   linalg.transpose
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, (d1 floordiv 2), (d2 floordiv 2), d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>]{{.*}}ins(%[[Y]] : tensor<1x8x8x64xf32>)
// CHECK:       conv.fprop layouts(NHWC, KCRS, NHWC)
func.func @nearest_neighbours(%x: tensor<1x64x8x8xf32>, %w: tensor<64x64x1x1xf32>) -> tensor<1x64x16x16xf32> {
  %small = arith.constant dense<0.0> : tensor<1x64x8x8xf32>
  %large = arith.constant dense<0.0> : tensor<1x64x16x16xf32>
  %0 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%x, %w : tensor<1x64x8x8xf32>, tensor<64x64x1x1xf32>) outs(%small : tensor<1x64x8x8xf32>)
  %e = tensor.empty() : tensor<1x64x16x16xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h floordiv 2, w floordiv 2)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%0 : tensor<1x64x8x8xf32>) outs(%e : tensor<1x64x16x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x64x16x16xf32>
  %2 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%1, %w : tensor<1x64x16x16xf32>, tensor<64x64x1x1xf32>) outs(%large : tensor<1x64x16x16xf32>)
  return %2 : tensor<1x64x16x16xf32>
}

// -----

// Not rewritten: what an encoding says of a tensor it does not say of the transposed one.
// CHECK-LABEL: func.func @encoded
// CHECK-NOT:   linalg.transpose
// CHECK:       conv.fprop layouts(NCHW, KCRS, NCHW)
func.func @encoded(%x: tensor<1x64x8x8xf32, "rows">, %w: tensor<64x64x1x1xf32>, %init: tensor<1x64x8x8xf32, "rows">) -> tensor<1x64x8x8xf32, "rows"> {
  %0 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%x, %w : tensor<1x64x8x8xf32, "rows">, tensor<64x64x1x1xf32>) outs(%init : tensor<1x64x8x8xf32, "rows">)
  %1 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%0, %w : tensor<1x64x8x8xf32, "rows">, tensor<64x64x1x1xf32>) outs(%init : tensor<1x64x8x8xf32, "rows">)
  %2 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%1, %w : tensor<1x64x8x8xf32, "rows">, tensor<64x64x1x1xf32>) outs(%init : tensor<1x64x8x8xf32, "rows">)
  return %2 : tensor<1x64x8x8xf32, "rows">
}

// -----

#apart = affine_map<(n, g, c, h, w) -> (n, g, c, h, w)>
#group = affine_map<(n, g, c, h, w) -> (n, g)>

// The sums of groups are sums of the sums of channels, so that no image is transposed for them.
// REMARK: conv.fprop rewritten: NCHW to channels-last for 2 convolutions: 2 transposes
// CHECK-LABEL: func.func @groups
// CHECK:       conv.fprop layouts(NHWC, KCRS, NHWC)
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
// CHECK:       tensor.expand_shape {{.*}} : tensor<1x16xf32> into tensor<1x4x4xf32>
// CHECK:       linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK:       tensor.collapse_shape {{.*}} : tensor<1x4x4xf32> into tensor<1x16xf32>
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3)>
// CHECK-NEXT:  ^
// CHECK-NEXT:    arith.subf
// CHECK-NOT:   linalg.transpose
// CHECK:       conv.fprop layouts(NHWC, KCRS, NHWC)
// OUTER-LABEL: func.func @groups
func.func @groups(%x: tensor<1x16x8x8xf32>, %w: tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x16x8x8xf32>
  %none = arith.constant dense<0.0> : tensor<1x4xf32>
  %e = tensor.empty() : tensor<1x4x4x8x8xf32>
  %0 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%x, %w : tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) outs(%zeros : tensor<1x16x8x8xf32>)
  %1 = tensor.expand_shape %0 [[0], [1, 2], [3], [4]] output_shape [1, 4, 4, 8, 8] : tensor<1x16x8x8xf32> into tensor<1x4x4x8x8xf32>
  %2 = linalg.generic {indexing_maps = [#apart, #group], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%1 : tensor<1x4x4x8x8xf32>) outs(%none : tensor<1x4xf32>) {
  ^bb0(%a: f32, %t: f32):
    %s = arith.addf %t, %a : f32
    linalg.yield %s : f32
  } -> tensor<1x4xf32>
  %3 = linalg.generic {indexing_maps = [#apart, #group, #apart], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%1, %2 : tensor<1x4x4x8x8xf32>, tensor<1x4xf32>) outs(%e : tensor<1x4x4x8x8xf32>) {
  ^bb0(%a: f32, %t: f32, %o: f32):
    %s = arith.subf %a, %t : f32
    linalg.yield %s : f32
  } -> tensor<1x4x4x8x8xf32>
  %4 = tensor.collapse_shape %3 [[0], [1, 2], [3], [4]] : tensor<1x4x4x8x8xf32> into tensor<1x16x8x8xf32>
  %5 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%4, %w : tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) outs(%zeros : tensor<1x16x8x8xf32>)
  return %5 : tensor<1x16x8x8xf32>
}

// -----

#apart = affine_map<(n, g, c, h, w) -> (n, g, c, h, w)>
#group = affine_map<(n, g, c, h, w) -> (n, g)>

// Not rewritten because the maximum of a group is no sum: the image is transposed for it.
// CHECK-LABEL: func.func @largest
// CHECK:       linalg.transpose
// CHECK:       conv.fprop layouts(NHWC, KCRS, NHWC)
// CHECK:       linalg.transpose
// CHECK:       tensor.expand_shape {{.*}} : tensor<1x16x8x8xf32> into tensor<1x4x4x8x8xf32>
// OUTER-LABEL: func.func @largest
func.func @largest(%x: tensor<1x16x8x8xf32>, %w: tensor<16x16x1x1xf32>) -> tensor<1x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x16x8x8xf32>
  %none = arith.constant dense<0.0> : tensor<1x4xf32>
  %0 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%x, %w : tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) outs(%zeros : tensor<1x16x8x8xf32>)
  %1 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%0, %w : tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) outs(%zeros : tensor<1x16x8x8xf32>)
  %2 = conv.fprop layouts(NCHW, KCRS, NCHW) ins(%1, %w : tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) outs(%zeros : tensor<1x16x8x8xf32>)
  %3 = tensor.expand_shape %2 [[0], [1, 2], [3], [4]] output_shape [1, 4, 4, 8, 8] : tensor<1x16x8x8xf32> into tensor<1x4x4x8x8xf32>
  %4 = linalg.generic {indexing_maps = [#apart, #group], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%3 : tensor<1x4x4x8x8xf32>) outs(%none : tensor<1x4xf32>) {
  ^bb0(%a: f32, %t: f32):
    %s = arith.maximumf %t, %a : f32
    linalg.yield %s : f32
  } -> tensor<1x4xf32>
  return %4 : tensor<1x4xf32>
}
