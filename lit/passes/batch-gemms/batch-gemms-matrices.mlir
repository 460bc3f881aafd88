// RUN: convir-opt %s --split-input-file -p batch-gemms --remarks --check-each 2>&1 >/dev/null | filecheck %s
// Matrices of im2col that are written: kernels would not read the image in place.

// Windows do not begin where the image does.
// CHECK: scf.for rewritten: 2 samples at once: {{[0-9.]+ (bytes|kB)}} of workspace are within 524 kB
// CHECK-NOT: read in place
// CHECK: agrees
func.func @offset(%x: tensor<2x3x8xf32>, %w: tensor<4x9xf32>, %y: tensor<2x4x5xf32>) -> tensor<2x4x5xf32> {
  %z = arith.constant dense<0.0> : tensor<4x5xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %result = scf.for %n = %c0 to %c2 step %c1 iter_args(%acc = %y) -> (tensor<2x4x5xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 3, 8] [1, 1, 1] : tensor<2x3x8xf32> to tensor<3x8xf32>
    %e = tensor.empty() : tensor<3x3x5xf32>
    %cols = linalg.generic {indexing_maps = [affine_map<(c, r, p) -> (c, p + r + 1)>, affine_map<(c, r, p) -> (c, r, p)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%xn : tensor<3x8xf32>) outs(%e : tensor<3x3x5xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<3x3x5xf32>
    %xcol = tensor.collapse_shape %cols [[0, 1], [2]] : tensor<3x3x5xf32> into tensor<9x5xf32>
    %p = linalg.matmul ins(%w, %xcol : tensor<4x9xf32>, tensor<9x5xf32>) outs(%z : tensor<4x5xf32>) -> tensor<4x5xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 5] [1, 1, 1] : tensor<4x5xf32> into tensor<2x4x5xf32>
    scf.yield %s : tensor<2x4x5xf32>
  }
  return %result : tensor<2x4x5xf32>
}

// -----

// Two loops over the result walk one dimension.
// CHECK: scf.for rewritten: 2 samples at once: {{[0-9.]+ (bytes|kB)}} of workspace are within 524 kB
// CHECK-NOT: read in place
// CHECK: agrees
func.func @two_positions(%x: tensor<2x3x9xf32>, %w: tensor<4x9xf32>, %y: tensor<2x4x12xf32>) -> tensor<2x4x12xf32> {
  %z = arith.constant dense<0.0> : tensor<4x12xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %result = scf.for %n = %c0 to %c2 step %c1 iter_args(%acc = %y) -> (tensor<2x4x12xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 3, 9] [1, 1, 1] : tensor<2x3x9xf32> to tensor<3x9xf32>
    %e = tensor.empty() : tensor<3x3x4x3xf32>
    %cols = linalg.generic {indexing_maps = [affine_map<(c, r, p, q) -> (c, p + q + r)>, affine_map<(c, r, p, q) -> (c, r, p, q)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%xn : tensor<3x9xf32>) outs(%e : tensor<3x3x4x3xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<3x3x4x3xf32>
    %xcol = tensor.collapse_shape %cols [[0, 1], [2, 3]] : tensor<3x3x4x3xf32> into tensor<9x12xf32>
    %p = linalg.matmul ins(%w, %xcol : tensor<4x9xf32>, tensor<9x12xf32>) outs(%z : tensor<4x12xf32>) -> tensor<4x12xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 12] [1, 1, 1] : tensor<4x12xf32> into tensor<2x4x12xf32>
    scf.yield %s : tensor<2x4x12xf32>
  }
  return %result : tensor<2x4x12xf32>
}

// -----

