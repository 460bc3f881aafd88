// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction | filecheck %s
// What the elements of the result hold that no element of the source reaches.

#nwc = affine_map<(n, w, k, c) -> (n, w, c)>
#ck = affine_map<(n, w, k, c) -> (c, k)>
#nwk = affine_map<(n, w, k, c) -> (n, w, k)>
#id = affine_map<(n, w, k) -> (n, w, k)>
#last = affine_map<(n, w, k) -> (k)>

// An init filled with 3 keeps 3 in the holes.
// CHECK-LABEL: func.func @fill_of_three
// CHECK:         [[C:%.+]] = arith.constant 3.000000e+00 : f32
// CHECK:         [[SMALL:%.+]] = linalg.fill ins([[C]] : f32) outs(%{{.*}} : tensor<2x3x5xf32>)
// CHECK:         [[R:%.+]] = linalg.generic {{.*}} outs([[SMALL]] : tensor<2x3x5xf32>)
// CHECK:         [[HOLES:%.+]] = arith.constant dense<3.000000e+00> : tensor<2x6x5xf32>
// CHECK:         tensor.insert_slice [[R]] into [[HOLES]][0, 0, 0] [2, 3, 5] [1, 2, 1]
func.func @fill_of_three(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %three = arith.constant 3.0 : f32
  %e = tensor.empty() : tensor<2x6x5xf32>
  %init = linalg.fill ins(%three : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// A fill with a value known only at run time is repeated.
// CHECK-LABEL: func.func @fill_of_an_argument
// CHECK-SAME:    %beta: f32
// CHECK:         linalg.fill ins(%beta : f32) outs(%{{.*}} : tensor<2x3x5xf32>)
// CHECK:         [[HOLES:%.+]] = linalg.fill ins(%beta : f32) outs(%{{.*}} : tensor<2x6x5xf32>)
// CHECK:         tensor.insert_slice %{{.*}} into [[HOLES]][0, 0, 0] [2, 3, 5] [1, 2, 1]
func.func @fill_of_an_argument(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %beta: f32) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %e = tensor.empty() : tensor<2x6x5xf32>
  %init = linalg.fill ins(%beta : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// Any other init: the elements that are computed start from theirs, the others stay.
// CHECK-LABEL: func.func @init_is_an_argument
// CHECK-SAME:    %init: tensor<2x6x5xf32>
// CHECK:         [[PART:%.+]] = tensor.extract_slice %init[0, 1, 0] [2, 3, 5] [1, 2, 1] : tensor<2x6x5xf32> to tensor<2x3x5xf32>
// CHECK:         [[R:%.+]] = linalg.generic {{.*}} ins(%x, %w : {{.*}}) outs([[PART]] : tensor<2x3x5xf32>)
// CHECK:         tensor.insert_slice [[R]] into %init[0, 1, 0] [2, 3, 5] [1, 2, 1]
func.func @init_is_an_argument(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %init: tensor<2x6x5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %r = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// exp(0) + 1 = 2: the holes go through the whole chain.
// CHECK-LABEL: func.func @elementwise_without_a_zero_at_zero
// CHECK:         math.exp
// CHECK:         arith.addf
// CHECK:         [[R:%.+]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x5xbf16>)
// CHECK:         [[HOLES:%.+]] = arith.constant dense<2.000000e+00> : tensor<2x6x5xbf16>
// CHECK:         [[S:%.+]] = tensor.insert_slice [[R]] into [[HOLES]][0, 0, 0] [2, 3, 5] [1, 2, 1]
// CHECK-NEXT:    func.return [[S]]
func.func @elementwise_without_a_zero_at_zero(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xbf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %e = tensor.empty() : tensor<2x6x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %c = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  %exp = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<2x6x5xf32>
  %plus_one = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%exp : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %one : f32
    linalg.yield %0 : f32
  } -> tensor<2x6x5xf32>
  %e_bf16 = tensor.empty() : tensor<2x6x5xbf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%plus_one : tensor<2x6x5xf32>) outs(%e_bf16 : tensor<2x6x5xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %0 = arith.truncf %a : f32 to bf16
    linalg.yield %0 : bf16
  } -> tensor<2x6x5xbf16>
  return %r : tensor<2x6x5xbf16>
}

// A body that reads its own init: uniform, so the holes are 0 * 2 + 5 = 5.
// CHECK-LABEL: func.func @elementwise_reads_its_init
// CHECK:         [[FIVES:%.+]] = arith.constant dense<5.000000e+00> : tensor<2x3x5xf32>
// CHECK:         [[R:%.+]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<2x3x5xf32>) outs([[FIVES]] : tensor<2x3x5xf32>)
// CHECK:         [[HOLES:%.+]] = arith.constant dense<5.000000e+00> : tensor<2x6x5xf32>
// CHECK:         tensor.insert_slice [[R]] into [[HOLES]]
func.func @elementwise_reads_its_init(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x6x5xf32> {
  %two = arith.constant 2.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %fives = arith.constant dense<5.0> : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %c = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<2x6x5xf32>) outs(%fives : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.mulf %a, %two : f32
    %1 = arith.addf %0, %o : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// A bias per channel has no one value at the holes: the scatter stays before it.
// CHECK-LABEL: func.func @bias_vector
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w
// CHECK:         [[S:%.+]] = tensor.insert_slice [[C]] into %{{.*}}[0, 0, 0] [2, 3, 5] [1, 2, 1]
// CHECK:         linalg.generic {{.*}} ins([[S]], %bias : tensor<2x6x5xf32>, tensor<5xf32>)
func.func @bias_vector(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %bias: tensor<5xf32>) -> tensor<2x6x5xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %c = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  %r = linalg.generic {indexing_maps = [#id, #last, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %bias : tensor<2x6x5xf32>, tensor<5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<2x6x5xf32>
  return %r : tensor<2x6x5xf32>
}

// The result is used twice: the scatter comes right after the contraction.
// CHECK-LABEL: func.func @result_used_twice
// CHECK:         [[C:%.+]] = linalg.generic {{.*}} ins(%x, %w
// CHECK:         [[S:%.+]] = tensor.insert_slice [[C]] into
// CHECK:         [[R:%.+]] = linalg.generic {{.*}} ins([[S]] : tensor<2x6x5xf32>)
// CHECK:         func.return [[S]], [[R]]
func.func @result_used_twice(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> (tensor<2x6x5xf32>, tensor<2x6x5xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %e = tensor.empty() : tensor<2x6x5xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %c = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<2x6x5xf32>) outs(%e : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<2x6x5xf32>
  return %c, %r : tensor<2x6x5xf32>, tensor<2x6x5xf32>
}

// An elementwise op in place, on its init, that also transposes: f(0) = max(0, 0) = 0.
// CHECK-LABEL: func.func @elementwise_transposes
// CHECK:         linalg.generic {{.*}} ins(%{{.*}} : tensor<2x3x5xf32>) outs(%{{.*}} : tensor<5x2x3xf32>)
// CHECK:         [[HOLES:%.+]] = arith.constant dense<0.000000e+00> : tensor<5x2x6xf32>
// CHECK:         tensor.insert_slice %{{.*}} into [[HOLES]][0, 0, 0] [5, 2, 3] [1, 1, 2]
func.func @elementwise_transposes(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<5x2x6xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x6x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x5xf32>
  %e = tensor.empty() : tensor<5x2x6xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x6x4xf32>
  %c = linalg.generic {indexing_maps = [#nwc, #ck, #nwk], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<2x6x4xf32>, tensor<4x5xf32>) outs(%init : tensor<2x6x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x5xf32>
  %relu = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel", "parallel"]} outs(%c : tensor<2x6x5xf32>) {
  ^bb0(%a: f32):
    %0 = arith.maximumf %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x6x5xf32>
  %r = linalg.generic {indexing_maps = [#id, affine_map<(n, w, k) -> (k, n, w)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%relu : tensor<2x6x5xf32>) outs(%e : tensor<5x2x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<5x2x6xf32>
  return %r : tensor<5x2x6xf32>
}
