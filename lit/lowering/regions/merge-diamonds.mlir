// RUN: convir-opt %s -p fuse-epilogue | filecheck %s
// What a contraction's result meets itself in is one op, and its epilogue.

#id = affine_map<(i, j) -> (i, j)>
#swapped = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (j)>

// x · sigmoid(x + bias), in parts: the additions of the bias and what follows.
// CHECK-LABEL: func.func @silu
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.matmul
// CHECK-NEXT:    linalg.generic {{.*}} ins(%{{.*}} : tensor<4x6xf32>)
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      %[[NEG:.*]] = arith.negf %[[X]] : f32
// CHECK-NEXT:      %[[EXP:.*]] = math.exp %[[NEG]] : f32
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[ONE]], %[[EXP]] : f32
// CHECK-NEXT:      %[[SIGMOID:.*]] = arith.divf %[[ONE]], %[[SUM]] : f32
// CHECK-NEXT:      %[[Y:.*]] = arith.mulf %[[X]], %[[SIGMOID]] : f32
// CHECK-NEXT:      linalg.yield %[[Y]] : f32
// CHECK:         kernel.yield
// CHECK-NOT:   arith.mulf %{{.*}} : tensor
func.func @silu(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %e = tensor.empty() : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %one = arith.constant 1.0 : f32
    %n = arith.negf %p : f32
    %m = math.exp %n : f32
    %s = arith.addf %one, %m : f32
    %q = arith.divf %one, %s : f32
    linalg.yield %q : f32
  } -> tensor<4x6xf32>
  %2 = arith.mulf %0, %1 : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// Three ops between, and a further operand: x · max(x + row, 0).
// CHECK-LABEL: func.func @longer
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.matmul
// CHECK-NEXT:    linalg.generic {{.*}} ins(%{{.*}}, %row, %{{.*}} : tensor<4x6xf32>, tensor<6xf32>, tensor<4x6xf32>)
// CHECK:           arith.addf
// CHECK-NEXT:      arith.maximumf
// CHECK-NEXT:      arith.mulf
// CHECK-NEXT:      linalg.yield
func.func @longer(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %row: tensor<6xf32>) -> tensor<4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %e = tensor.empty() : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %row : tensor<4x6xf32>, tensor<6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x6xf32>
  %2 = arith.maximumf %1, %zeros : tensor<4x6xf32>
  %3 = arith.mulf %0, %2 : tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}

// Not merged: the sigmoid is needed besides.
// CHECK-LABEL: func.func @read_besides
// CHECK:       linalg.matmul
// CHECK:       math.exp %{{.*}} : tensor<4x6xf32>
// CHECK:       arith.mulf %{{.*}} : tensor<4x6xf32>
func.func @read_besides(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = math.exp %0 : tensor<4x6xf32>
  %2 = arith.mulf %0, %1 : tensor<4x6xf32>
  return %1, %2 : tensor<4x6xf32>, tensor<4x6xf32>
}

// Not merged: an element meets another one.
// CHECK-LABEL: func.func @transposed
// CHECK:       linalg.matmul
// CHECK:       math.exp %{{.*}} : tensor<4x4xf32>
func.func @transposed(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x4xf32>
  %e = tensor.empty() : tensor<4x4xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = math.exp %0 : tensor<4x4xf32>
  %2 = linalg.generic {indexing_maps = [#id, #swapped, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.mulf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
