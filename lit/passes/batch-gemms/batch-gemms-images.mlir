// RUN: convir-opt %s -p batch-gemms,canonicalize | filecheck %s
// RUN: convir-opt %s -p batch-gemms --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: convir-opt %s -p batch-gemms,canonicalize --compile-to=selected | filecheck %s --check-prefix=KERNEL
// RUN: convir-opt %s -p 'batch-gemms{workspace-bytes=1300},canonicalize' --compile-to=selected | filecheck %s --check-prefix=PARTS

// A window with zeros around it at stride 2, and beta = 1: each operand is split as the matrix was.
// REMARK-DAG: scf.for rewritten: 4 samples at once; images are read in place, 6912 bytes of im2col are not written
// CHECK-LABEL: func.func @strided
// CHECK-DAG:   %[[PAD:.*]] = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK-DAG:   %[[W:.*]] = tensor.expand_shape %w {{.*}} into tensor<5x3x3x3xf32>
// CHECK-DAG:   %[[Y:.*]] = tensor.expand_shape %y {{.*}} into tensor<4x5x4x4xf32>
// CHECK:       linalg.generic {{.*}}((d2 * 2) + d5), ((d3 * 2) + d6){{.*}} ins(%[[W]], %[[PAD]] : tensor<5x3x3x3xf32>, tensor<4x3x9x9xf32>) outs(%[[Y]] : tensor<4x5x4x4xf32>)
// KERNEL-LABEL: func.func @strided
// KERNEL:       kernel.region configs {host = "wgrad"}
func.func @strided(%x: tensor<4x3x7x7xf32>, %w: tensor<5x27xf32>, %y: tensor<4x5x16xf32>) -> tensor<4x5x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %n = %c0 to %c4 step %c1 iter_args(%acc = %y) -> (tensor<4x5x16xf32>) {
    %xs = tensor.extract_slice %x[%n, 0, 0, 0] [1, 3, 7, 7] [1, 1, 1, 1] : tensor<4x3x7x7xf32> to tensor<3x7x7xf32>
    %xp = tensor.pad %xs low[0, 1, 1] high[0, 1, 1] {
    ^bb0(%a: index, %b: index, %c: index):
      tensor.yield %zero : f32
    } : tensor<3x7x7xf32> to tensor<3x9x9xf32>
    %e = tensor.empty() : tensor<3x3x3x4x4xf32>
    %cols = linalg.generic {indexing_maps = [affine_map<(c, r, s, p, q) -> (c, p * 2 + r, q * 2 + s)>, affine_map<(c, r, s, p, q) -> (c, r, s, p, q)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%xp : tensor<3x9x9xf32>) outs(%e : tensor<3x3x3x4x4xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<3x3x3x4x4xf32>
    %xcol = tensor.collapse_shape %cols [[0, 1, 2], [3, 4]] : tensor<3x3x3x4x4xf32> into tensor<27x16xf32>
    %ys = tensor.extract_slice %acc[%n, 0, 0] [1, 5, 16] [1, 1, 1] : tensor<4x5x16xf32> to tensor<5x16xf32>
    %p = linalg.matmul ins(%w, %xcol : tensor<5x27xf32>, tensor<27x16xf32>) outs(%ys : tensor<5x16xf32>) -> tensor<5x16xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 5, 16] [1, 1, 1] : tensor<5x16xf32> into tensor<4x5x16xf32>
    scf.yield %s : tensor<4x5x16xf32>
  }
  return %r : tensor<4x5x16xf32>
}

