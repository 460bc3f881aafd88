// RUN: convir-opt %s --split-input-file -p batch-gemms --check-each | filecheck %s
// RUN: convir-opt %s --split-input-file -p batch-gemms,canonicalize --check-each | filecheck %s --check-prefix=FOLDED

// A product starts from the same tensor in every sample, whose size only its source shows.
// CHECK-LABEL: func.func @hidden
// CHECK:       %[[START:.*]] = tensor.cast %start : tensor<2x3xi32> to tensor<?x3xi32>
// CHECK:       %[[C0:.*]] = arith.constant 0 : index
// CHECK-NEXT:  %[[ROWS:.*]] = tensor.dim %[[START]], %[[C0]]
// CHECK-NEXT:  tensor.empty(%[[ROWS]]) : tensor<4x?x3xi32>
// CHECK:       linalg.generic {{.*}} ins(%w, %x : tensor<2x3x2xi32>, tensor<4x2xi32>) outs({{.*}} : tensor<4x?x3xi32>)
// FOLDED-LABEL: func.func @hidden
// FOLDED-NOT:   scf.for
// FOLDED:       return
func.func @hidden(%x: tensor<4x2xi32>, %w: tensor<2x3x2xi32>, %start: tensor<2x3xi32>, %y: tensor<4x2x3xi32>) -> tensor<4x2x3xi32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %n = %c0 to %c4 step %c1 iter_args(%acc = %y) -> (tensor<4x2x3xi32>) {
    %xn = tensor.extract_slice %x[%n, 0] [1, 2] [1, 1] : tensor<4x2xi32> to tensor<2xi32>
    %open = tensor.cast %start : tensor<2x3xi32> to tensor<?x3xi32>
    %p = linalg.generic {indexing_maps = [affine_map<(c, k, m) -> (c, k, m)>, affine_map<(c, k, m) -> (c)>, affine_map<(c, k, m) -> (m, k)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%w, %xn : tensor<2x3x2xi32>, tensor<2xi32>) outs(%open : tensor<?x3xi32>) {
    ^bb0(%a: i32, %b: i32, %o: i32):
      %ab = arith.muli %a, %b : i32
      %s = arith.addi %ab, %o : i32
      linalg.yield %s : i32
    } -> tensor<?x3xi32>
    %e = tensor.empty() : tensor<2x3xi32>
    %t = linalg.transpose ins(%p : tensor<?x3xi32>) outs(%e : tensor<2x3xi32>) permutation = [0, 1]
    %s = tensor.insert_slice %t into %acc[%n, 0, 0] [1, 2, 3] [1, 1, 1] : tensor<2x3xi32> into tensor<4x2x3xi32>
    scf.yield %s : tensor<4x2x3xi32>
  }
  return %r : tensor<4x2x3xi32>
}

// -----

// A size that nothing shows, of a tensor of zeros and in a reshape.
// CHECK-LABEL: func.func @unknown
// CHECK:       %[[ROWS:.*]] = tensor.dim %w, %{{.*}}
// CHECK:       tensor.empty(%{{.*}}) : tensor<4x?x2xf32>
// CHECK:       linalg.fill {{.*}} -> tensor<4x?x2xf32>
// CHECK:       tensor.expand_shape %{{.*}} {{.*}} output_shape [4, %[[ROWS]], 2, 1] : tensor<4x?x2xf32> into tensor<4x?x2x1xf32>
// FOLDED-LABEL: func.func @unknown
// FOLDED-NOT:   scf.for
// FOLDED:       return
func.func @unknown(%x: tensor<4x3x2xf32>, %w: tensor<?x3xf32>, %y: tensor<4x6x2xf32>) -> tensor<4x6x2xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %w, %c0 : tensor<?x3xf32>
  %r = scf.for %n = %c0 to %c4 step %c1 iter_args(%acc = %y) -> (tensor<4x6x2xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 3, 2] [1, 1, 1] : tensor<4x3x2xf32> to tensor<3x2xf32>
    %e = tensor.empty(%rows) : tensor<?x2xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
    %p = linalg.matmul ins(%w, %xn : tensor<?x3xf32>, tensor<3x2xf32>) outs(%z : tensor<?x2xf32>) -> tensor<?x2xf32>
    %q = tensor.expand_shape %p [[0], [1, 2]] output_shape [%rows, 2, 1] : tensor<?x2xf32> into tensor<?x2x1xf32>
    %i = tensor.empty() : tensor<6x2xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b, 0)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<?x2x1xf32>) outs(%i : tensor<6x2xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<6x2xf32>
    %s = tensor.insert_slice %t into %acc[%n, 0, 0] [1, 6, 2] [1, 1, 1] : tensor<6x2xf32> into tensor<4x6x2xf32>
    scf.yield %s : tensor<4x6x2xf32>
  }
  return %r : tensor<4x6x2xf32>
}
