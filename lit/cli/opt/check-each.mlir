// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction,dce --check-each --remarks -o %t 2>&1 | filecheck %s
// RUN: convir-opt %s -p swap-strided-insert-slice-with-contraction,dce --check-each --check-budget=1e3 -o %t 2>&1 | filecheck %s --check-prefix=BUDGET

func.func @pointwise(%x: tensor<2x5x8xf32>, %w: tensor<4x8xf32>) -> tensor<2x10x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x10x8xf32>
  %scattered = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 5, 8] [1, 2, 1]
      : tensor<2x5x8xf32> into tensor<2x10x8xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x10x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x10x4xf32>) -> tensor<2x10x4xf32>
  %y = linalg.generic {
    indexing_maps = [affine_map<(n, h, k, c) -> (n, h, c)>, affine_map<(n, h, k, c) -> (k, c)>,
                     affine_map<(n, h, k, c) -> (n, h, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  } ins(%scattered, %w : tensor<2x10x8xf32>, tensor<4x8xf32>) outs(%init : tensor<2x10x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<2x10x4xf32>
  return %y : tensor<2x10x4xf32>
}

// CHECK:      check-each.mlir:{{[0-9]+:[0-9]+}}: remark: [swap-strided-insert-slice-with-contraction] tensor.insert_slice rewritten: {{.+}}
// CHECK-NEXT: check-each.mlir:4:1: remark: [swap-strided-insert-slice-with-contraction] agrees: {{.*}}bit for bit

// BUDGET: warning: [swap-strided-insert-slice-with-contraction] not checked: {{.*}} exceed the budget of 1e+03