// Two reduced loops walk one dimension.
// CHECK: scf.for rewritten: 2 samples at once: {{[0-9.]+ (bytes|kB)}} of workspace are within 524 kB
// CHECK-NOT: read in place
// CHECK: agrees
func.func @two_taps(%x: tensor<2x3x9xf32>, %w: tensor<4x18xf32>, %y: tensor<2x4x5xf32>) -> tensor<2x4x5xf32> {
  %z = arith.constant dense<0.0> : tensor<4x5xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %result = scf.for %n = %c0 to %c2 step %c1 iter_args(%acc = %y) -> (tensor<2x4x5xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 3, 9] [1, 1, 1] : tensor<2x3x9xf32> to tensor<3x9xf32>
    %e = tensor.empty() : tensor<3x3x2x5xf32>
    %cols = linalg.generic {indexing_maps = [affine_map<(c, r, s, p) -> (c, p + r + s)>, affine_map<(c, r, s, p) -> (c, r, s, p)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%xn : tensor<3x9xf32>) outs(%e : tensor<3x3x2x5xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<3x3x2x5xf32>
    %xcol = tensor.collapse_shape %cols [[0, 1, 2], [3]] : tensor<3x3x2x5xf32> into tensor<18x5xf32>
    %p = linalg.matmul ins(%w, %xcol : tensor<4x18xf32>, tensor<18x5xf32>) outs(%z : tensor<4x5xf32>) -> tensor<4x5xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 5] [1, 1, 1] : tensor<4x5xf32> into tensor<2x4x5xf32>
    scf.yield %s : tensor<2x4x5xf32>
  }
  return %result : tensor<2x4x5xf32>
}

// -----

// No table has room for the addresses of so many taps.
// CHECK: scf.for rewritten: 2 samples at once: {{[0-9.]+ (bytes|kB)}} of workspace are within 524 kB
// CHECK-NOT: read in place
// CHECK: agrees
func.func @many_taps(%x: tensor<2x36x36xf32>, %w: tensor<2x1089xf32>, %y: tensor<2x2x16xf32>) -> tensor<2x2x16xf32> {
  %z = arith.constant dense<0.0> : tensor<2x16xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %result = scf.for %n = %c0 to %c2 step %c1 iter_args(%acc = %y) -> (tensor<2x2x16xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 36, 36] [1, 1, 1] : tensor<2x36x36xf32> to tensor<36x36xf32>
    %e = tensor.empty() : tensor<33x33x4x4xf32>
    %cols = linalg.generic {indexing_maps = [affine_map<(r, s, p, q) -> (p + r, q + s)>, affine_map<(r, s, p, q) -> (r, s, p, q)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%xn : tensor<36x36xf32>) outs(%e : tensor<33x33x4x4xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<33x33x4x4xf32>
    %xcol = tensor.collapse_shape %cols [[0, 1], [2, 3]] : tensor<33x33x4x4xf32> into tensor<1089x16xf32>
    %p = linalg.matmul ins(%w, %xcol : tensor<2x1089xf32>, tensor<1089x16xf32>) outs(%z : tensor<2x16xf32>) -> tensor<2x16xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 2, 16] [1, 1, 1] : tensor<2x16xf32> into tensor<2x2x16xf32>
    scf.yield %s : tensor<2x2x16xf32>
  }
  return %result : tensor<2x2x16xf32>
}

// -----

// Two dimensions are channels of their own.
// CHECK: scf.for rewritten: 2 samples at once: {{[0-9.]+ (bytes|kB)}} of workspace are within 524 kB
// CHECK-NOT: read in place
// CHECK: agrees
func.func @two_depths(%x: tensor<2x2x3x8xf32>, %w: tensor<4x18xf32>, %y: tensor<2x4x6xf32>) -> tensor<2x4x6xf32> {
  %z = arith.constant dense<0.0> : tensor<4x6xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %result = scf.for %n = %c0 to %c2 step %c1 iter_args(%acc = %y) -> (tensor<2x4x6xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0, 0] [1, 2, 3, 8] [1, 1, 1, 1] : tensor<2x2x3x8xf32> to tensor<2x3x8xf32>
    %e = tensor.empty() : tensor<2x3x3x6xf32>
    %cols = linalg.generic {indexing_maps = [affine_map<(b, c, r, p) -> (b, c, p + r)>, affine_map<(b, c, r, p) -> (b, c, r, p)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%xn : tensor<2x3x8xf32>) outs(%e : tensor<2x3x3x6xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<2x3x3x6xf32>
    %xcol = tensor.collapse_shape %cols [[0, 1, 2], [3]] : tensor<2x3x3x6xf32> into tensor<18x6xf32>
    %p = linalg.matmul ins(%w, %xcol : tensor<4x18xf32>, tensor<18x6xf32>) outs(%z : tensor<4x6xf32>) -> tensor<4x6xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 6] [1, 1, 1] : tensor<4x6xf32> into tensor<2x4x6xf32>
    scf.yield %s : tensor<2x4x6xf32>
  }
  return %result : tensor<2x4x6xf32>
}
