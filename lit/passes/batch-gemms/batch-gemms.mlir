// RUN: convir-opt %s -p 'batch-gemms{costs="%h200-costs"}' | filecheck %s
// RUN: convir-opt %s -p 'batch-gemms{costs="%h200-costs"}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: convir-opt %s -p batch-gemms --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=HOST
// RUN: convir-opt %s -p batch-gemms,canonicalize | filecheck %s --check-prefix=IMAGE
// RUN: convir-opt %s -p 'batch-gemms{workspace-bytes=30000}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=PARTS
// RUN: convir-opt %s -p 'batch-gemms{workspace-bytes=60000 costs="%h200-costs"}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=TURNS
// RUN: convir-opt %s -p 'batch-gemms{costs="%h200-costs"},canonicalize,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda without=template},outline-kernels,convert-to-rt{device=cuda}' | filecheck %s --check-prefix=RT
// RUN: convir-opt %s -p 'batch-gemms{workspace-bytes=200000 costs="%h200-costs"}' --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=CHUNKS

// im2col and a product for each sample, added to a bias: one product of all samples, whose filter
// has no batch dimension.
// REMARK-DAG: remark: [batch-gemms] scf.for rewritten: 8 samples at once: 295 kB of workspace are within 26.2 MB
// The host's kernels read the image where im2col would have: its indices are the contraction's.
// HOST-DAG: remark: [batch-gemms] scf.for rewritten: 8 samples at once; images are read in place, 295 kB of im2col are not written
// PARTS: scf.for rewritten: 8 samples in 2 chunks of up to 4: 25.6 kB of workspace, as 51.2 kB exceed 30 kB; images are read in place, 295 kB of im2col are not written
// IMAGE-LABEL: func.func @loop
// IMAGE-NOT:   scf.for
// IMAGE-DAG:   %[[W:.*]] = tensor.expand_shape %w {{.*}} : tensor<16x144xf32> into tensor<16x16x3x3xf32>
// IMAGE:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, (d2 + d5), (d3 + d6))>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>]{{.*}} ins(%[[W]], %x : tensor<16x16x3x3xf32>, tensor<8x16x10x10xf32>) outs(%{{.*}} : tensor<8x16x8x8xf32>)
// IMAGE:       tensor.collapse_shape {{.*}} : tensor<8x16x8x8xf32> into tensor<8x16x64xf32>
// CHECK-LABEL: func.func @loop
// CHECK-NOT:   scf.for
// CHECK:       linalg.generic {{.*}}ins(%x : tensor<8x16x10x10xf32>) outs(%{{.*}} : tensor<8x16x3x3x8x8xf32>)
// CHECK:       tensor.collapse_shape %{{.*}} : tensor<8x16x3x3x8x8xf32> into tensor<8x144x64xf32>
// CHECK:       linalg.generic {{.*}}ins(%w, %{{.*}} : tensor<16x144xf32>, tensor<8x144x64xf32>) outs(%{{.*}} : tensor<8x16x64xf32>)
// RT-LABEL:    func.func @loop
// RT:          rt.gemm {m = 16 : i64, n = 64 : i64, k = 144 : i64, batch = 8 : i64, lda = 144 : i64, ldb = 64 : i64, ldc = 64 : i64, stride_a = 0 : i64, stride_b = 9216 : i64, stride_c = 1024 : i64, accumulate}
// TURNS:       scf.for rewritten: 8 samples in turns: 36.9 kB of workspace, as two exceed 60 kB
// CHUNKS:      scf.for rewritten: 8 samples in 2 chunks of up to 4: 147 kB of workspace, as 295 kB exceed 200 kB
func.func @loop(%x: tensor<8x16x10x10xf32>, %w: tensor<16x144xf32>, %bias: tensor<16xf32>) -> tensor<8x16x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %init = tensor.empty() : tensor<8x16x64xf32>
  %y = scf.for %n = %c0 to %c8 step %c1 iter_args(%acc = %init) -> (tensor<8x16x64xf32>) {
    %xs = tensor.extract_slice %x[%n, 0, 0, 0] [1, 16, 10, 10] [1, 1, 1, 1] : tensor<8x16x10x10xf32> to tensor<16x10x10xf32>
    %e0 = tensor.empty() : tensor<16x3x3x8x8xf32>
    %cols = linalg.generic {indexing_maps = [affine_map<(c, r, s, p, q) -> (c, p + r, q + s)>, affine_map<(c, r, s, p, q) -> (c, r, s, p, q)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%xs : tensor<16x10x10xf32>) outs(%e0 : tensor<16x3x3x8x8xf32>) {
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
    } -> tensor<16x3x3x8x8xf32>
    %xcol = tensor.collapse_shape %cols [[0, 1, 2], [3, 4]] : tensor<16x3x3x8x8xf32> into tensor<144x64xf32>
    %e1 = tensor.empty() : tensor<16x64xf32>
    %b = linalg.broadcast ins(%bias : tensor<16xf32>) outs(%e1 : tensor<16x64xf32>) dimensions = [1]
    %p = linalg.matmul ins(%w, %xcol : tensor<16x144xf32>, tensor<144x64xf32>) outs(%b : tensor<16x64xf32>) -> tensor<16x64xf32>
    %r = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 16, 64] [1, 1, 1] : tensor<16x64xf32> into tensor<8x16x64xf32>
    scf.yield %r : tensor<8x16x64xf32>
  }
  return %y : tensor<8x16x64xf32>
}

