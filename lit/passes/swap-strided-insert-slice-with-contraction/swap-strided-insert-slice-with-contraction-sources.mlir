// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction | filecheck %s
// Where zeros come from, and what may stand between the scatter and the contraction.

#nwc = affine_map<(n, w, k, c) -> (n, w, c)>
#ck = affine_map<(n, w, k, c) -> (c, k)>
#nwk = affine_map<(n, w, k, c) -> (n, w, k)>

// Zeros from linalg.fill.
// CHECK-LABEL: func.func @zeros_of_a_fill
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w : tensor<2x3x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0, 0] [2, 3, 5] [1, 2, 1] : tensor<2x3x5xf32> into tensor<2x6x5xf32>
func.func @zeros_of_a_fill(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
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

// Zeros from tensor.splat, here a negative zero.
// CHECK-LABEL: func.func @zeros_of_a_splat
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w : tensor<2x3x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0, 0] [2, 3, 5] [1, 2, 1] : tensor<2x3x5xf32> into tensor<2x6x5xf32>
func.func @zeros_of_a_splat(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zero = arith.constant -0.0 : f32
  %zeros = tensor.splat %zero : tensor<2x6x4xf32>
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

// The scatter is padded with zeros afterwards: offset 1, and a hole more at the end.
// CHECK-LABEL: func.func @zeros_of_a_pad
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w : tensor<2x3x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 1, 0] [2, 3, 5] [1, 2, 1] : tensor<2x3x5xf32> into tensor<2x8x5xf32>
func.func @zeros_of_a_pad(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x8x5xf32>
  %t = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %s = tensor.pad %t low[0, 1, 0] high[0, 1, 0] {
  ^bb0(%i: index, %j: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<2x6x4xf32> to tensor<2x8x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x8x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x8x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x8x5xf32>
  return %r : tensor<2x8x5xf32>
}

// Zero-stuffing without a strided slice: expand, pad a unit dimension, collapse.
// CHECK-LABEL: func.func @stuffed_by_a_pad
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w : tensor<2x3x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0, 0] [2, 3, 5] [1, 2, 1] : tensor<2x3x5xf32> into tensor<2x6x5xf32>
func.func @stuffed_by_a_pad(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %u = tensor.expand_shape %x [[0], [1, 2], [3]] output_shape [2, 3, 1, 4] : tensor<2x3x4xf32> into tensor<2x3x1x4xf32>
  %p = tensor.pad %u low[0, 0, 0, 0] high[0, 0, 1, 0] {
  ^bb0(%i: index, %j: index, %l: index, %m: index):
    tensor.yield %zero : f32
  } : tensor<2x3x1x4xf32> to tensor<2x3x2x4xf32>
  %s = tensor.collapse_shape %p [[0], [1, 2], [3]] : tensor<2x3x2x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// A pad alone, without a stride, is dropped where that at least halves the work.
// CHECK-LABEL: func.func @padded_to_twice_the_size
// CHECK-NOT:     tensor.pad
// CHECK:         linalg.generic {{.*}} ins(%x, %w
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, 1, 0] [2, 3, 5] [1, 1, 1]
func.func @padded_to_twice_the_size(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.pad %x low[0, 1, 0] high[0, 2, 0] {
  ^bb0(%i: index, %j: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<2x3x4xf32> to tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// p > d(K - 1): the scatter is cropped before it is read, and the source with it.
// CHECK-LABEL: func.func @cropped_by_a_slice
// CHECK:         [[X:%.+]] = tensor.extract_slice %x[0, 1, 0] [2, 2, 4] [1, 1, 1] : tensor<2x3x4xf32> to tensor<2x2x4xf32>
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins([[X]], %w : tensor<2x2x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 1, 0] [2, 2, 5] [1, 2, 1] : tensor<2x2x5xf32> into tensor<2x4x5xf32>
func.func @cropped_by_a_slice(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x4x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x4x5xf32>
  %t = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %s = tensor.extract_slice %t[0, 1, 0] [2, 4, 4] [1, 1, 1] : tensor<2x6x4xf32> to tensor<2x4x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x4x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x5xf32>
  return %r : tensor<2x4x5xf32>
}

// A collapsed scatter, as a 1x1 convolution becomes a matrix product: rows are scattered in two
// dimensions, so the small rows are expanded, scattered and collapsed.
// CHECK-LABEL: func.func @collapsed
// CHECK:         [[X:%.+]] = tensor.collapse_shape %x {{.*}} : tensor<2x3x3x4xf32> into tensor<18x4xf32>
// CHECK:         [[C:%.+]] = linalg.matmul ins([[X]], %w : tensor<18x4xf32>, tensor<4x5xf32>)
// CHECK:         [[E:%.+]] = tensor.expand_shape [[C]] {{.*}} output_shape [2, 3, 3, 5]
// CHECK:         [[S:%.+]] = tensor.insert_slice [[E]] into %{{.*}}[0, 1, 0, 0] [2, 3, 3, 5] [1, 2, 2, 1] : tensor<2x3x3x5xf32> into tensor<2x7x6x5xf32>
// CHECK:         tensor.collapse_shape [[S]] {{.*}} : tensor<2x7x6x5xf32> into tensor<84x5xf32>
func.func @collapsed(%x: tensor<2x3x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<84x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x7x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<84x5xf32>
  %t = tensor.insert_slice %x into %zeros[0, 1, 0, 0] [2, 3, 3, 4] [1, 2, 2, 1] : tensor<2x3x3x4xf32> into tensor<2x7x6x4xf32>
  %s = tensor.collapse_shape %t [[0, 1, 2], [3]] : tensor<2x7x6x4xf32> into tensor<84x4xf32>
  %r = linalg.matmul ins(%s, %w : tensor<84x4xf32>, tensor<4x5xf32>) outs(%init : tensor<84x5xf32>) -> tensor<84x5xf32>
  return %r : tensor<84x5xf32>
}

// Collapsed again, with an init that is not a fill, and high padding in the collapsed dimensions.
// CHECK-LABEL: func.func @collapsed_with_an_init
// CHECK:         [[I:%.+]] = tensor.expand_shape %init {{.*}} output_shape [4, 6, 5] : tensor<24x5xf32> into tensor<4x6x5xf32>
// CHECK:         tensor.extract_slice [[I]][0, 0, 0] [3, 3, 5] [1, 2, 1] : tensor<4x6x5xf32> to tensor<3x3x5xf32>
func.func @collapsed_with_an_init(%x: tensor<3x3x4xf32>, %w: tensor<4x5xf32>, %init: tensor<24x5xf32>) -> tensor<24x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6x4xf32>
  %t = tensor.insert_slice %x into %zeros[0, 0, 0] [3, 3, 4] [1, 2, 1] : tensor<3x3x4xf32> into tensor<4x6x4xf32>
  %s = tensor.collapse_shape %t [[0, 1], [2]] : tensor<4x6x4xf32> into tensor<24x4xf32>
  %r = linalg.matmul ins(%s, %w : tensor<24x4xf32>, tensor<4x5xf32>) outs(%init : tensor<24x5xf32>) -> tensor<24x5xf32>
  return %r : tensor<24x5xf32>
}

// An expanded scatter: the channels are split into groups, the scattered dimension stays whole.
// CHECK-LABEL: func.func @expanded
// CHECK:         [[X:%.+]] = tensor.expand_shape %x {{.*}} output_shape [2, 3, 2, 2] : tensor<2x3x4xf32> into tensor<2x3x2x2xf32>
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins([[X]], %w : tensor<2x3x2x2xf32>, tensor<2x2x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0, 0, 0] [2, 3, 2, 5] [1, 2, 1, 1]
func.func @expanded(%x: tensor<2x3x4xf32>, %w: tensor<2x2x5xf32>) -> tensor<2x6x2x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x2x5xf32>
  %t = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %s = tensor.expand_shape %t [[0], [1], [2, 3]] output_shape [2, 6, 2, 2] : tensor<2x6x4xf32> into tensor<2x6x2x2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, g, k, c) -> (n, w, g, c)>, affine_map<(n, w, g, k, c) -> (g, c, k)>, affine_map<(n, w, g, k, c) -> (n, w, g, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x2x2xf32>, tensor<2x2x5xf32>) outs(%init : tensor<2x6x2x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x2x5xf32>
  return %r : tensor<2x6x2x5xf32>
}

// A scatter expanded along its stride: all elements lie in one of the two columns.
// CHECK-LABEL: func.func @expanded_along_the_stride
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 1, 0] [2, 3, 1, 5] [1, 1, 1, 1] : tensor<2x3x1x5xf32> into tensor<2x3x2x5xf32>
func.func @expanded_along_the_stride(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x3x2x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x3x2x5xf32>
  %t = tensor.insert_slice %x into %zeros[0, 1, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %s = tensor.expand_shape %t [[0], [1, 2], [3]] output_shape [2, 3, 2, 4] : tensor<2x6x4xf32> into tensor<2x3x2x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, v, k, c) -> (n, w, v, c)>, affine_map<(n, w, v, k, c) -> (c, k)>, affine_map<(n, w, v, k, c) -> (n, w, v, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x3x2x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x3x2x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x3x2x5xf32>
  return %r : tensor<2x3x2x5xf32>
}

// A conversion and a transposition between: both run on the source.
// CHECK-LABEL: func.func @transposed_and_converted
// CHECK:         linalg.generic {{.*}} ins(%x : tensor<2x3x4xf16>) outs(%{{.*}} : tensor<2x4x3xf32>)
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %w : tensor<2x4x3xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0] [2, 3, 5] [1, 2, 1] : tensor<2x3x5xf32> into tensor<2x6x5xf32>
func.func @transposed_and_converted(%x: tensor<2x3x4xf16>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf16>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %e = tensor.empty() : tensor<2x4x6xf32>
  %t = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf16> into tensor<2x6x4xf16>
  %s = linalg.generic {indexing_maps = [affine_map<(n, w, c) -> (n, w, c)>, affine_map<(n, w, c) -> (n, c, w)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t : tensor<2x6x4xf16>) outs(%e : tensor<2x4x6xf32>) {
  ^bb0(%a: f16, %o: f32):
    %0 = arith.extf %a : f16 to f32
    linalg.yield %0 : f32
  } -> tensor<2x4x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, c) -> (n, c, w)>, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x4x6xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// A dynamic batch: the small tensors have its size, and so has the destination.
// CHECK-LABEL: func.func @dynamic_batch
// CHECK:         [[N:%.+]] = tensor.dim %x, %{{.*}} : tensor<?x3x4xf32>
// CHECK:         [[E:%.+]] = tensor.empty([[N]]) : tensor<?x3x5xf32>
// CHECK:         [[INIT:%.+]] = linalg.fill {{.*}} outs([[E]] : tensor<?x3x5xf32>)
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w : tensor<?x3x4xf32>, tensor<4x5xf32>) outs([[INIT]] : tensor<?x3x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0, 0] [%{{.*}}, 3, 5] [1, 2, 1] : tensor<?x3x5xf32> into tensor<?x6x5xf32>
func.func @dynamic_batch(%x: tensor<?x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<?x6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x3x4xf32>
  %zeros = tensor.splat %zero[%n] : tensor<?x6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [%n, 3, 4] [1, 2, 1] : tensor<?x3x4xf32> into tensor<?x6x4xf32>
  %e = tensor.empty(%n) : tensor<?x6x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x6x5xf32>) -> tensor<?x6x5xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<?x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<?x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x6x5xf32>
  return %r : tensor<?x6x5xf32>
}

