// RUN: convir-opt %s -p fuse-rows --split-input-file | filecheck %s
// RUN: convir-opt %s -p fuse-rows --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: convir-opt %s -p 'fuse-rows{device=cuda}' --split-input-file | filecheck %s --check-prefix=CUDA
// CUDA-NOT: kernel.region

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// A mean, and the deviations from it: what reads the sum element by element joins.
// REMARK: linalg.generic rewritten: 3 ops are 2 passes over each row
// CHECK-LABEL: func.func @deviations
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.generic
// CHECK:         arith.mulf
// CHECK:         arith.subf
// CHECK:         kernel.yield
// CHECK-NOT:   kernel.region
func.func @deviations(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %share = arith.constant dense<0.015625> : tensor<4xf32>
  %full = tensor.empty() : tensor<4x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xf32>) outs(%zeros : tensor<4xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  %m = arith.mulf %s, %share : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<4x64xf32>, tensor<4xf32>) outs(%full : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>

// A sum over columns of what was divided by sums over rows: another pass cannot have it.
// REMARK: linalg.generic rewritten: 2 ops are 2 passes over each row
// REMARK: linalg.generic rewritten: 1 ops are 1 passes over each row
// CHECK-LABEL: func.func @rows_and_columns
// CHECK:       kernel.region {
// CHECK:         kernel.yield
// CHECK:       kernel.region {
// CHECK:         kernel.yield
func.func @rows_and_columns(%x: tensor<4x64xf32>) -> tensor<64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %none = arith.constant dense<0.0> : tensor<64xf32>
  %full = tensor.empty() : tensor<4x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xf32>) outs(%zeros : tensor<4xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<4x64xf32>, tensor<4xf32>) outs(%full : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.divf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<4x64xf32>
  %c = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%y : tensor<4x64xf32>) outs(%none : tensor<64xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<64xf32>
  return %c : tensor<64xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// Not rewritten: integers have no vectors here.
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