// Unrolled, with beta = 1: each sample adds to its own slice of what is there.
// REMARK-DAG: remark: [batch-gemms] tensor.insert_slice rewritten: 2 samples at once, which need no workspace
// CHECK-LABEL: func.func @unrolled
// CHECK-NEXT:    linalg.generic {{.*}}ins(%w, %x : tensor<16x32xf32>, tensor<2x32x40xf32>) outs(%y : tensor<2x16x40xf32>)
// CHECK:         return
// RT-LABEL:    func.func @unrolled
// RT:          rt.gemm {m = 16 : i64, n = 40 : i64, k = 32 : i64, batch = 2 : i64, lda = 32 : i64, ldb = 40 : i64, ldc = 40 : i64, stride_a = 0 : i64, stride_b = 1280 : i64, stride_c = 640 : i64, accumulate}
func.func @unrolled(%x: tensor<2x32x40xf32>, %w: tensor<16x32xf32>, %y: tensor<2x16x40xf32>) -> tensor<2x16x40xf32> {
  %x0 = tensor.extract_slice %x[0, 0, 0] [1, 32, 40] [1, 1, 1] : tensor<2x32x40xf32> to tensor<32x40xf32>
  %y0 = tensor.extract_slice %y[0, 0, 0] [1, 16, 40] [1, 1, 1] : tensor<2x16x40xf32> to tensor<16x40xf32>
  %p0 = linalg.matmul ins(%w, %x0 : tensor<16x32xf32>, tensor<32x40xf32>) outs(%y0 : tensor<16x40xf32>) -> tensor<16x40xf32>
  %r0 = tensor.insert_slice %p0 into %y[0, 0, 0] [1, 16, 40] [1, 1, 1] : tensor<16x40xf32> into tensor<2x16x40xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0] [1, 32, 40] [1, 1, 1] : tensor<2x32x40xf32> to tensor<32x40xf32>
  %y1 = tensor.extract_slice %r0[1, 0, 0] [1, 16, 40] [1, 1, 1] : tensor<2x16x40xf32> to tensor<16x40xf32>
  %p1 = linalg.matmul ins(%w, %x1 : tensor<16x32xf32>, tensor<32x40xf32>) outs(%y1 : tensor<16x40xf32>) -> tensor<16x40xf32>
  %r1 = tensor.insert_slice %p1 into %r0[1, 0, 0] [1, 16, 40] [1, 1, 1] : tensor<16x40xf32> into tensor<2x16x40xf32>
  return %r1 : tensor<2x16x40xf32>
}

// On the host each launch packs the filter. Where that is more than the samples' workspace, one
// launch is better than two that stay in the cache; a budget that is given is kept nevertheless.
// HOST-DAG: remark: [batch-gemms] tensor.insert_slice rewritten: 2 samples at once: 655 kB of workspace exceed 524 kB, but 2 chunks pack 4.19 MB of what they share again
// PARTS: tensor.insert_slice rewritten: 2 samples in turns: 328 kB of workspace, as two exceed 30 kB
// CHECK-LABEL: func.func @large_filter
// CHECK:       linalg.generic {{.*}}ins(%w, %x : tensor<512x2048xf32>, tensor<2x2048x40xf32>)
func.func @large_filter(%x: tensor<2x2048x40xf32>, %w: tensor<512x2048xf32>) -> tensor<2x512x40xf32> {
  %zero = arith.constant dense<0.0> : tensor<512x40xf32>
  %y = tensor.empty() : tensor<2x512x40xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0] [1, 2048, 40] [1, 1, 1] : tensor<2x2048x40xf32> to tensor<2048x40xf32>
  %p0 = linalg.matmul ins(%w, %x0 : tensor<512x2048xf32>, tensor<2048x40xf32>) outs(%zero : tensor<512x40xf32>) -> tensor<512x40xf32>
  %r0 = tensor.insert_slice %p0 into %y[0, 0, 0] [1, 512, 40] [1, 1, 1] : tensor<512x40xf32> into tensor<2x512x40xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0] [1, 2048, 40] [1, 1, 1] : tensor<2x2048x40xf32> to tensor<2048x40xf32>
  %p1 = linalg.matmul ins(%w, %x1 : tensor<512x2048xf32>, tensor<2048x40xf32>) outs(%zero : tensor<512x40xf32>) -> tensor<512x40xf32>
  %r1 = tensor.insert_slice %p1 into %r0[1, 0, 0] [1, 512, 40] [1, 1, 1] : tensor<512x40xf32> into tensor<2x512x40xf32>
  return %r1 : tensor<2x512x40xf32>
}

