// RUN: convir-opt %s -p fuse-frames --split-input-file | filecheck %s
// RUN: convir-opt %s -p fuse-frames --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// A convolution, its bias, what it is inserted into: one kernel.
// REMARK: remark: [fuse-frames] kernel.region rewritten: 3 ops are 1 stages of one kernel
// CHECK-LABEL: func.func @inserted
// CHECK:       kernel.region configs {host = "planar"} {
// CHECK:         linalg.generic
// CHECK:         linalg.generic
// CHECK:         tensor.insert_slice
// CHECK:         kernel.yield %{{.*}} : tensor<1x4x20xf32>
// CHECK-NEXT:  } -> tensor<1x4x20xf32>
// CHECK-NEXT:  func.return
func.func @inserted(%x: tensor<1x2x16xf32>, %w: tensor<4x2x1xf32>, %b: tensor<4xf32>, %window: tensor<1x4x20xf32>) -> tensor<1x4x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c, k) -> (n, c, t + k)>, affine_map<(n, o, t, c, k) -> (o, c, k)>, affine_map<(n, o, t, c, k) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x2x16xf32>, tensor<4x2x1xf32>) outs(%z : tensor<1x4x16xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x16xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(n, o, t) -> (n, o, t)>, affine_map<(n, o, t) -> (o)>, affine_map<(n, o, t) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0, %b : tensor<1x4x16xf32>, tensor<4xf32>) outs(%e : tensor<1x4x16xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.addf %a, %f : f32
    linalg.yield %p : f32
  } -> tensor<1x4x16xf32>
  %2 = tensor.insert_slice %1 into %window[0, 0, 4] [1, 4, 16] [1, 1, 1] : tensor<1x4x16xf32> into tensor<1x4x20xf32>
  return %2 : tensor<1x4x20xf32>
}

// -----

// Two taps need all frames of what they read: a border. The residual behind it reads the window, not
// a second copy.
// REMARK: remark: [fuse-frames] kernel.region rewritten: 2 ops are 1 stages of one kernel
// REMARK: remark: [fuse-frames] kernel.region rewritten: 4 ops are 1 stages of one kernel
// CHECK-LABEL: func.func @layers
// CHECK:       %[[SEEN:.*]] = kernel.region configs {host = "planar"} {
// CHECK:       } -> tensor<1x4x20xf32>
// CHECK:       kernel.region configs {host = "planar"} {
// CHECK:         tensor.extract_slice %[[SEEN]][0, 0, 3] [1, 4, 17]
// CHECK:         linalg.generic
// CHECK:         tensor.extract_slice %[[SEEN]][0, 0, 4] [1, 4, 16]
// CHECK:         arith.addf
// CHECK:       } -> tensor<1x4x16xf32>
func.func @layers(%x: tensor<1x4x16xf32>, %w: tensor<4x4x1xf32>, %w2: tensor<4x4x2xf32>, %window: tensor<1x4x20xf32>) -> (tensor<1x4x16xf32>, tensor<1x4x20xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c, k) -> (n, c, t + k)>, affine_map<(n, o, t, c, k) -> (o, c, k)>, affine_map<(n, o, t, c, k) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x4x16xf32>, tensor<4x4x1xf32>) outs(%z : tensor<1x4x16xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x16xf32>
  %1 = tensor.insert_slice %0 into %window[0, 0, 4] [1, 4, 16] [1, 1, 1] : tensor<1x4x16xf32> into tensor<1x4x20xf32>
  %2 = tensor.extract_slice %1[0, 0, 3] [1, 4, 17] [1, 1, 1] : tensor<1x4x20xf32> to tensor<1x4x17xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c, k) -> (n, c, t + k)>, affine_map<(n, o, t, c, k) -> (o, c, k)>, affine_map<(n, o, t, c, k) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%2, %w2 : tensor<1x4x17xf32>, tensor<4x4x2xf32>) outs(%z : tensor<1x4x16xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x16xf32>
  %4 = arith.addf %0, %3 : tensor<1x4x16xf32>
  return %4, %1 : tensor<1x4x16xf32>, tensor<1x4x20xf32>
}

// -----

// REMARK: remark: [fuse-frames] linalg.generic not rewritten: it has more than 64 channels
// CHECK-LABEL: func.func @wide
// CHECK-NOT:   kernel.region
func.func @wide(%x: tensor<1x65x16xf32>, %w: tensor<4x65x1xf32>) -> tensor<1x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c, k) -> (n, c, t + k)>, affine_map<(n, o, t, c, k) -> (o, c, k)>, affine_map<(n, o, t, c, k) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x65x16xf32>, tensor<4x65x1xf32>) outs(%z : tensor<1x4x16xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x16xf32>
  return %0 : tensor<1x4x16xf32>
}

// -----

// A stride moves more than a frame at a time: it is not a convolution along frames, and stays.
// CHECK-LABEL: func.func @strided
// CHECK-NOT:   kernel.region
func.func @strided(%x: tensor<1x4x31xf32>, %w: tensor<4x4x1xf32>) -> tensor<1x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c, k) -> (n, c, t * 2 + k)>, affine_map<(n, o, t, c, k) -> (o, c, k)>, affine_map<(n, o, t, c, k) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x4x31xf32>, tensor<4x4x1xf32>) outs(%z : tensor<1x4x16xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x16xf32>
  return %0 : tensor<1x4x16xf32>
}