// In chunks, each reads its part of the images in place, and the zeros around it.
// PARTS-LABEL: func.func @parts
// PARTS:       kernel.region configs {host = "wgrad"}
// PARTS:       tensor.extract_slice %x[2, 0, 0, 0] [2, 3, 7, 7] [1, 1, 1, 1]
// PARTS-NEXT:  tensor.pad
// PARTS:       return
func.func @parts(%x: tensor<4x3x7x7xf32>, %w: tensor<5x27xf32>) -> tensor<4x5x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<5x16xf32>
  %y = tensor.empty() : tensor<4x5x16xf32>
  %r = scf.for %n = %c0 to %c4 step %c1 iter_args(%acc = %y) -> (tensor<4x5x16xf32>) {
    %xs = tensor.extract_slice %x[%n, 0, 0, 0] [1, 3, 7, 7] [1, 1, 1, 1] : tensor<4x3x7x7xf32> to tensor<3x7x7xf32>
    %xp = tensor.pad %xs low[0, 1, 1] high[0, 1, 1] {
    ^bb0(%a: index, %b: index, %c: index):
      tensor.yield %zero : f32
    } : tensor<3x7x7xf32> to tensor<3x9x9xf32>
    %e = tensor.empty() : tensor<3x3x3x4x4xf32>
    %cols = linalg.generic {indexing_maps = [affine_map<(c, r, s, p, q) -> (c, p * 2 + r, q * 2 + s)>, affine_map<(c, r, s, p, q) -> (c, r, s, p, q)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%xp : tensor<3x9x9xf32>) outs(%e : tensor<3x3x3x4x4xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<3x3x3x4x4xf32>
    %xcol = tensor.collapse_shape %cols [[0, 1, 2], [3, 4]] : tensor<3x3x3x4x4xf32> into tensor<27x16xf32>
    %p = linalg.matmul ins(%w, %xcol : tensor<5x27xf32>, tensor<27x16xf32>) outs(%zeros : tensor<5x16xf32>) -> tensor<5x16xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 5, 16] [1, 1, 1] : tensor<5x16xf32> into tensor<4x5x16xf32>
    scf.yield %s : tensor<4x5x16xf32>
  }
  return %r : tensor<4x5x16xf32>
}

// im2col of every other pixel writes fewer elements than the image has: it stays.
// REMARK-DAG: scf.for rewritten: 4 samples at once: 768 bytes of workspace are within 524 kB
// CHECK-LABEL: func.func @one_tap
// CHECK:       linalg.generic {{.*}}ins(%x : tensor<4x3x8x8xf32>) outs(%{{.*}} : tensor<4x3x4x4xf32>)
// CHECK:       tensor.collapse_shape
// CHECK:       linalg.generic {{.*}}ins(%w, %{{.*}} : tensor<5x3xf32>, tensor<4x3x16xf32>)
func.func @one_tap(%x: tensor<4x3x8x8xf32>, %w: tensor<5x3xf32>, %y: tensor<4x5x16xf32>) -> tensor<4x5x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zeros = arith.constant dense<0.0> : tensor<5x16xf32>
  %r = scf.for %n = %c0 to %c4 step %c1 iter_args(%acc = %y) -> (tensor<4x5x16xf32>) {
    %xs = tensor.extract_slice %x[%n, 0, 0, 0] [1, 3, 8, 8] [1, 1, 1, 1] : tensor<4x3x8x8xf32> to tensor<3x8x8xf32>
    %e = tensor.empty() : tensor<3x4x4xf32>
    %cols = linalg.generic {indexing_maps = [affine_map<(c, p, q) -> (c, p * 2, q * 2)>, affine_map<(c, p, q) -> (c, p, q)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%xs : tensor<3x8x8xf32>) outs(%e : tensor<3x4x4xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<3x4x4xf32>
    %xcol = tensor.collapse_shape %cols [[0], [1, 2]] : tensor<3x4x4xf32> into tensor<3x16xf32>
    %p = linalg.matmul ins(%w, %xcol : tensor<5x3xf32>, tensor<3x16xf32>) outs(%zeros : tensor<5x16xf32>) -> tensor<5x16xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 5, 16] [1, 1, 1] : tensor<5x16xf32> into tensor<4x5x16xf32>
    scf.yield %s : tensor<4x5x16xf32>
  }
  return %r : tensor<4x5x16xf32>
}

// Few rows of the shared matrix read samples where they lie: nothing is packed.
// REMARK-DAG: scf.for rewritten: 4 samples at once, which need no workspace
func.func @products(%x: tensor<4x24x32xf32>, %w: tensor<5x24xf32>) -> tensor<4x5x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zeros = arith.constant dense<0.0> : tensor<5x32xf32>
  %y = tensor.empty() : tensor<4x5x32xf32>
  %r = scf.for %n = %c0 to %c4 step %c1 iter_args(%acc = %y) -> (tensor<4x5x32xf32>) {
    %xs = tensor.extract_slice %x[%n, 0, 0] [1, 24, 32] [1, 1, 1] : tensor<4x24x32xf32> to tensor<24x32xf32>
    %p = linalg.matmul ins(%w, %xs : tensor<5x24xf32>, tensor<24x32xf32>) outs(%zeros : tensor<5x32xf32>) -> tensor<5x32xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 5, 32] [1, 1, 1] : tensor<5x32xf32> into tensor<4x5x32xf32>
    scf.yield %s : tensor<4x5x32xf32>
  }
  return %r : tensor<4x5x32xf32>
}
