// RUN: convir-opt %s -p 'fuse-rows{device=cuda}' --split-input-file | filecheck %s
// RUN: convir-opt %s -p 'fuse-rows{device=cuda}' --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// What a GPU's kernels take of rows, and a CPU's do not: another order of the elements, in which
// the channels of a group are neighbours.

#nhwc = affine_map<(n, c, p) -> (n, p, c)>
#ncp = affine_map<(n, c, p) -> (n, c, p)>
#all = affine_map<(n, g, r, p) -> (n, g, r, p)>
#group = affine_map<(n, g, r, p) -> (n, g)>

// REMARK: linalg.generic rewritten: 4 ops are 2 passes over each row
// CHECK-LABEL: func.func @groups_of_channels
// CHECK:       kernel.region {
// CHECK:         tensor.expand_shape
// CHECK:         arith.addf
// CHECK:         arith.subf
// CHECK:         tensor.collapse_shape
// CHECK:         kernel.yield {{.*}} : tensor<2x64x32xf32>
func.func @groups_of_channels(%x: tensor<2x64x32xf32>) -> tensor<2x64x32xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x8xf32>
  %e = tensor.empty() : tensor<2x32x64xf32>
  %first = linalg.generic {indexing_maps = [#nhwc, #ncp], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x64x32xf32>) outs(%e : tensor<2x32x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x32x64xf32>
  %groups = tensor.expand_shape %first [[0], [1, 2], [3]] output_shape [2, 8, 4, 64] : tensor<2x32x64xf32> into tensor<2x8x4x64xf32>
  %s = linalg.generic {indexing_maps = [#all, #group], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%groups : tensor<2x8x4x64xf32>) outs(%zeros : tensor<2x8xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<2x8xf32>
  %full = tensor.empty() : tensor<2x8x4x64xf32>
  %d = linalg.generic {indexing_maps = [#all, #group, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%groups, %s : tensor<2x8x4x64xf32>, tensor<2x8xf32>) outs(%full : tensor<2x8x4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %n = arith.subf %a, %b : f32
    linalg.yield %n : f32
  } -> tensor<2x8x4x64xf32>
  %one = tensor.collapse_shape %d [[0], [1, 2], [3]] : tensor<2x8x4x64xf32> into tensor<2x32x64xf32>
  %f = tensor.empty() : tensor<2x64x32xf32>
  %last = linalg.generic {indexing_maps = [#ncp, #nhwc], iterator_types = ["parallel", "parallel", "parallel"]} ins(%one : tensor<2x32x64xf32>) outs(%f : tensor<2x64x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x64x32xf32>
  return %last : tensor<2x64x32xf32>
}

// -----

#product = affine_map<(n, p, c, k) -> (n, p, k)>
#filter = affine_map<(n, p, c, k) -> (c, k)>
#result = affine_map<(n, p, c, k) -> (n, p, c)>
#same = affine_map<(r, p) -> (r, p)>
#row = affine_map<(r, p) -> (r)>

// A contraction stores no permuted tile: what stands behind a rearrangement of its result is read
// here, through one reshape behind another.
// REMARK: linalg.generic rewritten: 5 ops are 2 passes over each row
// CHECK-LABEL: func.func @behind_a_contraction
// CHECK:       arith.mulf
// CHECK:       kernel.region {
// CHECK:         linalg.transpose
// CHECK:         arith.negf
// CHECK:         arith.addf
// CHECK:         arith.subf
// CHECK:         linalg.transpose
// CHECK:         kernel.yield {{.*}} : tensor<2x64x32xf32>
func.func @behind_a_contraction(%x: tensor<2x64x16xf32>, %w: tensor<32x16xf32>) -> tensor<2x64x32xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x64x32xf32>
  %none = arith.constant dense<0.0> : tensor<64xf32>
  %c = linalg.generic {indexing_maps = [#product, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x64x16xf32>, tensor<32x16xf32>) outs(%zeros : tensor<2x64x32xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %m = arith.mulf %a, %b : f32
    %n = arith.addf %t, %m : f32
    linalg.yield %n : f32
  } -> tensor<2x64x32xf32>
  %e = tensor.empty() : tensor<2x32x64xf32>
  %first = linalg.transpose ins(%c : tensor<2x64x32xf32>) outs(%e : tensor<2x32x64xf32>) permutation = [0, 2, 1]
  %one = tensor.collapse_shape %first [[0, 1], [2]] : tensor<2x32x64xf32> into tensor<64x64xf32>
  %two = tensor.expand_shape %one [[0, 1], [2]] output_shape [1, 64, 64] : tensor<64x64xf32> into tensor<1x64x64xf32>
  %rows = tensor.collapse_shape %two [[0, 1], [2]] : tensor<1x64x64xf32> into tensor<64x64xf32>
  %full = tensor.empty() : tensor<64x64xf32>
  %neg = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<64x64xf32>) outs(%full : tensor<64x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<64x64xf32>
  %s = linalg.generic {indexing_maps = [#same, #row], iterator_types = ["parallel", "reduction"]} ins(%neg : tensor<64x64xf32>) outs(%none : tensor<64xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<64xf32>
  %d = linalg.generic {indexing_maps = [#same, #row, #same], iterator_types = ["parallel", "parallel"]} ins(%neg, %s : tensor<64x64xf32>, tensor<64xf32>) outs(%full : tensor<64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %n = arith.subf %a, %b : f32
    linalg.yield %n : f32
  } -> tensor<64x64xf32>
  %back = tensor.expand_shape %d [[0, 1], [2]] output_shape [2, 32, 64] : tensor<64x64xf32> into tensor<2x32x64xf32>
  %f = tensor.empty() : tensor<2x64x32xf32>
  %last = linalg.transpose ins(%back : tensor<2x32x64xf32>) outs(%f : tensor<2x64x32xf32>) permutation = [0, 2, 1]
  return %last : tensor<2x64x32xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// Not rewritten: integers are loops' work.
// REMARK: linalg.generic not rewritten: it holds elements of type i32
// CHECK-LABEL: func.func @integers
// CHECK-NOT:   kernel.region
func.func @integers(%x: tensor<4x64xi32>) -> tensor<4xi32> {
  %zeros = arith.constant dense<0> : tensor<4xi32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xi32>) outs(%zeros : tensor<4xi32>) {
  ^bb0(%a: i32, %t: i32):
    %n = arith.addi %t, %a : i32
    linalg.yield %n : i32
  } -> tensor<4xi32>
  return %s : tensor<4xi32>
}
