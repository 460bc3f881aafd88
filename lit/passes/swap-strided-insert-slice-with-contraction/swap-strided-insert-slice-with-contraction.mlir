// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction | filecheck %s
// RUN: xdsl-opt %s -p swap-strided-insert-slice-with-contraction | filecheck %s
// A scatter spelled out by index arithmetic is a scatter.
// RUN: convir-opt %s -p 'convert-strided-insert-slice-to-generic{force=true},swap-strided-insert-slice-with-contraction' | filecheck %s
// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// Layouts: where the strided dimensions stand in the source, the filter and the result.

#src = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d5, d2 + d6, d4)>
#filter = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>
#res = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
#id = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>

// The 1x1 backward data convolution in f16: the filter's loops run once, and the truncation of the
// result runs on the small result too. Op kind, maps and body stay.
// REMARK:        :{{[0-9]+}}:8: remark: [swap-strided-insert-slice-with-contraction] tensor.insert_slice rewritten: 3456 -> 864 FLOPs (4x fewer); the result is scattered after 1 elementwise op
// CHECK-LABEL: func.func @backward_data_1x1
// CHECK-SAME:    (%x: tensor<2x3x3x6xf16>, %w: tensor<6x1x1x4xf16>)
// CHECK-NOT:     tensor.insert_slice %x
// CHECK:         [[ZERO:%.+]] = arith.constant 0.000000e+00 : f32
// CHECK:         [[E:%.+]] = tensor.empty() : tensor<2x3x3x4xf32>
// CHECK:         [[INIT:%.+]] = linalg.fill ins([[ZERO]] : f32) outs([[E]] : tensor<2x3x3x4xf32>)
// CHECK:         [[C:%.+]] = linalg.generic
// CHECK-SAME:      (d0, (d1 + d5), (d2 + d6), d4)
// CHECK-SAME:      ins(%x, %w : tensor<2x3x3x6xf16>, tensor<6x1x1x4xf16>) outs([[INIT]] : tensor<2x3x3x4xf32>)
// CHECK:           arith.extf
// CHECK:         [[E16:%.+]] = tensor.empty() : tensor<2x3x3x4xf16>
// CHECK:         [[R:%.+]] = linalg.generic {{.*}} ins([[C]] : tensor<2x3x3x4xf32>) outs([[E16]] : tensor<2x3x3x4xf16>)
// CHECK:           arith.truncf
// CHECK:         [[ZEROS:%.+]] = arith.constant dense<0.000000e+00> : tensor<2x6x6x4xf16>
// CHECK:         [[S:%.+]] = tensor.insert_slice [[R]] into [[ZEROS]][0, 0, 0, 0] [2, 3, 3, 4] [1, 2, 2, 1]
// CHECK-NEXT:    func.return [[S]] : tensor<2x6x6x4xf16>
func.func @backward_data_1x1(%x: tensor<2x3x3x6xf16>, %w: tensor<6x1x1x4xf16>) -> tensor<2x6x6x4xf16> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x6x6x6xf16>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0, 0] [2, 3, 3, 6] [1, 2, 2, 1] : tensor<2x3x3x6xf16> into tensor<2x6x6x6xf16>
  %e = tensor.empty() : tensor<2x6x6x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x6x4xf32>) -> tensor<2x6x6x4xf32>
  %c = linalg.generic {indexing_maps = [#src, #filter, #res], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%s, %w : tensor<2x6x6x6xf16>, tensor<6x1x1x4xf16>) outs(%init : tensor<2x6x6x4xf32>) {
  ^bb0(%a: f16, %b: f16, %acc: f32):
    %0 = arith.extf %a : f16 to f32
    %1 = arith.extf %b : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %acc, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<2x6x6x4xf32>
  %e16 = tensor.empty() : tensor<2x6x6x4xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<2x6x6x4xf32>) outs(%e16 : tensor<2x6x6x4xf16>) {
  ^bb0(%a: f32, %o: f16):
    %0 = arith.truncf %a : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<2x6x6x4xf16>
  return %r : tensor<2x6x6x4xf16>
}

// NHWC in, NCHW out: offsets and strides go through the result's map.
// CHECK-LABEL: func.func @result_permuted
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 1, 0] [2, 5, 3, 3] [1, 1, 2, 3] : tensor<2x5x3x3xf32> into tensor<2x5x6x7xf32>
func.func @result_permuted(%x: tensor<2x3x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x5x6x7xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x7x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x5x6x7xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 0, 0] [2, 3, 3, 4] [1, 2, 3, 1] : tensor<2x3x3x4xf32> into tensor<2x6x7x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k, c) -> (n, h, w, c)>, affine_map<(n, h, w, k, c) -> (c, k)>, affine_map<(n, h, w, k, c) -> (n, k, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x7x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x5x6x7xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x5x6x7xf32>
  return %r : tensor<2x5x6x7xf32>
}