// A loop over the groups inside of the one over samples: both become dimensions of one product.
// REMARK-DAG: remark: [batch-gemms] scf.for rewritten: 3 samples at once, which need no workspace
// REMARK-DAG: remark: [batch-gemms] scf.for rewritten: 2 samples at once, which need no workspace
// CHECK-LABEL: func.func @grouped
// CHECK-NOT:   scf.for
// CHECK:       linalg.generic {{.*}}ins(%w, %x : tensor<3x4x6xf32>, tensor<2x3x6x5xf32>) outs(%{{.*}} : tensor<2x3x4x5xf32>)
func.func @grouped(%x: tensor<2x3x6x5xf32>, %w: tensor<3x4x6xf32>) -> tensor<2x3x4x5xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant dense<0.0> : tensor<4x5xf32>
  %init = tensor.empty() : tensor<2x3x4x5xf32>
  %inner_init = tensor.empty() : tensor<3x4x5xf32>
  %y = scf.for %n = %c0 to %c2 step %c1 iter_args(%acc = %init) -> (tensor<2x3x4x5xf32>) {
    %xs = tensor.extract_slice %x[%n, 0, 0, 0] [1, 3, 6, 5] [1, 1, 1, 1] : tensor<2x3x6x5xf32> to tensor<3x6x5xf32>
    %ys = scf.for %g = %c0 to %c3 step %c1 iter_args(%group = %inner_init) -> (tensor<3x4x5xf32>) {
      %xg = tensor.extract_slice %xs[%g, 0, 0] [1, 6, 5] [1, 1, 1] : tensor<3x6x5xf32> to tensor<6x5xf32>
      %wg = tensor.extract_slice %w[%g, 0, 0] [1, 4, 6] [1, 1, 1] : tensor<3x4x6xf32> to tensor<4x6xf32>
      %p = linalg.matmul ins(%wg, %xg : tensor<4x6xf32>, tensor<6x5xf32>) outs(%zero : tensor<4x5xf32>) -> tensor<4x5xf32>
      %r = tensor.insert_slice %p into %group[%g, 0, 0] [1, 4, 5] [1, 1, 1] : tensor<4x5xf32> into tensor<3x4x5xf32>
      scf.yield %r : tensor<3x4x5xf32>
    }
    %r = tensor.insert_slice %ys into %acc[%n, 0, 0, 0] [1, 3, 4, 5] [1, 1, 1, 1] : tensor<3x4x5xf32> into tensor<2x3x4x5xf32>
    scf.yield %r : tensor<2x3x4x5xf32>
  }
  return %y : tensor<2x3x4x5xf32>
}

