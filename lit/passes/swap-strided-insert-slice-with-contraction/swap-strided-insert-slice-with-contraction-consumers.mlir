// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction | filecheck %s
// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// Who reads the scatter: named ops, several ops, and contractions whose reduction is scattered.

#nwc = affine_map<(n, w, k, c) -> (n, w, c)>
#ck = affine_map<(n, w, k, c) -> (c, k)>
#nwk = affine_map<(n, w, k, c) -> (n, w, k)>

// A named matrix product stays one.
// CHECK-LABEL: func.func @matmul
// CHECK:         [[C:%.+]] = linalg.matmul ins(%x, %w : tensor<3x4xf32>, tensor<4x5xf32>) outs(%{{.*}} : tensor<3x5xf32>) -> tensor<3x5xf32>
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[1, 0] [3, 5] [2, 1]
func.func @matmul(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) -> tensor<6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<6x4xf32>
  %init = arith.constant dense<0.0> : tensor<6x5xf32>
  %s = tensor.insert_slice %x into %zeros[1, 0] [3, 4] [2, 1] : tensor<3x4xf32> into tensor<6x4xf32>
  %r = linalg.matmul ins(%s, %w : tensor<6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<6x5xf32>) -> tensor<6x5xf32>
  return %r : tensor<6x5xf32>
}

// A named 1x1 convolution stays one, with its attributes.
// CHECK-LABEL: func.func @named_convolution
// CHECK:         [[C:%.+]] = linalg.conv_2d_nhwc_hwcf {{.*}} ins(%x, %w : tensor<2x3x3x4xf32>, tensor<1x1x4x5xf32>) outs(%{{.*}} : tensor<2x3x3x5xf32>) -> tensor<2x3x3x5xf32>
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0, 1, 0] [2, 3, 3, 5] [1, 2, 2, 1]
func.func @named_convolution(%x: tensor<2x3x3x4xf32>, %w: tensor<1x1x4x5xf32>) -> tensor<2x6x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 1, 0] [2, 3, 3, 4] [1, 2, 2, 1] : tensor<2x3x3x4xf32> into tensor<2x6x6x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%s, %w : tensor<2x6x6x4xf32>, tensor<1x1x4x5xf32>) outs(%init : tensor<2x6x6x5xf32>) -> tensor<2x6x6x5xf32>
  return %r : tensor<2x6x6x5xf32>
}

// A named convolution with strides reads every second element: its maps change, so it becomes generic.
// CHECK-LABEL: func.func @named_strided_convolution
// CHECK-NOT:     linalg.conv
// CHECK:         linalg.generic {{.*}} ins(%x, %w : tensor<2x3x3x4xf32>, tensor<1x1x4x5xf32>)
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0, 0] [2, 3, 3, 5] [1, 2, 2, 1] : tensor<2x3x3x5xf32> into tensor<2x6x6x5xf32>
func.func @named_strided_convolution(%x: tensor<2x3x3x4xf32>, %w: tensor<1x1x4x5xf32>) -> tensor<2x6x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x12x12x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0, 0] [2, 3, 3, 4] [1, 4, 4, 1] : tensor<2x3x3x4xf32> into tensor<2x12x12x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%s, %w : tensor<2x12x12x4xf32>, tensor<1x1x4x5xf32>) outs(%init : tensor<2x6x6x5xf32>) -> tensor<2x6x6x5xf32>
  return %r : tensor<2x6x6x5xf32>
}

// The scatter has other uses: it stays for them, each contraction is rewritten on its own.
// CHECK-LABEL: func.func @several_uses
// CHECK:         [[S:%.+]] = tensor.insert_slice %x into
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w :
// CHECK:         tensor.insert_slice [[C]] into
// CHECK:         [[D:%.+]] = linalg.generic {{.*}} ins(%x, %v :
// CHECK:         tensor.insert_slice [[D]] into
// CHECK:         func.return [[S]],
func.func @several_uses(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %v: tensor<4x5xf32>) -> (tensor<2x6x4xf32>, tensor<2x6x5xf32>, tensor<2x6x5xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  %q = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %v : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %s, %r, %q : tensor<2x6x4xf32>, tensor<2x6x5xf32>, tensor<2x6x5xf32>
}

// The scattered dimension is reduced: the other operand is sliced, and nothing is scattered.
// CHECK-LABEL: func.func @strided_reduction
// CHECK-SAME:    %init: tensor<2x5xf32>
// CHECK:         [[W:%.+]] = tensor.extract_slice %w[1, 0] [3, 5] [2, 1] : tensor<7x5xf32> to tensor<3x5xf32>
// CHECK:         [[R:%.+]] = linalg.matmul ins(%x, [[W]] : tensor<2x3xf32>, tensor<3x5xf32>) outs(%init : tensor<2x5xf32>)
// CHECK-NEXT:    func.return [[R]]
// REMARK:        140 -> 60 FLOPs (2.333x fewer); only the reduction shrinks, so that nothing is scattered afterwards
func.func @strided_reduction(%x: tensor<2x3xf32>, %w: tensor<7x5xf32>, %init: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x7xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1] [2, 3] [1, 2] : tensor<2x3xf32> into tensor<2x7xf32>
  %r = linalg.matmul ins(%s, %w : tensor<2x7xf32>, tensor<7x5xf32>) outs(%init : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %r : tensor<2x5xf32>
}

