// RUN: convir-opt %s --split-input-file -p 'bind-sizes{sizes="9x6"}' | filecheck %s
// RUN: convir-opt %s --split-input-file -p 'bind-sizes{sizes="9x6"}' --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// Every size becomes a number, and what computed it goes.

// REMARK: func.func rewritten: 3 ops took static types
// CHECK-LABEL: func.func @main(%x: tensor<9x6xf32>) -> tensor<9x6xf32>
// CHECK-NEXT:    %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    %e = tensor.empty() : tensor<9x6xf32>
// CHECK-NEXT:    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<9x6xf32>) -> tensor<9x6xf32>
// CHECK-NEXT:    %y = arith.addf %x, %f : tensor<9x6xf32>
// CHECK-NEXT:    func.return %y
func.func @main(%x: tensor<?x6xf32>) -> tensor<?x6xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x6xf32>
  %e = tensor.empty(%n) : tensor<?x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x6xf32>) -> tensor<?x6xf32>
  %y = arith.addf %x, %f : tensor<?x6xf32>
  return %y : tensor<?x6xf32>
}

// -----

// The output positions of a window of 3 with stride 2 and padding 1 and 2, in affine arithmetic.
// CHECK-LABEL: func.func @main
// CHECK:         %p = tensor.pad %x low[1, 0] high[2, 0]
// CHECK:         : tensor<9x6xf32> to tensor<12x6xf32>
// CHECK:         tensor.empty() : tensor<5x6xf32>
func.func @main(%x: tensor<?x6xf32>) -> tensor<?x6xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %h = tensor.dim %x, %c0 : tensor<?x6xf32>
  %p = tensor.pad %x low[%c1, 0] high[%c2, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<?x6xf32> to tensor<?x6xf32>
  %o = affine.apply affine_map<(d0)[s0, s1] -> ((d0 + s0 + s1 - 3) floordiv 2 + 1)> (%h)[%c1, %c2]
  %e = tensor.empty(%o) : tensor<?x6xf32>
  %w = tensor.empty() : tensor<3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(p, c, r) -> (2 * p + r, c)>, affine_map<(p, c, r) -> (r)>, affine_map<(p, c, r) -> (p, c)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %w : tensor<?x6xf32>, tensor<3xf32>) outs(%e : tensor<?x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x6xf32>
  return %y : tensor<?x6xf32>
}

// -----

// The same in arith, rounding towards zero, with the choice of a size.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    tensor.empty() : tensor<4x9xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<?x6xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c7 = arith.constant 7 : index
  %h = tensor.dim %x, %c0 : tensor<?x6xf32>
  %half = arith.divsi %h, %c2 : index
  %large = arith.cmpi sgt, %h, %c7 : index
  %chosen = arith.select %large, %h, %c7 : index
  %e = tensor.empty(%half, %chosen) : tensor<?x?xf32>
  return %e : tensor<?x?xf32>
}

// -----

// Slices: sizes and strides, a unit dimension that was dropped, and a scatter with holes.
// CHECK-LABEL: func.func @main
// CHECK:         %s = tensor.extract_slice %x[1, 0] [8, 1] [1, 1] : tensor<9x6xf32> to tensor<8xf32>
// CHECK:         %d = tensor.empty() : tensor<17xf32>
// CHECK-NEXT:    %y = tensor.insert_slice %s into %d[0] [8] [2] : tensor<8xf32> into tensor<17xf32>
func.func @main(%x: tensor<?x?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %h = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = arith.subi %h, %c1 : index
  %s = tensor.extract_slice %x[%c1, 0] [%n, 1] [1, %c1] : tensor<?x?xf32> to tensor<?xf32>
  %holes = arith.muli %n, %c2 : index
  %size = arith.addi %holes, %c1 : index
  %d = tensor.empty(%size) : tensor<?xf32>
  %y = tensor.insert_slice %s into %d[0] [%n] [%c2] : tensor<?xf32> into tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// Groups of channels: one size of a split is given, the other follows.
// CHECK-LABEL: func.func @main
// CHECK:         %g = tensor.expand_shape %x {{.*}} output_shape [9, 2, 3] : tensor<9x6xf32> into tensor<9x2x3xf32>
// CHECK-NEXT:    %y = tensor.collapse_shape %g {{.*}} : tensor<9x2x3xf32> into tensor<18x3xf32>
func.func @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %h = tensor.dim %x, %c0 : tensor<?x?xf32>
  %c = tensor.dim %x, %c1 : tensor<?x?xf32>
  %k = arith.ceildivui %c, %c2 : index
  %g = tensor.expand_shape %x [[0], [1, 2]] output_shape [%h, 2, %k] : tensor<?x?xf32> into tensor<?x2x?xf32>
  %y = tensor.collapse_shape %g [[0, 1], [2]] : tensor<?x2x?xf32> into tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// A cast that forgets sizes is nothing any more, and an offset only known at run time may stay.
// CHECK-LABEL: func.func @main(%x: tensor<9x6xi32>) -> tensor<2x6xi32>
// CHECK:         %y = tensor.extract_slice %x[%i, 0] [2, 6] [1, 1] : tensor<9x6xi32> to tensor<2x6xi32>
// CHECK-NEXT:    func.return %y : tensor<2x6xi32>
func.func @main(%x: tensor<9x6xi32>) -> tensor<?x?xi32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %any = tensor.cast %x : tensor<9x6xi32> to tensor<?x?xi32>
  %element = tensor.extract %any[%c0, %c0] : tensor<?x?xi32>
  %i = arith.index_cast %element : i32 to index
  %y = tensor.extract_slice %any[%i, 0] [%c2, 6] [1, 1] : tensor<?x?xi32> to tensor<?x6xi32>
  %z = tensor.cast %y : tensor<?x6xi32> to tensor<?x?xi32>
  return %z : tensor<?x?xi32>
}

// -----

// A convolution is bound like any op whose result has the shape of its init.
// CHECK-LABEL: func.func @main(%x: tensor<9x6xf32>) -> tensor<9x6xf32>
// CHECK:         conv.fprop
// CHECK-SAME:    outs(%f : tensor<1x7x6xf32>)
func.func @main(%x: tensor<?x6xf32>) -> tensor<?x6xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %h = tensor.dim %x, %c0 : tensor<?x6xf32>
  %batch = tensor.expand_shape %x [[0, 1], [2]] output_shape [1, %h, 6] : tensor<?x6xf32> into tensor<1x?x6xf32>
  %w = arith.constant dense<1.0> : tensor<6x3x6xf32>
  %p = arith.subi %h, %c2 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%p) : tensor<1x?x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x?x6xf32>) -> tensor<1x?x6xf32>
  %y = conv.fprop layouts(NWC, KSC, NWC) ins(%batch, %w : tensor<1x?x6xf32>, tensor<6x3x6xf32>) outs(%f : tensor<1x?x6xf32>)
  return %x : tensor<?x6xf32>
}

// -----

// REMARK: func.func not rewritten: every size is static already
// CHECK-LABEL: func.func @main(%x: tensor<9x6xf32>)
func.func @main(%x: tensor<9x6xf32>) -> tensor<9x6xf32> {
  return %x : tensor<9x6xf32>
}