// Not rewritten because a sample reads what another one wrote.
// REMARK-DAG: remark: [batch-gemms] scf.for not rewritten: a sample reads what another one wrote: they depend on each other
// CHECK-LABEL: func.func @dependent
// CHECK: scf.for
func.func @dependent(%x: tensor<4x5x5xf32>, %init: tensor<4x5x5xf32>) -> tensor<4x5x5xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant dense<0.0> : tensor<5x5xf32>
  %y = scf.for %n = %c0 to %c4 step %c1 iter_args(%acc = %init) -> (tensor<4x5x5xf32>) {
    %xs = tensor.extract_slice %x[%n, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<4x5x5xf32> to tensor<5x5xf32>
    %first = tensor.extract_slice %acc[0, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<4x5x5xf32> to tensor<5x5xf32>
    %p = linalg.matmul ins(%first, %xs : tensor<5x5xf32>, tensor<5x5xf32>) outs(%zero : tensor<5x5xf32>) -> tensor<5x5xf32>
    %r = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<5x5xf32> into tensor<4x5x5xf32>
    scf.yield %r : tensor<4x5x5xf32>
  }
  return %y : tensor<4x5x5xf32>
}

// Not rewritten because the second of two samples multiplies what the first one stored.
// REMARK-DAG: remark: [batch-gemms] tensor.insert_slice not rewritten: a sample reads what another one wrote: they depend on each other
// CHECK-LABEL: func.func @dependent_unrolled
// CHECK-COUNT-2: linalg.matmul
func.func @dependent_unrolled(%x: tensor<2x5x5xf32>, %init: tensor<2x5x5xf32>) -> tensor<2x5x5xf32> {
  %zero = arith.constant dense<0.0> : tensor<5x5xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<2x5x5xf32> to tensor<5x5xf32>
  %f0 = tensor.extract_slice %init[0, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<2x5x5xf32> to tensor<5x5xf32>
  %p0 = linalg.matmul ins(%f0, %x0 : tensor<5x5xf32>, tensor<5x5xf32>) outs(%zero : tensor<5x5xf32>) -> tensor<5x5xf32>
  %r0 = tensor.insert_slice %p0 into %init[0, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<5x5xf32> into tensor<2x5x5xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<2x5x5xf32> to tensor<5x5xf32>
  %f1 = tensor.extract_slice %r0[0, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<2x5x5xf32> to tensor<5x5xf32>
  %p1 = linalg.matmul ins(%f1, %x1 : tensor<5x5xf32>, tensor<5x5xf32>) outs(%zero : tensor<5x5xf32>) -> tensor<5x5xf32>
  %r1 = tensor.insert_slice %p1 into %r0[1, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<5x5xf32> into tensor<2x5x5xf32>
  return %r1 : tensor<2x5x5xf32>
}

// Not rewritten because no sample follows another.
// REMARK-DAG: remark: [batch-gemms] scf.for not rewritten: its step is 0, which is not positive
// CHECK-LABEL: func.func @no_step
// CHECK: scf.for
func.func @no_step(%x: tensor<4x5x5xf32>, %w: tensor<5x5xf32>, %init: tensor<4x5x5xf32>) -> tensor<4x5x5xf32> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant dense<0.0> : tensor<5x5xf32>
  %y = scf.for %n = %c0 to %c4 step %c0 iter_args(%acc = %init) -> (tensor<4x5x5xf32>) {
    %xs = tensor.extract_slice %x[%n, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<4x5x5xf32> to tensor<5x5xf32>
    %p = linalg.matmul ins(%w, %xs : tensor<5x5xf32>, tensor<5x5xf32>) outs(%zero : tensor<5x5xf32>) -> tensor<5x5xf32>
    %r = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 5, 5] [1, 1, 1] : tensor<5x5xf32> into tensor<4x5x5xf32>
    scf.yield %r : tensor<4x5x5xf32>
  }
  return %y : tensor<4x5x5xf32>
}

// The samples are slices of what each of them computes alike: it is computed once, before.
// REMARK-DAG: remark: [batch-gemms] scf.for rewritten: 3 samples at once
// CHECK-LABEL: func.func @slices_of_a_cast
// CHECK-NOT: scf.for
// CHECK: %[[D:.*]] = tensor.cast %x : tensor<3x4x4xf32> to tensor<?x4x4xf32>
// CHECK-NEXT: tensor.extract_slice %[[D]][0, 0, 0] [3, 4, 4] [1, 1, 1] : tensor<?x4x4xf32> to tensor<3x4x4xf32>
// CHECK: linalg.generic
func.func @slices_of_a_cast(%x: tensor<3x4x4xf32>, %w: tensor<5x4xf32>, %y: tensor<3x5x4xf32>) -> tensor<3x5x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<5x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%acc = %y) -> (tensor<3x5x4xf32>) {
    %d = tensor.cast %x : tensor<3x4x4xf32> to tensor<?x4x4xf32>
    %xn = tensor.extract_slice %d[%n, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<?x4x4xf32> to tensor<4x4xf32>
    %p = linalg.matmul ins(%w, %xn : tensor<5x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<5x4xf32>) -> tensor<5x4xf32>
    %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 5, 4] [1, 1, 1] : tensor<5x4xf32> into tensor<3x5x4xf32>
    scf.yield %s : tensor<3x5x4xf32>
  }
  return %r : tensor<3x5x4xf32>
}