// -----

// Every other row of an image is read, and there is one: the rows behind it belong to no channel.
// CHECK-LABEL: func.func @one_of_two_rows
// CHECK-NOT:   kernel.region
func.func @one_of_two_rows(%x: tensor<2x2x2x16xf32>, %w: tensor<4x2x1x1xf32>) -> tensor<2x4x1x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x1x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x1x16xf32>) -> tensor<2x4x1x16xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, o, h, t, c, r, k) -> (n, c, h * 2 + r, t + k)>, affine_map<(n, o, h, t, c, r, k) -> (o, c, r, k)>, affine_map<(n, o, h, t, c, r, k) -> (n, o, h, t)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<2x2x2x16xf32>, tensor<4x2x1x1xf32>) outs(%z : tensor<2x4x1x16xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<2x4x1x16xf32>
  return %0 : tensor<2x4x1x16xf32>
}

// -----

// Frames of more channels than a kernel of rows has: the samples stay in turns, each behind its im2col.
// REMARK: linalg.generic not rewritten: it has more than 64 channels
// REMARK: linalg.generic not rewritten: it has more than 64 channels
// CHECK-LABEL: func.func @in_turns
// CHECK:       %[[A:.*]] = tensor.collapse_shape
// CHECK:       linalg.generic {{.*}} ins(%{{.*}}, %[[A]] :
// CHECK:       %[[B:.*]] = tensor.collapse_shape
// CHECK:       linalg.generic {{.*}} ins(%{{.*}}, %[[B]] :
func.func @in_turns(%x: tensor<2x8x4x4xf32>, %w: tensor<4x72xf32>) -> tensor<2x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %r = tensor.empty() : tensor<2x4x16xf32>
  %t = tensor.empty() : tensor<1x8x3x3x4x4xf32>
  %e = tensor.empty() : tensor<1x4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0, 0] [1, 8, 4, 4] [1, 1, 1, 1] : tensor<2x8x4x4xf32> to tensor<1x8x4x4xf32>
  %p0 = tensor.pad %x0 low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%h: index, %i: index, %j: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x8x4x4xf32> to tensor<1x8x6x6xf32>
  %g0 = linalg.generic {indexing_maps = [affine_map<(n, c, r, s, p, q) -> (n, c, p + r, q + s)>, affine_map<(n, c, r, s, p, q) -> (n, c, r, s, p, q)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%p0 : tensor<1x8x6x6xf32>) outs(%t : tensor<1x8x3x3x4x4xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<1x8x3x3x4x4xf32>
  %c0 = tensor.collapse_shape %g0 [[0], [1, 2, 3], [4, 5]] : tensor<1x8x3x3x4x4xf32> into tensor<1x72x16xf32>
  %m0 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c) -> (o, c)>, affine_map<(n, o, t, c) -> (n, c, t)>, affine_map<(n, o, t, c) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %c0 : tensor<4x72xf32>, tensor<1x72x16xf32>) outs(%z : tensor<1x4x16xf32>) {
  ^bb0(%f: f32, %a: f32, %s: f32):
    %p = arith.mulf %f, %a : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x16xf32>
  %r0 = tensor.insert_slice %m0 into %r[0, 0, 0] [1, 4, 16] [1, 1, 1] : tensor<1x4x16xf32> into tensor<2x4x16xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0, 0] [1, 8, 4, 4] [1, 1, 1, 1] : tensor<2x8x4x4xf32> to tensor<1x8x4x4xf32>
  %p1 = tensor.pad %x1 low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%h: index, %i: index, %j: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x8x4x4xf32> to tensor<1x8x6x6xf32>
  %g1 = linalg.generic {indexing_maps = [affine_map<(n, c, r, s, p, q) -> (n, c, p + r, q + s)>, affine_map<(n, c, r, s, p, q) -> (n, c, r, s, p, q)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%p1 : tensor<1x8x6x6xf32>) outs(%t : tensor<1x8x3x3x4x4xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<1x8x3x3x4x4xf32>
  %c1 = tensor.collapse_shape %g1 [[0], [1, 2, 3], [4, 5]] : tensor<1x8x3x3x4x4xf32> into tensor<1x72x16xf32>
  %m1 = linalg.generic {indexing_maps = [affine_map<(n, o, t, c) -> (o, c)>, affine_map<(n, o, t, c) -> (n, c, t)>, affine_map<(n, o, t, c) -> (n, o, t)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %c1 : tensor<4x72xf32>, tensor<1x72x16xf32>) outs(%z : tensor<1x4x16xf32>) {
  ^bb0(%f: f32, %a: f32, %s: f32):
    %p = arith.mulf %f, %a : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x4x16xf32>
  %r1 = tensor.insert_slice %m1 into %r0[1, 0, 0] [1, 4, 16] [1, 1, 1] : tensor<1x4x16xf32> into tensor<2x4x16xf32>
  return %r1 : tensor<2x4x16xf32>
}