// A filter with zeros between its taps is a dilated filter: the window takes larger steps.
// CHECK-LABEL: func.func @stuffed_filter
// CHECK:         [[X:%.+]] = tensor.extract_slice %x[0, 1, 0] [2, 10, 4] [1, 1, 1] : tensor<2x11x4xf32> to tensor<2x10x4xf32>
// CHECK:         linalg.generic
// CHECK-SAME:      affine_map<(d0, d1, d2, d3, d4) -> (d0, (d1 + (d3 * 3)), d4)>
// CHECK-SAME:      ins([[X]], %w : tensor<2x10x4xf32>, tensor<2x4x5xf32>)
// CHECK-NOT:     tensor.insert_slice
func.func @stuffed_filter(%x: tensor<2x11x4xf32>, %w: tensor<2x4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<6x4x5xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %w into %zeros[1, 0, 0] [2, 4, 5] [3, 1, 1] : tensor<2x4x5xf32> into tensor<6x4x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, r, c) -> (n, w + r, c)>, affine_map<(n, w, k, r, c) -> (r, c, k)>, affine_map<(n, w, k, r, c) -> (n, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %s : tensor<2x11x4xf32>, tensor<6x4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// A backward weight convolution of stride 2: the gradient is scattered in a reduced dimension, and
// the image's window takes steps of two.
// CHECK-LABEL: func.func @backward_weight
// CHECK:         linalg.generic
// CHECK-SAME:      affine_map<(d0, d1, d2, d3, d4) -> (d3, (d0 + (d4 * 2)), d1)>
// CHECK-SAME:      ins(%x, %dy : tensor<2x9x4xf32>, tensor<2x4x5xf32>)
// CHECK-NOT:     tensor.insert_slice
func.func @backward_weight(%x: tensor<2x9x4xf32>, %dy: tensor<2x4x5xf32>) -> tensor<3x4x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x7x5xf32>
  %init = arith.constant dense<0.0> : tensor<3x4x5xf32>
  %s = tensor.insert_slice %dy into %zeros[0, 0, 0] [2, 4, 5] [1, 2, 1] : tensor<2x4x5xf32> into tensor<2x7x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(r, c, k, n, p) -> (n, p + r, c)>, affine_map<(r, c, k, n, p) -> (n, p, k)>, affine_map<(r, c, k, n, p) -> (r, c, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %s : tensor<2x9x4xf32>, tensor<2x7x5xf32>) outs(%init : tensor<3x4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<3x4x5xf32>
  return %r : tensor<3x4x5xf32>
}

// Two contractions in a row: the scatter passes both.
// CHECK-LABEL: func.func @two_in_a_row
// CHECK:         [[A:%.+]] = linalg.generic {{.*}} ins(%x, %w : tensor<2x3x4xf32>, tensor<4x5xf32>)
// CHECK-NOT:     tensor.insert_slice
// CHECK:         [[B:%.+]] = linalg.generic {{.*}} ins([[A]], %v : tensor<2x3x5xf32>, tensor<5x3xf32>)
// CHECK:         [[S:%.+]] = tensor.insert_slice [[B]] into %{{.*}}[0, 0, 0] [2, 3, 3] [1, 2, 1] : tensor<2x3x3xf32> into tensor<2x6x3xf32>
// CHECK-NEXT:    func.return [[S]]
func.func @two_in_a_row(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %v: tensor<5x3xf32>) -> tensor<2x6x3xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %init2 = arith.constant dense<1.0> : tensor<2x6x3xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  %q = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%r, %v : tensor<2x6x5xf32>, tensor<5x3xf32>) outs(%init2 : tensor<2x6x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x3xf32>
  return %q : tensor<2x6x3xf32>
}

// Both operands are scattered, in the rows and in the columns.
// CHECK-LABEL: func.func @both_operands
// CHECK:         linalg.matmul ins(%x, %w : tensor<3x4xf32>, tensor<4x5xf32>)
// CHECK-NOT:     linalg.matmul
func.func @both_operands(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) -> tensor<6x10xf32> {
  %zeros = arith.constant dense<0.0> : tensor<6x4xf32>
  %zeros_w = arith.constant dense<0.0> : tensor<4x10xf32>
  %init = arith.constant dense<2.0> : tensor<6x10xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0] [3, 4] [2, 1] : tensor<3x4xf32> into tensor<6x4xf32>
  %t = tensor.insert_slice %w into %zeros_w[0, 1] [4, 5] [1, 2] : tensor<4x5xf32> into tensor<4x10xf32>
  %r = linalg.matmul ins(%s, %t : tensor<6x4xf32>, tensor<4x10xf32>) outs(%init : tensor<6x10xf32>) -> tensor<6x10xf32>
  return %r : tensor<6x10xf32>
}

// The filter is defined between the scatter and the contraction, the fill after it: new ops stand
// where the ops they replace stood, below all that they use.
// CHECK-LABEL: func.func @insertion_point
// CHECK:         [[V:%.+]] = linalg.generic {{.*}} ins(%w : tensor<4x5xf32>)
// CHECK:         linalg.generic {{.*}} ins(%x, [[V]] : tensor<2x3x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice
func.func @insertion_point(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %ew = tensor.empty() : tensor<4x5xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(c, k) -> (c, k)>, affine_map<(c, k) -> (c, k)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<4x5xf32>) outs(%ew : tensor<4x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<4x5xf32>
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %init = linalg.fill ins(%one : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %v : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}
