// RUN: convir-opt %s -p canonicalize --split-input-file | filecheck %s

// CHECK-LABEL: func.func @copies
// CHECK-NEXT: func.return %a, %a, %a, %b
func.func @copies(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d1, d0)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x8xf32>) outs(%b : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %1 = linalg.copy ins(%a : tensor<4x8xf32>) outs(%b : tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = linalg.transpose ins(%a : tensor<4x8xf32>) outs(%b : tensor<4x8xf32>) permutation = [0, 1]
  %3 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0, 0)>], iterator_types = ["parallel"]} outs(%b : tensor<4x8xf32>) {
  ^bb0(%out: f32):
    linalg.yield %out : f32
  } -> tensor<4x8xf32>
  return %0, %1, %2, %3 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @transposes
// CHECK: [[T:%.+]] = linalg.transpose ins(%a : tensor<2x3x4xf32>) outs({{.*}} : tensor<4x2x3xf32>) permutation = [2, 0, 1]
// CHECK: func.return [[T]], %a
func.func @transposes(%a: tensor<2x3x4xf32>, %t: tensor<3x2x4xf32>, %u: tensor<4x2x3xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>) {
  %e = tensor.empty() : tensor<2x3x4xf32>
  %0 = linalg.transpose ins(%a : tensor<2x3x4xf32>) outs(%t : tensor<3x2x4xf32>) permutation = [1, 0, 2]
  %1 = linalg.transpose ins(%0 : tensor<3x2x4xf32>) outs(%u : tensor<4x2x3xf32>) permutation = [2, 1, 0]
  %2 = linalg.transpose ins(%0 : tensor<3x2x4xf32>) outs(%e : tensor<2x3x4xf32>) permutation = [1, 0, 2]
  return %1, %2 : tensor<4x2x3xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @transpose_of_splat
// CHECK: arith.constant dense<1.000000e+00> : tensor<8x4xf32>
// CHECK-NEXT: func.return
func.func @transpose_of_splat(%b: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = arith.constant dense<1.0> : tensor<4x8xf32>
  %1 = linalg.transpose ins(%0 : tensor<4x8xf32>) outs(%b : tensor<8x4xf32>) permutation = [1, 0]
  return %1 : tensor<8x4xf32>
}

// The second operand goes because the body ignores it, the third because it is the first.

// CHECK-LABEL: func.func @inputs
// CHECK-NEXT: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) {
// CHECK-NEXT: ^bb0([[IN:%.+]]: f32, [[OUT:%.+]]: f32):
// CHECK-NEXT: [[SUM:%.+]] = arith.addf [[IN]], [[IN]] : f32
// CHECK-NEXT: [[ALL:%.+]] = arith.addf [[SUM]], [[OUT]] : f32
// CHECK-NEXT: linalg.yield [[ALL]] : f32
func.func @inputs(%a: tensor<4xf32>, %b: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a, %b, %a : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32, %out: f32):
    %1 = arith.addf %x, %z : f32
    %2 = arith.addf %1, %out : f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @overwritten_splat
// CHECK: [[EMPTY:%.+]] = tensor.empty() : tensor<8x4xf32>
// CHECK: linalg.generic {{.*}} outs([[EMPTY]] : tensor<8x4xf32>)
func.func @overwritten_splat(%a: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<8x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1, d0)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x8xf32>) outs(%zeros : tensor<8x4xf32>) {
  ^bb0(%x: f32, %out: f32):
    %1 = arith.addf %x, %x : f32
    linalg.yield %1 : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @fill_over_fill
// CHECK: [[FILL:%.+]] = linalg.fill ins(%y : f32) outs(%d : tensor<?xf32>) -> tensor<?xf32>
// CHECK-NEXT: func.return [[FILL]]
func.func @fill_over_fill(%x: f32, %y: f32, %d: tensor<?xf32>) -> tensor<?xf32> {
  %0 = linalg.fill ins(%x : f32) outs(%d : tensor<?xf32>) -> tensor<?xf32>
  %1 = linalg.fill ins(%y : f32) outs(%0 : tensor<?xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// -----

// Not rewritten because the maps differ: it transposes.

// CHECK-LABEL: func.func @transposing_copy
// CHECK: linalg.generic
func.func @transposing_copy(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1, d0)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x4xf32>) outs(%b : tensor<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// Not rewritten because only the diagonal is copied.

// CHECK-LABEL: func.func @diagonal
// CHECK: [[ONES:%.+]] = arith.constant dense<1.000000e+00>
// CHECK: linalg.generic {{.*}} outs([[ONES]] :
func.func @diagonal(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %ones = arith.constant dense<1.0> : tensor<4x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0, d0)>, affine_map<(d0) -> (d0, d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4x4xf32>) outs(%ones : tensor<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// Not rewritten because the copy changes the type of the elements.

// CHECK-LABEL: func.func @converting_copy
// CHECK: linalg.generic
func.func @converting_copy(%a: tensor<4xf16>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf16>) outs(%b : tensor<4xf32>) {
  ^bb0(%in: f16, %out: f32):
    %1 = arith.extf %in : f16 to f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Not rewritten because nothing else says how often the reduction runs.

// CHECK-LABEL: func.func @window
// CHECK: ins(%a, %w : tensor<6xf32>, tensor<3xf32>)
func.func @window(%a: tensor<6xf32>, %w: tensor<3xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 + d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a, %w : tensor<6xf32>, tensor<3xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %1 = arith.maximumf %x, %out : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Not rewritten because the reduction may not run at all, and then the zeros are the result.

// CHECK-LABEL: func.func @maybe_no_iteration
// CHECK: linalg.generic {{.*}} outs(%zeros : tensor<4xf32>)
func.func @maybe_no_iteration(%a: tensor<4x?xf32>) -> tensor<4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<4x?xf32>) outs(%zeros : tensor<4xf32>) {
  ^bb0(%x: f32, %out: f32):
    %1 = arith.addf %x, %x : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Not rewritten because the body reads the zeros.

// CHECK-LABEL: func.func @accumulates
// CHECK: linalg.generic {{.*}} outs(%zeros : tensor<4xf32>)
func.func @accumulates(%a: tensor<4xf32>) -> tensor<4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%zeros : tensor<4xf32>) {
  ^bb0(%x: f32, %out: f32):
    %1 = arith.addf %x, %out : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Not rewritten because a buffer given as destination is kept.

// CHECK-LABEL: func.func @given_destination
// CHECK: linalg.fill ins(%x : f32) outs(%d : tensor<4xf32>)
func.func @given_destination(%x: f32, %d: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.fill ins(%x : f32) outs(%d : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