// Nothing says that the destination's batch is the source's: the batch is scattered like the rest.
// CHECK-LABEL: func.func @unrelated_dynamic_sizes
// CHECK-SAME:    %n: index, %m: index
// CHECK:         tensor.empty(%n) : tensor<?x3x5xf32>
// CHECK:         tensor.empty(%m) : tensor<?x6x5xf32>
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0] [%n, 3, 5] [1, 2, 1] : tensor<?x3x5xf32> into tensor<?x6x5xf32>
func.func @unrelated_dynamic_sizes(%x: tensor<?x3x4xf32>, %w: tensor<4x5xf32>, %n: index, %m: index) -> tensor<?x6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = tensor.splat %zero[%m] : tensor<?x6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [%n, 3, 4] [1, 2, 1] : tensor<?x3x4xf32> into tensor<?x6x4xf32>
  %e = tensor.empty(%m) : tensor<?x6x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x6x5xf32>) -> tensor<?x6x5xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<?x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<?x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x6x5xf32>
  return %r : tensor<?x6x5xf32>
}

// A dynamic offset is passed on.
// CHECK-LABEL: func.func @dynamic_offset
// CHECK-SAME:    %o: index
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, %o, 0] [2, 3, 5] [1, 2, 1]
func.func @dynamic_offset(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %o: index) -> tensor<2x12x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x12x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x12x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, %o, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x12x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x12x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x12x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x12x5xf32>
  return %r : tensor<2x12x5xf32>
}