// Strides 1 and 3. H has no stride, but rows of zeros above and below: those are skipped too.
// CHECK-LABEL: func.func @mixed_strides_and_padding
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w : tensor<2x4x3x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 1, 2, 0] [2, 4, 3, 5] [1, 1, 3, 1] : tensor<2x4x3x5xf32> into tensor<2x7x9x5xf32>
func.func @mixed_strides_and_padding(%x: tensor<2x4x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x7x9x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x7x9x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x7x9x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 2, 0] [2, 4, 3, 4] [1, 1, 3, 1] : tensor<2x4x3x4xf32> into tensor<2x7x9x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k, c) -> (n, h, w, c)>, affine_map<(n, h, w, k, c) -> (c, k)>, affine_map<(n, h, w, k, c) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x7x9x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x7x9x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x7x9x5xf32>
  return %r : tensor<2x7x9x5xf32>
}

// Only high padding in H (stride 1, offset 0, 4 of 5 rows): without a stride of its own it is skipped
// as well.
// CHECK-LABEL: func.func @high_padding
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w : tensor<4x3x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0, 0] [4, 3, 5] [1, 2, 1] : tensor<4x3x5xf32> into tensor<5x6x5xf32>
func.func @high_padding(%x: tensor<4x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<5x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<5x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<5x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [4, 3, 4] [1, 2, 1] : tensor<4x3x4xf32> into tensor<5x6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(h, w, k, c) -> (h, w, c)>, affine_map<(h, w, k, c) -> (c, k)>, affine_map<(h, w, k, c) -> (h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<5x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<5x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<5x6x5xf32>
  return %r : tensor<5x6x5xf32>
}

// A 3x1 filter: W is swapped; H is read through a window of 3 rows, so its padding stays in front.
// CHECK-LABEL: func.func @window_stays_padded
// CHECK:         [[ZEROS:%.+]] = arith.constant dense<0.000000e+00> : tensor<2x6x3x4xf32>
// CHECK:         [[P:%.+]] = tensor.insert_slice %x into [[ZEROS]][0, 1, 0, 0] [2, 4, 3, 4] [1, 1, 1, 1]
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins([[P]], %w : tensor<2x6x3x4xf32>, tensor<3x4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0, 1, 0] [2, 4, 3, 5] [1, 1, 2, 1] : tensor<2x4x3x5xf32> into tensor<2x4x6x5xf32>
func.func @window_stays_padded(%x: tensor<2x4x3x4xf32>, %w: tensor<3x4x5xf32>) -> tensor<2x4x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x4x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 1, 0] [2, 4, 3, 4] [1, 1, 2, 1] : tensor<2x4x3x4xf32> into tensor<2x6x6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k, r, c) -> (n, h + r, w, c)>, affine_map<(n, h, w, k, r, c) -> (r, c, k)>, affine_map<(n, h, w, k, r, c) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x6x6x4xf32>, tensor<3x4x5xf32>) outs(%init : tensor<2x4x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x6x5xf32>
  return %r : tensor<2x4x6x5xf32>
}

// The strided loop also indexes the filter: the filter is sliced alike.
// CHECK-LABEL: func.func @filter_sliced
// CHECK:         [[W:%.+]] = tensor.extract_slice %w[1, 0, 0] [3, 4, 5] [2, 1, 1] : tensor<6x4x5xf32> to tensor<3x4x5xf32>
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, [[W]] : tensor<2x3x4xf32>, tensor<3x4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 1, 0] [2, 3, 5] [1, 2, 1]
func.func @filter_sliced(%x: tensor<2x3x4xf32>, %w: tensor<6x4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, c) -> (n, w, c)>, affine_map<(n, w, k, c) -> (w, c, k)>, affine_map<(n, w, k, c) -> (n, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<6x4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// The result has one dimension more than the scatter, from the filter's two output dimensions.
// CHECK-LABEL: func.func @result_of_another_rank
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0, 0] [5, 2, 3, 2] [1, 1, 2, 1] : tensor<5x2x3x2xf32> into tensor<5x2x6x2xf32>
func.func @result_of_another_rank(%x: tensor<2x3x4xf32>, %w: tensor<4x5x2xf32>) -> tensor<5x2x6x2xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<5x2x6x2xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, g, c) -> (n, w, c)>, affine_map<(n, w, k, g, c) -> (c, k, g)>, affine_map<(n, w, k, g, c) -> (k, n, w, g)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5x2xf32>) outs(%init : tensor<5x2x6x2xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<5x2x6x2xf32>
  return %r : tensor<5x2x6x2xf32>
}

