// RUN: convir-opt %s --split-input-file -p batch-gemms --remarks --check-each 2>&1 >/dev/null | filecheck %s

// Not rewritten because the second sample adds something else: what is used twice by one sample
// is compared for each use.
// CHECK: tensor.insert_slice not rewritten: the samples are computed differently
func.func @another_operand(%x: tensor<2x4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
  %p0 = linalg.matmul ins(%w, %x0 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %s0 = arith.addf %p0, %p0 : tensor<4x4xf32>
  %r0 = tensor.insert_slice %s0 into %y[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
  %p1 = linalg.matmul ins(%w, %x1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %s1 = arith.addf %p1, %x1 : tensor<4x4xf32>
  %r1 = tensor.insert_slice %s1 into %r0[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  return %r1 : tensor<2x4x4xf32>
}

// -----

// Not rewritten because the second sample adds the first one's product, which is not stored.
// CHECK: tensor.insert_slice not rewritten: a sample reads the computation of another sample
func.func @product_of_another(%x: tensor<2x4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
  %p0 = linalg.matmul ins(%w, %x0 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %s0 = arith.addf %p0, %p0 : tensor<4x4xf32>
  %r0 = tensor.insert_slice %s0 into %y[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
  %p1 = linalg.matmul ins(%w, %x1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %s1 = arith.addf %p1, %p0 : tensor<4x4xf32>
  %r1 = tensor.insert_slice %s1 into %r0[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  return %r1 : tensor<2x4x4xf32>
}

// -----

// Not rewritten because the second sample takes every other column.
// CHECK: tensor.insert_slice not rewritten: the samples are computed differently
func.func @another_stride(%x: tensor<2x4x8xf32>, %w: tensor<4x4xf32>, %y: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x8xf32> to tensor<4x4xf32>
  %p0 = linalg.matmul ins(%w, %x0 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r0 = tensor.insert_slice %p0 into %y[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0] [1, 4, 4] [1, 1, 2] : tensor<2x4x8xf32> to tensor<4x4xf32>
  %p1 = linalg.matmul ins(%w, %x1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r1 = tensor.insert_slice %p1 into %r0[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  return %r1 : tensor<2x4x4xf32>
}

// -----

// Not rewritten because a body inside of a sample reads the sample's number.
// CHECK: scf.for not rewritten: linalg.generic uses the loop index as a number
func.func @number_in_a_body(%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<3x4x4xf32>) -> tensor<3x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%acc = %y) -> (tensor<3x4x4xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<3x4x4xf32> to tensor<4x4xf32>
    %e = tensor.empty() : tensor<4x4xf32>
    %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%xn : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
    ^bb0(%v: f32, %o: f32):
      %k = arith.index_cast %n : index to i32
      %f = arith.sitofp %k : i32 to f32
      %s = arith.addf %v, %f : f32
      linalg.yield %s : f32
    } -> tensor<4x4xf32>
    %p = linalg.matmul ins(%w, %g : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
    scf.yield %s : tensor<3x4x4xf32>
  }
  return %r : tensor<3x4x4xf32>
}

// -----

// Not rewritten because a body inside of a sample reads what the one before it stored.
// CHECK: scf.for not rewritten: linalg.generic reads what other samples wrote: samples depend on each other
func.func @result_in_a_body(%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<3x4x4xf32>) -> tensor<3x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%acc = %y) -> (tensor<3x4x4xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<3x4x4xf32> to tensor<4x4xf32>
    %e = tensor.empty() : tensor<4x4xf32>
    %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%xn : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
    ^bb0(%v: f32, %o: f32):
      %f = tensor.extract %acc[%c0, %c0, %c0] : tensor<3x4x4xf32>
      %s = arith.addf %v, %f : f32
      linalg.yield %s : f32
    } -> tensor<4x4xf32>
    %p = linalg.matmul ins(%w, %g : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
    scf.yield %s : tensor<3x4x4xf32>
  }
  return %r : tensor<3x4x4xf32>
}

// -----

// Not rewritten because each sample changes memory.
// CHECK: scf.for not rewritten: memref.store may have effects
func.func @effect(%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<3x4x4xf32>, %m: memref<1xf32>, %v: f32) -> tensor<3x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%acc = %y) -> (tensor<3x4x4xf32>) {
    memref.store %v, %m[%c0] : memref<1xf32>
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<3x4x4xf32> to tensor<4x4xf32>
    %p = linalg.matmul ins(%w, %xn : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
    scf.yield %s : tensor<3x4x4xf32>
  }
  return %r : tensor<3x4x4xf32>
}

// -----

// A pad's value may be computed inside of it, and the stride of a dimension of size 1, which is
// merged with another, says nothing.
// CHECK: scf.for rewritten: 2 samples at once
// CHECK: agrees
func.func @rewritten(%x: tensor<3x4x1x3xf32>, %w: tensor<4x4xf32>, %y: tensor<3x4x4xf32>) -> tensor<3x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %r = scf.for %n = %c0 to %c2 step %c1 iter_args(%acc = %y) -> (tensor<3x4x4xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0, 0] [1, 4, 1, 3] [1, 1, 2, 1] : tensor<3x4x1x3xf32> to tensor<4x1x3xf32>
    %flat = tensor.collapse_shape %xn [[0], [1, 2]] : tensor<4x1x3xf32> into tensor<4x3xf32>
    %pad = tensor.pad %flat low[0, 0] high[0, 1] {
    ^bb0(%i: index, %j: index):
      %one = arith.constant 1.0 : f32
      %v = arith.negf %one : f32
      tensor.yield %v : f32
    } : tensor<4x3xf32> to tensor<4x4xf32>
    %p = linalg.matmul ins(%w, %pad : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
    scf.yield %s : tensor<3x4x4xf32>
  }
  return %r : tensor<3x4x4xf32>
}

// -----

// Not rewritten because a body reads a whole tensor of its sample, be it one that it walks as well.
// CHECK: scf.for not rewritten: the body of linalg.generic captures a sample's tensor
func.func @operand_in_a_body(%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<3x4x4xf32>) -> tensor<3x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%acc = %y) -> (tensor<3x4x4xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<3x4x4xf32> to tensor<4x4xf32>
    %p = linalg.matmul ins(%w, %xn : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
    %e = tensor.empty() : tensor<4x4xf32>
    %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
    ^bb0(%v: f32, %o: f32):
      %f = tensor.extract %p[%c0, %c0] : tensor<4x4xf32>
      %s = arith.subf %v, %f : f32
      linalg.yield %s : f32
    } -> tensor<4x4xf32>
    %s = tensor.insert_slice %g into %acc[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
    scf.yield %s : tensor<3x4x4xf32>
  }
  return %r : tensor<3x4x4xf32>
}

// -----

// Named ops that only rearrange become generics of all samples.
// CHECK: scf.for rewritten: 3 samples at once
// CHECK: agrees
func.func @transposed(%x: tensor<3x4x5xf32>, %w: tensor<4x4xf32>, %y: tensor<3x5x4xf32>) -> tensor<3x5x4xf32> {
  %z = arith.constant dense<0.0> : tensor<5x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%acc = %y) -> (tensor<3x5x4xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 4, 5] [1, 1, 1] : tensor<3x4x5xf32> to tensor<4x5xf32>
    %e = tensor.empty() : tensor<5x4xf32>
    %t = linalg.transpose ins(%xn : tensor<4x5xf32>) outs(%e : tensor<5x4xf32>) permutation = [1, 0]
    %p = linalg.matmul ins(%t, %w : tensor<5x4xf32>, tensor<4x4xf32>) outs(%z : tensor<5x4xf32>) -> tensor<5x4xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 5, 4] [1, 1, 1] : tensor<5x4xf32> into tensor<3x5x4xf32>
    scf.yield %s : tensor<3x5x4xf32>
  }
  return %r : tensor<3x5x4xf32>
}

// -----

// A slice that cuts what is merged is cut before it is reshaped.
// CHECK: scf.for rewritten: 2 samples at once
// CHECK: agrees
func.func @cut_within_a_group(%x: tensor<2x3x5x4xf32>, %w: tensor<4x6xf32>, %y: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %r = scf.for %n = %c0 to %c2 step %c1 iter_args(%acc = %y) -> (tensor<2x4x4xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 1, 0] [1, 3, 2, 4] [1, 1, 1, 1] : tensor<2x3x5x4xf32> to tensor<3x2x4xf32>
    %flat = tensor.collapse_shape %xn [[0, 1], [2]] : tensor<3x2x4xf32> into tensor<6x4xf32>
    %p = linalg.matmul ins(%w, %flat : tensor<4x6xf32>, tensor<6x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
    scf.yield %s : tensor<2x4x4xf32>
  }
  return %r : tensor<2x4x4xf32>
}

// -----

// Not rewritten because the samples are read from the last to the first.
// CHECK: tensor.insert_slice not rewritten: the samples are computed differently
func.func @read_backwards(%x: tensor<2x4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %x0 = tensor.extract_slice %x[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
  %p0 = linalg.matmul ins(%w, %x0 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r0 = tensor.insert_slice %p0 into %y[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  %x1 = tensor.extract_slice %x[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
  %p1 = linalg.matmul ins(%w, %x1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r1 = tensor.insert_slice %p1 into %r0[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  return %r1 : tensor<2x4x4xf32>
}

// -----

// Not rewritten because the samples are stored from the last to the first.
// CHECK: tensor.insert_slice not rewritten: the insertions are not evenly spaced
func.func @stored_backwards(%x: tensor<2x4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
  %p0 = linalg.matmul ins(%w, %x0 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r0 = tensor.insert_slice %p0 into %y[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<2x4x4xf32> to tensor<4x4xf32>
  %p1 = linalg.matmul ins(%w, %x1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r1 = tensor.insert_slice %p1 into %r0[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<2x4x4xf32>
  return %r1 : tensor<2x4x4xf32>
}

// -----

// Two insertions go on from two samples: those two are one chain, and what follows stays.
// CHECK: tensor.insert_slice rewritten: 2 samples at once
// CHECK-NOT: tensor.insert_slice
// CHECK: agrees: largest error 0
func.func @branches(%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3x4x4xf32>) {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<3x4x4xf32> to tensor<4x4xf32>
  %p0 = linalg.matmul ins(%w, %x0 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r0 = tensor.insert_slice %p0 into %y[0, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<3x4x4xf32> to tensor<4x4xf32>
  %p1 = linalg.matmul ins(%w, %x1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r1 = tensor.insert_slice %p1 into %r0[1, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
  %x2 = tensor.extract_slice %x[2, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<3x4x4xf32> to tensor<4x4xf32>
  %p2 = linalg.matmul ins(%w, %x2 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r2 = tensor.insert_slice %p2 into %r1[2, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
  %r3 = tensor.insert_slice %w into %r1[2, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
  return %r2, %r3 : tensor<3x4x4xf32>, tensor<3x4x4xf32>
}

// -----

// Not rewritten because a sample cuts its slice out of what it computes itself.
// CHECK: scf.for not rewritten: a sample slices its own computation by the loop index
func.func @slice_of_its_own(%x: tensor<3x3x4xf32>, %w: tensor<4x3xf32>, %y: tensor<3x4x4xf32>) -> tensor<3x4x4xf32> {
  %z = arith.constant dense<0.0> : tensor<4x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%acc = %y) -> (tensor<3x4x4xf32>) {
    %xn = tensor.extract_slice %x[%n, 0, 0] [1, 3, 4] [1, 1, 1] : tensor<3x3x4xf32> to tensor<3x4xf32>
    %d = arith.addf %xn, %xn : tensor<3x4xf32>
    %row = tensor.extract_slice %d[%n, 0] [1, 4] [1, 1] : tensor<3x4xf32> to tensor<4xf32>
    %e = tensor.empty() : tensor<3x4xf32>
    %rows = linalg.broadcast ins(%row : tensor<4xf32>) outs(%e : tensor<3x4xf32>) dimensions = [0]
    %p = linalg.matmul ins(%w, %rows : tensor<4x3xf32>, tensor<3x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<4x4xf32> into tensor<3x4x4xf32>
    scf.yield %s : tensor<3x4x4xf32>
  }
  return %r : tensor<3x4x4xf32>
}