// The type of the init knows less than the other operands: the result has the type of the init.
// CHECK-LABEL: func.func @init_cast_to_open_columns
// CHECK:         [[E:%.+]] = tensor.extract_slice %w[3, 0] [3, 5] [1, 1] : tensor<6x5xf32> to tensor<3x5xf32>
// CHECK:         linalg.generic {{.*}} ins(%x, [[E]] : tensor<3x4xf32>, tensor<3x5xf32>) outs(%{{.*}} : tensor<4x?xf32>)
// CHECK:         } -> tensor<4x?xf32>
func.func @init_cast_to_open_columns(%x: tensor<3x4xf32>, %w: tensor<6x5xf32>, %i: tensor<4x5xf32>) -> tensor<4x?xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[3, 0] high[0, 0] {
  ^bb0(%a: index, %b: index):
    tensor.yield %zero : f32
  } : tensor<3x4xf32> to tensor<6x4xf32>
  %init = tensor.cast %i : tensor<4x5xf32> to tensor<4x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %w : tensor<6x4xf32>, tensor<6x5xf32>) outs(%init : tensor<4x?xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<4x?xf32>
  return %r : tensor<4x?xf32>
}

// The insertion knows the sizes of its source, whose type leaves them open.
// CHECK-LABEL: func.func @source_of_open_type
// CHECK:         [[X:%.+]] = tensor.cast %x : tensor<1x?xf32> to tensor<1x6xf32>
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %w : tensor<1x6x1xf32>, tensor<1x5xf32>)
func.func @source_of_open_type(%x: tensor<1x?xf32>, %w: tensor<1x5xf32>) -> tensor<1x18x5xf32> {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6 : index
  %zeros = tensor.splat %zero : tensor<1x18xf32>
  %init = arith.constant dense<0.0> : tensor<1x18x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0] [1, %six] [1, 3] : tensor<1x?xf32> into tensor<1x18xf32>
  %t = tensor.expand_shape %s [[0], [1, 2]] output_shape [1, 18, 1] : tensor<1x18xf32> into tensor<1x18x1xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%t, %w : tensor<1x18x1xf32>, tensor<1x5xf32>) outs(%init : tensor<1x18x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<1x18x5xf32>
  return %r : tensor<1x18x5xf32>
}
