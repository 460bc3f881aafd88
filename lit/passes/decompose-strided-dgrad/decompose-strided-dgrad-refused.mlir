// RUN: convir-opt %s -p decompose-strided-dgrad | filecheck %s
// RUN: convir-opt %s -p decompose-strided-dgrad --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// What stays as it is, and why. No function here changes: tests/passes compares them as text.

#image = affine_map<(n, w, f, r, c) -> (n, w + r, c)>
#weights = affine_map<(n, w, f, r, c) -> (f, r, c)>
#result = affine_map<(n, w, f, r, c) -> (n, w, f)>

// The holes of a one-tap window are swap-strided-insert-slice-with-contraction's.
// REMARK:      tensor.insert_slice not rewritten: in linalg.generic, which reads it, dimension 1 is read through one tap
// CHECK-LABEL: func.func @one_tap
func.func @one_tap(%x: tensor<2x3x4xf32>, %w: tensor<6x1x4xf32>) -> tensor<2x6x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x6xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<6x1x4xf32>) outs(%init : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x6xf32>
  return %r : tensor<2x6x6xf32>
}

// Phases of a few products each are not worth their number: 40 of them, two taps each.
// REMARK:      tensor.insert_slice not rewritten: its 40 phases take 10.3 us, the scatter and its holes 5.0 us
// CHECK-LABEL: func.func @many_small_phases
func.func @many_small_phases(%x: tensor<1x2x1xf32>, %w: tensor<1x41x1xf32>) -> tensor<1x40x1xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x80x1xf32>
  %init = arith.constant dense<0.0> : tensor<1x40x1xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [1, 2, 1] [1, 40, 1] : tensor<1x2x1xf32> into tensor<1x80x1xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<1x80x1xf32>, tensor<1x41x1xf32>) outs(%init : tensor<1x40x1xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<1x40x1xf32>
  return %r : tensor<1x40x1xf32>
}

// 14 x 14 phases: too many, and 15 taps are not whole strides.
// REMARK:      tensor.insert_slice not rewritten: it has 196 phases, more than 64, and its taps are not whole strides along dimension 1
// CHECK-LABEL: func.func @too_many_phases
func.func @too_many_phases(%x: tensor<2x4x4x8xf32>, %w: tensor<3x15x15x8xf32>) -> tensor<2x54x54x3xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x68x68x8xf32>
  %init = arith.constant dense<0.0> : tensor<2x54x54x3xf32>
  %s = tensor.insert_slice %x into %zeros[0, 12, 12, 0] [2, 4, 4, 8] [1, 14, 14, 1] : tensor<2x4x4x8xf32> into tensor<2x68x68x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, f, r, s, c) -> (n, h + r, w + s, c)>, affine_map<(n, h, w, f, r, s, c) -> (f, r, s, c)>, affine_map<(n, h, w, f, r, s, c) -> (n, h, w, f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%s, %w : tensor<2x68x68x8xf32>, tensor<3x15x15x8xf32>) outs(%init : tensor<2x54x54x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x54x54x3xf32>
  return %r : tensor<2x54x54x3xf32>
}

// So many phases, nearly all of which no tap meets, are not even listed.
// REMARK:      tensor.insert_slice not rewritten: in linalg.generic, which reads it, it has 1000000000 phases, more than 16384
// CHECK-LABEL: func.func @huge_stride
func.func @huge_stride(%x: tensor<2x2x4xf32>, %w: tensor<6x3x4xf32>) -> tensor<2x2000000000x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x2000000002x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x2000000000x6xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 0] [2, 2, 4] [1, 1000000000, 1] : tensor<2x2x4xf32> into tensor<2x2000000002x4xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x2000000002x4xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x2000000000x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x2000000000x6xf32>
  return %r : tensor<2x2000000000x6xf32>
}

// Nobody can say which taps meet elements at an offset that is not known.
// REMARK:      tensor.insert_slice not rewritten: in linalg.generic, which reads it, dimension 1 is read or scattered with dynamic sizes, offsets or strides
// CHECK-LABEL: func.func @dynamic_offset
func.func @dynamic_offset(%x: tensor<2x3x4xf32>, %w: tensor<6x3x4xf32>, %o: index) -> tensor<2x6x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x8x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x6xf32>
  %s = tensor.insert_slice %x into %zeros[0, %o, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x8x4xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x8x4xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x6xf32>
  return %r : tensor<2x6x6xf32>
}

// A maximum of products is not a sum: a hole's 0 may be the maximum.
// REMARK:      tensor.insert_slice not rewritten: linalg.generic, which reads it, is not a contraction: the body yields arith.maximumf, not a sum
// CHECK-LABEL: func.func @body_with_a_maximum
func.func @body_with_a_maximum(%x: tensor<2x3x4xf32>, %w: tensor<6x3x4xf32>) -> tensor<2x6x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x8x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x6xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x8x4xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x8x4xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.maximumf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x6xf32>
  return %r : tensor<2x6x6xf32>
}

// Every output position has a filter of its own.
// REMARK:      tensor.insert_slice not rewritten: in linalg.generic, which reads it, loop d1 indexes dimension 1 and the other input
// CHECK-LABEL: func.func @locally_connected
func.func @locally_connected(%x: tensor<2x3x4xf32>, %w: tensor<6x3x4x6xf32>) -> tensor<2x6x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x8x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x6xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x8x4xf32>
  %r = linalg.generic {indexing_maps = [#image, affine_map<(n, w, f, r, c) -> (f, r, c, w)>, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x8x4xf32>, tensor<6x3x4x6xf32>) outs(%init : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x6xf32>
  return %r : tensor<2x6x6xf32>
}

// The gradient of a filter reduces over the scattered dimension: no output is without a hole.
// REMARK:      tensor.insert_slice not rewritten: in linalg.generic, which reads it, dimension 1 is not indexed by a loop of the result
// CHECK-LABEL: func.func @reduced
func.func @reduced(%x: tensor<2x6x4xf32>, %dy: tensor<2x2x6xf32>) -> tensor<6x4x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x3x6xf32>
  %init = arith.constant dense<0.0> : tensor<6x4x4xf32>
  %s = tensor.insert_slice %dy into %zeros[0, 0, 0] [2, 2, 6] [1, 2, 1] : tensor<2x2x6xf32> into tensor<2x3x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(f, r, c, n, p) -> (n, p + r, c)>, affine_map<(f, r, c, n, p) -> (n, p, f)>, affine_map<(f, r, c, n, p) -> (f, r, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %s : tensor<2x6x4xf32>, tensor<2x3x6xf32>) outs(%init : tensor<6x4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<6x4x4xf32>
  return %r : tensor<6x4x4xf32>
}

// The holes are ones.
// REMARK:      tensor.insert_slice not rewritten: it is not inserted into zeros
// CHECK-LABEL: func.func @into_ones
func.func @into_ones(%x: tensor<2x3x4xf32>, %w: tensor<6x3x4xf32>) -> tensor<2x6x6xf32> {
  %ones = arith.constant dense<1.0> : tensor<2x8x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x6xf32>
  %s = tensor.insert_slice %x into %ones[0, 1, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x8x4xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x8x4xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x6xf32>
  return %r : tensor<2x6x6xf32>
}

// REMARK:      tensor.insert_slice not rewritten: no contraction reads it
// CHECK-LABEL: func.func @unread
func.func @unread(%x: tensor<2x3x4xf32>) -> tensor<2x8x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x8x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x8x4xf32>
  return %s : tensor<2x8x4xf32>
}
