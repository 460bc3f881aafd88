// RUN: convir-opt %s -p 'convert-to-rt{device=cuda}' --split-input-file | filecheck %s
// Tensors become buffers, kernels become calls.

#a = affine_map<(b, m, n, k) -> (b, m, k)>
#b = affine_map<(b, m, n, k) -> (k, n)>
#c = affine_map<(b, m, n, k) -> (b, m, n)>

// One matrix for all batches: the loops over them are one longer m.
// CHECK-LABEL: func.func @collapsed(%x: memref<3x4x8xf32>, %w: memref<8x6xf32>, %{{.*}}: memref<3x4x6xf32>) attributes {rt.program, rt.outputs = 1 : i64}
// CHECK-NEXT:  rt.gemm {m = 12 : i64, n = 6 : i64, k = 8 : i64, batch = 1 : i64,
// CHECK-NEXT:  func.return
kernel.func @collapsed_0(%x: tensor<3x4x8xf32>, %w: tensor<8x6xf32>) -> tensor<3x4x6xf32> attributes {configs = {cuda = "gemm"}} {
  %zeros = arith.constant dense<0.0> : tensor<3x4x6xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<3x4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<3x4x6xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.addf %o, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<3x4x6xf32>
  kernel.return %0 : tensor<3x4x6xf32>
}
func.func @collapsed(%x: tensor<3x4x8xf32>, %w: tensor<8x6xf32>) -> tensor<3x4x6xf32> {
  %0 = kernel.call @collapsed_0(%x, %w) : (tensor<3x4x8xf32>, tensor<8x6xf32>) -> tensor<3x4x6xf32>
  return %0 : tensor<3x4x6xf32>
}

// -----