// A rank-reducing insertion: the source gets its unit dimension back; one of two images is computed.
// CHECK-LABEL: func.func @rank_reducing
// CHECK:         [[X:%.+]] = tensor.expand_shape %x {{.*}} output_shape [1, 3, 4] : tensor<3x4xf32> into tensor<1x3x4xf32>
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins([[X]], %w : tensor<1x3x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[1, 0, 0] [1, 3, 5] [1, 2, 1] : tensor<1x3x5xf32> into tensor<2x6x5xf32>
func.func @rank_reducing(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[1, 0, 0] [1, 3, 4] [1, 2, 1] : tensor<3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, c) -> (n, w, c)>, affine_map<(n, w, k, c) -> (c, k)>, affine_map<(n, w, k, c) -> (n, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// The scatter is the right operand, and the body multiplies in the other order.
// CHECK-LABEL: func.func @right_operand
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%w, %x : tensor<4x5xf32>, tensor<2x3x4xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0, 2] [2, 5, 3] [1, 1, 2] : tensor<2x5x3xf32> into tensor<2x5x7xf32>
func.func @right_operand(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x5x7xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x7x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x5x7xf32>
  %s = tensor.insert_slice %x into %zeros[0, 2, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x7x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, c) -> (c, k)>, affine_map<(n, w, k, c) -> (n, w, c)>, affine_map<(n, w, k, c) -> (n, k, w)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %s : tensor<4x5xf32>, tensor<2x7x4xf32>) outs(%init : tensor<2x5x7xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %b, %a : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x5x7xf32>
  return %r : tensor<2x5x7xf32>
}

// p > d(K - 1): the loop starts past the first element, which it never reads; so the source is
// cropped. The index has a constant, which goes.
// CHECK-LABEL: func.func @cropped_by_a_constant
// CHECK:         [[X:%.+]] = tensor.extract_slice %x[0, 1, 0] [2, 2, 4] [1, 1, 1] : tensor<2x3x4xf32> to tensor<2x2x4xf32>
// CHECK:         [[C:%.+]] = linalg.generic
// CHECK-SAME:      affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-SAME:      ins([[X]], %w : tensor<2x2x4xf32>, tensor<4x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 1, 0] [2, 2, 5] [1, 2, 1] : tensor<2x2x5xf32> into tensor<2x4x5xf32>
func.func @cropped_by_a_constant(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x4x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x5x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x4x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x5x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, c) -> (n, w + 1, c)>, affine_map<(n, w, k, c) -> (c, k)>, affine_map<(n, w, k, c) -> (n, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x5x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x5xf32>
  return %r : tensor<2x4x5xf32>
}

// A strided convolution of a strided scatter: indices 3 w meet elements 2 t at t = 0, 3, and w = 0, 2.
// CHECK-LABEL: func.func @strided_read_of_a_strided_scatter
// CHECK:         [[X:%.+]] = tensor.extract_slice %x[0, 0, 0] [2, 2, 4] [1, 3, 1] : tensor<2x5x4xf32> to tensor<2x2x4xf32>
// CHECK:         linalg.generic
// CHECK-SAME:      affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0] [2, 2, 5] [1, 2, 1] : tensor<2x2x5xf32> into tensor<2x4x5xf32>
func.func @strided_read_of_a_strided_scatter(%x: tensor<2x5x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x4x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x10x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x4x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 5, 4] [1, 2, 1] : tensor<2x5x4xf32> into tensor<2x10x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, k, c) -> (n, w * 3, c)>, affine_map<(n, w, k, c) -> (c, k)>, affine_map<(n, w, k, c) -> (n, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x10x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x5xf32>
  return %r : tensor<2x4x5xf32>
}

// A weight gradient with one position: the loop over positions runs once, and indexes both inputs.
// The scattered one is still read by it afterwards, so the contraction keeps its kinds of loops.
// CHECK-LABEL: func.func @single_position
// CHECK:         [[C:%.+]] = linalg.generic
// CHECK-SAME:      affine_map<(d0, d1, d2, d3) -> (d3, (d0 + d2))>, affine_map<(d0, d1, d2, d3) -> (d3, d2, d1)>
// CHECK-SAME:      ins(%x, %dy : tensor<4x3xf32>, tensor<4x1x5xf32>)
// CHECK:         tensor.insert_slice [[C]] into %{{.*}}[0, 0] [3, 5] [2, 1] : tensor<3x5xf32> into tensor<6x5xf32>
func.func @single_position(%x: tensor<4x3xf32>, %dy: tensor<4x1x5xf32>) -> tensor<6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %init = arith.constant dense<0.0> : tensor<6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0] [4, 3] [1, 2] : tensor<4x3xf32> into tensor<4x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(tap, k, p, n) -> (n, tap + p)>, affine_map<(tap, k, p, n) -> (n, p, k)>, affine_map<(tap, k, p, n) -> (tap, k)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%s, %dy : tensor<4x6xf32>, tensor<4x1x5xf32>) outs(%init : tensor<6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<6x5xf32>
  return %r : tensor<6x5xf32>
}
