// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction | filecheck %s
// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// What stays as it is, and why. No function here changes: tests/passes compares them as text.

#nwc = affine_map<(n, w, k, c) -> (n, w, c)>
#ck = affine_map<(n, w, k, c) -> (c, k)>
#nwk = affine_map<(n, w, k, c) -> (n, w, k)>

// A window of three taps reads every hole together with elements.
// REMARK:      tensor.insert_slice not rewritten: in linalg.generic, which reads it, dimension 1 is read through a window of 3 taps (loops d1, d3)
// CHECK-LABEL: func.func @window
func.func @window(%x: tensor<2x3x4xf32>, %w: tensor<3x4x5xf32>) -> tensor<2x4x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x4x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, r, c) -> (n, w + r, c)>, affine_map<(n, w, k, r, c) -> (r, c, k)>, affine_map<(n, w, k, r, c) -> (n, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<3x4x5xf32>) outs(%init : tensor<2x4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x5xf32>
  return %r : tensor<2x4x5xf32>
}

// cos(0) is 1: the holes take part.
// REMARK:      tensor.insert_slice not rewritten: linalg.generic, which reads it, is not a contraction: the body multiplies the result of math.cos, not an input
// CHECK-LABEL: func.func @body_with_a_cosine
func.func @body_with_a_cosine(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = math.cos %a : f32
    %1 = arith.mulf %0, %b : f32
    %2 = arith.addf %acc, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// A maximum of products is not a sum: a hole's 0 may be the maximum.
// REMARK:      tensor.insert_slice not rewritten: linalg.generic, which reads it, is not a contraction: the body yields arith.maximumf, not a sum
// CHECK-LABEL: func.func @body_with_a_maximum
func.func @body_with_a_maximum(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.maximumf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// A sum of sums: a hole adds the other operand.
// REMARK:      tensor.insert_slice not rewritten: linalg.generic, which reads it, is not a contraction: the body adds arith.addf, not a product
// CHECK-LABEL: func.func @body_without_a_product
func.func @body_without_a_product(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.addf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// An exponential between makes ones of the zeros.
// REMARK:      tensor.insert_slice not rewritten: linalg.generic turns its zeros into 1.0
// CHECK-LABEL: func.func @exponential_between
func.func @exponential_between(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %e = tensor.empty() : tensor<2x6x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(n, w, c) -> (n, w, c)>, affine_map<(n, w, c) -> (n, w, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x4xf32>) outs(%e : tensor<2x6x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%t, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// A slice that starts at a dynamic offset may begin at a hole or at an element.
// REMARK:      tensor.insert_slice not rewritten: what its extract_slice reads of dimension 1 is nothing, or not known
// CHECK-LABEL: func.func @dynamic_slice_between
func.func @dynamic_slice_between(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %o: index) -> tensor<2x4x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x4x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %t = tensor.extract_slice %s[0, %o, 0] [2, 4, 4] [1, 1, 1] : tensor<2x6x4xf32> to tensor<2x4x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%t, %w : tensor<2x4x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x5xf32>
  return %r : tensor<2x4x5xf32>
}

// Expanded 6 = 3 x 2 with elements at 0, 3: neither of the two dimensions has them all in step.
// REMARK:      tensor.insert_slice not rewritten: its expand_shape divides a dimension between scattered elements
// CHECK-LABEL: func.func @expanded_out_of_step
func.func @expanded_out_of_step(%x: tensor<2x2x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x3x2x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x3x2x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 2, 4] [1, 3, 1] : tensor<2x2x4xf32> into tensor<2x6x4xf32>
  %t = tensor.expand_shape %s [[0 : i64], [1 : i64, 2 : i64], [3 : i64]] output_shape [2, 3, 2, 4] : tensor<2x6x4xf32> into tensor<2x3x2x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, v, k, c) -> (n, w, v, c)>, affine_map<(n, w, v, k, c) -> (c, k)>, affine_map<(n, w, v, k, c) -> (n, w, v, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%t, %w : tensor<2x3x2x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x3x2x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x3x2x5xf32>
  return %r : tensor<2x3x2x5xf32>
}

// The loop indexes the scattered operand twice, on its diagonal.
// REMARK:      tensor.insert_slice not rewritten: in linalg.generic, which reads it, loop d0 indexes dimension 0 and another one
// CHECK-LABEL: func.func @diagonal
func.func @diagonal(%x: tensor<3x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<6x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [3, 3, 4] [2, 2, 1] : tensor<3x3x4xf32> into tensor<6x6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(w, k, c) -> (w, w, c)>, affine_map<(w, k, c) -> (c, k)>, affine_map<(w, k, c) -> (w, k)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %w : tensor<6x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<6x5xf32>
  return %r : tensor<6x5xf32>
}

// The stride leaves no gap: one element, and one place for it.
// REMARK:      tensor.insert_slice not rewritten: in linalg.generic, which reads it, no loop reads a gap
// CHECK-LABEL: func.func @no_gap
func.func @no_gap(%x: tensor<2x1x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x1x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x1x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x1x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 1, 4] [1, 2, 1] : tensor<2x1x4xf32> into tensor<2x1x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x1x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x1x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x1x5xf32>
  return %r : tensor<2x1x5xf32>
}

// Channels padded from 3 to 4, as one does for alignment: the padding is a quarter of the work.
// REMARK:      tensor.pad not rewritten: it only pads, and without the padding linalg.generic has 1.333x fewer FLOPs, not 2x
// CHECK-LABEL: func.func @padded_for_alignment
func.func @padded_for_alignment(%x: tensor<2x6x3xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.pad %x low[0, 0, 0] high[0, 0, 1] {
  ^bb0(%i: index, %j: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<2x6x3xf32> to tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// The padding of an ordinary convolution: no remark.
// CHECK-LABEL: func.func @ordinary_padding
func.func @ordinary_padding(%x: tensor<2x6x4xf32>, %w: tensor<3x4x5xf32>) -> tensor<2x6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.pad %x low[0, 1, 0] high[0, 1, 0] {
  ^bb0(%i: index, %j: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<2x6x4xf32> to tensor<2x8x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, r, c) -> (n, w + r, c)>, affine_map<(n, w, k, r, c) -> (r, c, k)>, affine_map<(n, w, k, r, c) -> (n, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x8x4xf32>, tensor<3x4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// The filter is stuffed with zeros in a way that no window can step over: the step would be dynamic.
// REMARK:      tensor.insert_slice not rewritten: in linalg.generic, which reads it, the window over dimension 1 of the other input cannot take larger steps
// CHECK-LABEL: func.func @dynamic_window_start
func.func @dynamic_window_start(%x: tensor<2x11x4xf32>, %w: tensor<2x4x5xf32>, %o: index) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<6x4x5xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %w into %zeros[%o, 0, 0] [2, 4, 5] [3, 1, 1] : tensor<2x4x5xf32> into tensor<6x4x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, r, c) -> (n, w + r, c)>, affine_map<(n, w, k, r, c) -> (r, c, k)>, affine_map<(n, w, k, r, c) -> (n, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %s : tensor<2x11x4xf32>, tensor<6x4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// An encoding speaks of one shape.
// REMARK:      tensor.insert_slice not rewritten: a tensor has an encoding, which may not fit another shape
// CHECK-LABEL: func.func @encoded
func.func @encoded(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %init: tensor<6x5xf32, "tiled">) -> tensor<6x5xf32, "tiled"> {
  %zeros = arith.constant dense<0.0> : tensor<6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0] [3, 4] [2, 1] : tensor<3x4xf32> into tensor<6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(w, k, c) -> (w, c)>, affine_map<(w, k, c) -> (c, k)>, affine_map<(w, k, c) -> (w, k)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %w : tensor<6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<6x5xf32, "tiled">) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<6x5xf32, "tiled">
  return %r : tensor<6x5xf32, "tiled">
}

// The destination holds ones.
// REMARK:      tensor.insert_slice not rewritten: it is not inserted into zeros
// CHECK-LABEL: func.func @into_ones
func.func @into_ones(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<1.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// The destination is an argument.
// REMARK:      tensor.insert_slice not rewritten: it is not inserted into zeros
// CHECK-LABEL: func.func @into_an_argument
func.func @into_an_argument(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %zeros: tensor<2x6x4xf32>) -> tensor<2x6x5xf32> {
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// Two scatters share a destination: the outer one is not into zeros.
// REMARK:      tensor.insert_slice not rewritten: no contraction reads it
// REMARK-NEXT: {{.*}}: it is not inserted into zeros
// CHECK-LABEL: func.func @two_into_one
func.func @two_into_one(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %y: tensor<2x3x4xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %t = tensor.insert_slice %y into %zeros[0, 1, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %s = tensor.insert_slice %x into %t[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// Nobody contracts it.
// REMARK:      tensor.insert_slice not rewritten: no contraction reads it
// CHECK-LABEL: func.func @unread
func.func @unread(%x: tensor<2x3x4xf32>) -> tensor<2x6x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  return %s : tensor<2x6x4xf32>
}