// One matrix for all batches, which cannot be joined: a stride of 0.
// CHECK-LABEL: func.func @stride_zero
// CHECK-NEXT:  rt.gemm {m = 6 : i64, n = 4 : i64, k = 8 : i64, batch = 3 : i64, lda = 6 : i64, ldb = 8 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 32 : i64, stride_c = 24 : i64, transpose_a, transpose_b} ins(%w, %x :
kernel.func @k(%x: tensor<3x4x8xf32>, %w: tensor<8x6xf32>) -> tensor<3x6x4xf32> attributes {configs = {cuda = "gemm"}} {
  %zeros = arith.constant dense<0.0> : tensor<3x6x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>, affine_map<(b, m, n, k) -> (b, n, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<3x4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<3x6x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.addf %o, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<3x6x4xf32>
  kernel.return %0 : tensor<3x6x4xf32>
}
func.func @stride_zero(%x: tensor<3x4x8xf32>, %w: tensor<8x6xf32>) -> tensor<3x6x4xf32> {
  %0 = kernel.call @k(%x, %w) : (tensor<3x4x8xf32>, tensor<8x6xf32>) -> tensor<3x6x4xf32>
  return %0 : tensor<3x6x4xf32>
}

// -----

// An init that is not zero is copied to where the product is added to it.
// CHECK-LABEL: func.func @init(
// CHECK-NEXT:  rt.copy %i to %[[OUT:.*]] : memref<4x6xf32> to memref<4x6xf32>
// CHECK-NEXT:  rt.gemm {{{.*}}, accumulate} ins(%x, %w : memref<4x8xf32>, memref<8x6xf32>) outs(%[[OUT]] : memref<4x6xf32>)
kernel.func @k(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %i: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {configs = {cuda = "gemm"}} {
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%i : tensor<4x6xf32>) -> tensor<4x6xf32>
  kernel.return %0 : tensor<4x6xf32>
}
func.func @init(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %i: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = kernel.call @k(%x, %w, %i) : (tensor<4x8xf32>, tensor<8x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// Reshapes are views, of a buffer or of the output that is written through one.
// CHECK-LABEL: func.func @reshapes(
// CHECK-NEXT:  %[[OUT:.*]] = rt.view %{{.*}}[0] : memref<2x2xf32> to memref<4xf32>
// CHECK-NEXT:  %[[IN:.*]] = rt.view %x[0] : memref<2x2xf32> to memref<4xf32>
// CHECK-NEXT:  rt.launch @k ins(%[[IN]] : memref<4xf32>) outs(%[[OUT]] : memref<4xf32>)
// CHECK-NEXT:  func.return
kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %x : tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}
func.func @reshapes(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  %1 = kernel.call @k(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tensor.expand_shape %1 [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

// -----

// A temporary that dies is written over, where each element is read before it is written. A
// reversal reads others: it gets memory of its own. What is the caller's is never written over.
// CHECK-LABEL: func.func @in_place(
// CHECK-NEXT:  %a = memref.alloc() : memref<4xf32>
// CHECK-NEXT:  rt.launch @negate ins(%x : memref<4xf32>) outs(%a : memref<4xf32>)
// CHECK-NEXT:  rt.launch @negate ins(%a : memref<4xf32>) outs(%a : memref<4xf32>)
// CHECK-NEXT:  rt.launch @negate ins(%a : memref<4xf32>) outs(%a : memref<4xf32>)
// CHECK-NEXT:  %d = memref.alloc() : memref<4xf32>
// CHECK-NEXT:  rt.launch @reverse ins(%a : memref<4xf32>) outs(%d : memref<4xf32>)
// CHECK-NEXT:  rt.launch @negate ins(%d : memref<4xf32>) outs(%{{.*}} : memref<4xf32>)
kernel.func @negate(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %x : tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}
kernel.func @reverse(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (-i + 3)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  } -> tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}
func.func @in_place(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = kernel.call @negate(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = kernel.call @negate(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = kernel.call @negate(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = kernel.call @reverse(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %e = kernel.call @negate(%d) : (tensor<4xf32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}

// -----

// Returned: an argument, the same value twice, a constant, and elements that differ.
// CHECK-LABEL: func.func @returned(%x: memref<2xf32>, %0: memref<2xf32>, %1: memref<2xf32>, %2: memref<2xf32>, %3: memref<2xf32>, %4: memref<2xf32>) attributes {rt.program, rt.outputs = 5 : i64}
// CHECK-NEXT:  %[[C:.*]] = rt.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> : memref<2xf32>
// CHECK-NEXT:  rt.launch @k ins(%x : memref<2xf32>) outs(%1 : memref<2xf32>)
// CHECK-NEXT:  rt.copy %x to %0
// CHECK-NEXT:  rt.copy %1 to %2
// CHECK-NEXT:  rt.fill 3.000000e+00 : f32 into %3
// CHECK-NEXT:  rt.copy %[[C]] to %4
kernel.func @k(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.negf %x : tensor<2xf32>
  kernel.return %0 : tensor<2xf32>
}
func.func @returned(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %three = arith.constant 3.0 : f32
  %f = tensor.splat %three : tensor<2xf32>
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = kernel.call @k(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %x, %0, %0, %f, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// Scalars are buffers of one element.
// CHECK-LABEL: func.func @scalars(%s: memref<f32>, %0: memref<f32>, %1: memref<f32>)
// CHECK-NEXT:  rt.launch @k ins(%s : memref<f32>) outs(%1 : memref<f32>)
// CHECK-NEXT:  rt.copy %s to %0 : memref<f32> to memref<f32>
kernel.func @k(%x: tensor<f32>) -> tensor<f32> {
  %0 = arith.negf %x : tensor<f32>
  kernel.return %0 : tensor<f32>
}
func.func @scalars(%s: f32) -> (f32, f32) {
  %0 = tensor.from_elements %s : tensor<f32>
  %1 = kernel.call @k(%0) : (tensor<f32>) -> tensor<f32>
  %2 = tensor.extract %1[] : tensor<f32>
  return %s, %2 : f32, f32
}

// -----

// A function that returns nothing writes nothing.
// CHECK-LABEL: func.func @nothing(%x: memref<4xf32>) attributes {rt.program, rt.outputs = 0 : i64}
// CHECK-NEXT:  func.return
func.func @nothing(%x: tensor<4xf32>) {
  return
}

// -----

// A state is written in place, in the memory of the next call's: a caller that lends one memory for
// both copies nothing.
// CHECK-LABEL: func.func @state(
// CHECK-SAME:    %x: memref<4xf32>, %w: memref<16xf32>, %{{.*}}: memref<4xf32>, %[[NEXT:.*]]: memref<16xf32>)
// CHECK:       rt.copy %w to %[[NEXT]] : memref<16xf32> to memref<16xf32>
// CHECK-NEXT:  rt.launch @into ins(%x, %[[NEXT]] : memref<4xf32>, memref<16xf32>) outs(%[[NEXT]] : memref<16xf32>)
// CHECK-NEXT:  rt.launch @sum ins(%[[NEXT]] : memref<16xf32>) outs(%{{.*}} : memref<4xf32>)
kernel.func @into(%x: tensor<4xf32>, %w: tensor<16xf32>) -> tensor<16xf32> {
  %0 = tensor.insert_slice %x into %w[8] [4] [1] : tensor<4xf32> into tensor<16xf32>
  kernel.return %0 : tensor<16xf32>
}
kernel.func @sum(%w: tensor<16xf32>) -> tensor<4xf32> {
  %0 = tensor.extract_slice %w[8] [4] [1] : tensor<16xf32> to tensor<4xf32>
  %1 = tensor.extract_slice %w[4] [4] [1] : tensor<16xf32> to tensor<4xf32>
  %2 = arith.addf %0, %1 : tensor<4xf32>
  kernel.return %2 : tensor<4xf32>
}
func.func @state(%x: tensor<4xf32>, %w: tensor<16xf32>) -> (tensor<4xf32>, tensor<16xf32>) attributes {convir.states = 1 : i64} {
  %0 = kernel.call @into(%x, %w) : (tensor<4xf32>, tensor<16xf32>) -> tensor<16xf32>
  %1 = kernel.call @sum(%0) : (tensor<16xf32>) -> tensor<4xf32>
  return %1, %0 : tensor<4xf32>, tensor<16xf32>
}

// -----

// Not in place: the kernel reads the state where it may have written it.
// CHECK-LABEL: func.func @read_again(
// CHECK-NEXT:  rt.launch @into ins(%x, %w : memref<4xf32>, memref<16xf32>) outs(%{{.*}} : memref<16xf32>)
kernel.func @into(%x: tensor<4xf32>, %w: tensor<16xf32>) -> tensor<16xf32> {
  %0 = tensor.extract_slice %w[9] [4] [1] : tensor<16xf32> to tensor<4xf32>
  %1 = arith.addf %x, %0 : tensor<4xf32>
  %2 = tensor.insert_slice %1 into %w[8] [4] [1] : tensor<4xf32> into tensor<16xf32>
  kernel.return %2 : tensor<16xf32>
}
func.func @read_again(%x: tensor<4xf32>, %w: tensor<16xf32>) -> tensor<16xf32> attributes {convir.states = 1 : i64} {
  %0 = kernel.call @into(%x, %w) : (tensor<4xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// Not in place: nothing says that the result is the argument of the next call.
// CHECK-LABEL: func.func @no_state(
// CHECK-NEXT:  rt.launch @into ins(%x, %w : memref<4xf32>, memref<16xf32>) outs(%{{.*}} : memref<16xf32>)
kernel.func @into(%x: tensor<4xf32>, %w: tensor<16xf32>) -> tensor<16xf32> {
  %0 = tensor.insert_slice %x into %w[8] [4] [1] : tensor<4xf32> into tensor<16xf32>
  kernel.return %0 : tensor<16xf32>
}
func.func @no_state(%x: tensor<4xf32>, %w: tensor<16xf32>) -> tensor<16xf32> {
  %0 = kernel.call @into(%x, %w) : (tensor<4xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// A slice that is one piece of its source's memory is a view of it, and nobody's launch; its source
// is not written over while the slice is read.
// CHECK-NOT:   kernel.func @half
// CHECK:       func.func @slices
// CHECK:       rt.launch @negate ins(%x : memref<4x16xf32>) outs(%[[ALL:.*]] : memref<4x16xf32>)
// CHECK-NEXT:  %[[HALF:.*]] = rt.view %[[ALL]][128] : memref<4x16xf32> to memref<2x16xf32>
// CHECK-NEXT:  %[[OTHER:.*]] = memref.alloc() : memref<4x16xf32>
// CHECK-NEXT:  rt.launch @negate ins(%[[ALL]] : memref<4x16xf32>) outs(%[[OTHER]] : memref<4x16xf32>)
// CHECK-NEXT:  rt.launch @join ins(%[[HALF]], %[[OTHER]] :
kernel.func @negate(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %0 = arith.negf %x : tensor<4x16xf32>
  kernel.return %0 : tensor<4x16xf32>
}
kernel.func @half(%x: tensor<4x16xf32>) -> tensor<2x16xf32> {
  %0 = tensor.extract_slice %x[2, 0] [2, 16] [1, 1] : tensor<4x16xf32> to tensor<2x16xf32>
  kernel.return %0 : tensor<2x16xf32>
}
kernel.func @join(%x: tensor<2x16xf32>, %y: tensor<4x16xf32>) -> tensor<6x16xf32> {
  %0 = tensor.concat dim(0) %x, %y : (tensor<2x16xf32>, tensor<4x16xf32>) -> tensor<6x16xf32>
  kernel.return %0 : tensor<6x16xf32>
}
func.func @slices(%x: tensor<4x16xf32>) -> tensor<6x16xf32> {
  %0 = kernel.call @negate(%x) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %1 = kernel.call @half(%0) : (tensor<4x16xf32>) -> tensor<2x16xf32>
  %2 = kernel.call @negate(%0) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %3 = kernel.call @join(%1, %2) : (tensor<2x16xf32>, tensor<4x16xf32>) -> tensor<6x16xf32>
  return %3 : tensor<6x16xf32>
}

// -----

// Not views: what is returned, columns, and what does not begin where vectors do.
// CHECK-LABEL: func.func @copies
// CHECK-NEXT:  rt.launch @half
// CHECK-NEXT:  memref.alloc
// CHECK-NEXT:  rt.launch @columns
// CHECK-NEXT:  memref.alloc
// CHECK-NEXT:  rt.launch @row
kernel.func @half(%x: tensor<4x6xf32>) -> tensor<2x6xf32> {
  %0 = tensor.extract_slice %x[0, 0] [2, 6] [1, 1] : tensor<4x6xf32> to tensor<2x6xf32>
  kernel.return %0 : tensor<2x6xf32>
}
kernel.func @columns(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %0 = tensor.extract_slice %x[0, 0] [4, 3] [1, 1] : tensor<4x6xf32> to tensor<4x3xf32>
  kernel.return %0 : tensor<4x3xf32>
}
kernel.func @row(%x: tensor<4x6xf32>) -> tensor<6xf32> {
  %0 = tensor.extract_slice %x[1, 0] [1, 6] [1, 1] : tensor<4x6xf32> to tensor<6xf32>
  kernel.return %0 : tensor<6xf32>
}
kernel.func @join(%x: tensor<4x3xf32>, %y: tensor<6xf32>) -> tensor<18xf32> {
  %c = tensor.collapse_shape %x [[0, 1]] : tensor<4x3xf32> into tensor<12xf32>
  %0 = tensor.concat dim(0) %c, %y : (tensor<12xf32>, tensor<6xf32>) -> tensor<18xf32>
  kernel.return %0 : tensor<18xf32>
}
func.func @copies(%x: tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<18xf32>) {
  %0 = kernel.call @half(%x) : (tensor<4x6xf32>) -> tensor<2x6xf32>
  %1 = kernel.call @columns(%x) : (tensor<4x6xf32>) -> tensor<4x3xf32>
  %2 = kernel.call @row(%x) : (tensor<4x6xf32>) -> tensor<6xf32>
  %3 = kernel.call @join(%1, %2) : (tensor<4x3xf32>, tensor<6xf32>) -> tensor<18xf32>
  return %0, %3 : tensor<2x6xf32>, tensor<18xf32>
}

// -----

// Not a view: a slice of a state, which the call may have written over before the slice is read.
// CHECK-LABEL: func.func @state
// CHECK:       rt.launch @half
kernel.func @half(%x: tensor<4x16xf32>) -> tensor<2x16xf32> {
  %0 = tensor.extract_slice %x[2, 0] [2, 16] [1, 1] : tensor<4x16xf32> to tensor<2x16xf32>
  kernel.return %0 : tensor<2x16xf32>
}
kernel.func @update(%s: tensor<4x16xf32>, %h: tensor<2x16xf32>) -> tensor<4x16xf32> {
  %0 = tensor.insert_slice %h into %s[0, 0] [2, 16] [1, 1] : tensor<2x16xf32> into tensor<4x16xf32>
  kernel.return %0 : tensor<4x16xf32>
}
func.func @state(%s: tensor<4x16xf32>) -> tensor<4x16xf32> attributes {convir.states = 1 : i64} {
  %0 = kernel.call @half(%s) : (tensor<4x16xf32>) -> tensor<2x16xf32>
  %1 = kernel.call @update(%s, %0) : (tensor<4x16xf32>, tensor<2x16xf32>) -> tensor<4x16xf32>
  return %1 : tensor<4x16xf32>
}
