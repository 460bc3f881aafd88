// RUN: convir-opt %s -p 'fixpoint(cse,canonicalize)' | filecheck %s --check-prefix=PLAIN
// RUN: convir-opt %s --pipeline backward-data --remarks -o %t.bwd 2>&1 | filecheck %s --check-prefix=FIRED
// RUN: convir-opt %t.bwd --pipeline backward-data --remarks -o %t.bwd2 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: convir-opt %s --pipeline default -o %t.default
// RUN: convir-opt %t.default --pipeline default --remarks -o %t.default2 2>&1 | filecheck %s --check-prefix=AGAIN

// Each function holds two paddings or scatters, one inside the other: only once the outer one has
// gone do the casts and reshapes fold that hid the inner one from the contraction.

// FIRED: [swap-strided-insert-slice-with-contraction] tensor.pad rewritten: 120 -> 4 FLOPs
// FIRED: [swap-strided-insert-slice-with-contraction] tensor.insert_slice rewritten: 768 -> 128
// FIRED: [decompose-strided-dgrad] tensor.insert_slice rewritten
// FIRED: [swap-strided-insert-slice-with-contraction] tensor.pad rewritten: 4 -> 2 FLOPs
// FIRED: [swap-strided-insert-slice-with-contraction] tensor.insert_slice rewritten: 128 -> 16
// FIRED: [convert-strided-insert-slice-to-generic] tensor.insert_slice rewritten
// AGAIN: not rewritten
// AGAIN-NOT: {{\.[a-z_]+ rewritten:}}

// PLAIN-LABEL: func.func @pad_behind_reshape
// PLAIN-COUNT-2: tensor.pad
func.func @pad_behind_reshape(%x1: tensor<1x5xf16>,
    %v1: tensor<1x1x1x1x1x1xf16>)
    -> tensor<3x4xf16> {
  %0 = arith.constant 4 : index
  %1 = arith.constant 3 : index
  %v2 = tensor.pad %v1 low[0, 0, 0, 0, 0, 0] high[0, 0, 0, 0, 0, 1] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index, %i5: index):
    %c = arith.constant 0.000000e+00 : f16
    tensor.yield %c : f16
  } : tensor<1x1x1x1x1x1xf16> to tensor<1x1x1x1x1x2xf16>
  %v3 = tensor.collapse_shape %v2 [[0 : i64, 1 : i64], [2 : i64, 3 : i64], [4 : i64, 5 : i64]]
    : tensor<1x1x1x1x1x2xf16> into tensor<1x1x2xf16>
  %2 = tensor.cast %v3 : tensor<1x1x2xf16> to tensor<?x?x?xf16>
  %v4 = tensor.pad %2 low[2, 2, 1] high[2, 0, 1] {
  ^bb0(%i0_1: index, %i1_1: index, %i2_1: index):
    %c_1 = arith.constant 0.000000e+00 : f16
    tensor.yield %c_1 : f16
  } : tensor<?x?x?xf16> to tensor<?x?x4xf16>
  %v4_1 = tensor.cast %v4 : tensor<?x?x4xf16> to tensor<5x3x4xf16>
  %3 = tensor.cast %v4_1 : tensor<5x3x4xf16> to tensor<?x?x4xf16>
  %v5 = tensor.extract_slice %3[0, 0, 0] [5, %1, %0] [1, 1, 1]
    : tensor<?x?x4xf16> to tensor<5x?x?xf16>
  %v5_1 = tensor.cast %v5 : tensor<5x?x?xf16> to tensor<5x3x4xf16>
  %v6 = arith.constant dense<2.000000e+00> : tensor<3x4xf16>
  %v7 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d0, (d3 + d1))>,
                       affine_map<(d0, d1, d2, d3) -> (d1, d2)>,
                       affine_map<(d0, d1, d2, d3) -> (d0, d3)>],
      iterator_types = ["parallel", "reduction", "reduction", "parallel"]}
      ins(%v5_1, %x1 : tensor<5x3x4xf16>, tensor<1x5xf16>)
      outs(%v6 : tensor<3x4xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %p = arith.mulf %b, %a : f16
    %s = arith.addf %p, %o : f16
    linalg.yield %s : f16
  } -> tensor<3x4xf16>
  return %v7 : tensor<3x4xf16>
}

func.func @scatter_behind_cast(%0: index, %x1: tensor<8x4x1xi64>, %x0: tensor<2x1xi64>,
    %1: tensor<8x12x?xi64>)
    -> tensor<8x12x?xi64> {
  %v0 = arith.constant dense<0> : tensor<4x4xi64>
  %v1 = tensor.insert_slice %x0 into %v0[1, 1] [2, 1] [1, 1] : tensor<2x1xi64> into tensor<4x4xi64>
  %v2 = arith.constant dense<0> : tensor<12x8xi64>
  %2 = tensor.cast %v1 : tensor<4x4xi64> to tensor<?x4xi64>
  %v3 = tensor.insert_slice %2 into %v2[2, 2] [%0, 4] [3, 1] : tensor<?x4xi64> into tensor<12x8xi64>
  %v4 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1, d2, d3) -> ((d3 + d2), d0)>,
                       affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>,
                       affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>],
      iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%v3, %x1 : tensor<12x8xi64>, tensor<8x4x1xi64>)
      outs(%1 : tensor<8x12x?xi64>) {
  ^bb0(%a: i64, %b: i64, %o: i64):
    %p = arith.muli %b, %a : i64
    %s = arith.addi %o, %p : i64
    linalg.yield %s : i64
  } -> tensor<8x12x?xi64>
  return %v4 : tensor<8x12x?xi64>
}

// The inner scatter stands among ones, which no contraction can leave out.
func.func @scatter_among_ones(%x0: tensor<2x1x2xi8>, %x1: tensor<4x2x1xi8>,
    %v3: tensor<13x4x4xi8>, %v8: tensor<12x4xi32>)
    -> tensor<12x4xi32> {
  %0 = arith.constant 6 : index
  %1 = arith.constant 4 : index
  %v0 = arith.constant dense<1> : tensor<6x1x4xi8>
  %v1 = tensor.insert_slice %x0 into %v0[1, 0, 1] [2, 1, 2] [2, 1, 2]
    : tensor<2x1x2xi8> into tensor<6x1x4xi8>
  %v2 = arith.constant dense<0> : tensor<i8>
  %v4 = linalg.broadcast ins(%v2 : tensor<i8>) outs(%v3 : tensor<13x4x4xi8>) dimensions = [0, 1, 2]
  %2 = tensor.cast %v1 : tensor<6x1x4xi8> to tensor<?x1x?xi8>
  %v5 = tensor.insert_slice %2 into %v4[2, 2, 0] [%0, 1, %1] [2, 1, 1]
    : tensor<?x1x?xi8> into tensor<13x4x4xi8>
  %v9 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>,
                       affine_map<(d0, d1, d2, d3, d4) -> ((d2 + d4), d0, (d1 + d3))>,
                       affine_map<(d0, d1, d2, d3, d4) -> (d2, d1)>],
      iterator_types = ["reduction", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x1, %v5 : tensor<4x2x1xi8>, tensor<13x4x4xi8>)
      outs(%v8 : tensor<12x4xi32>) {
  ^bb0(%b: i8, %a: i8, %o: i32):
    %aw = arith.extsi %a : i8 to i32
    %bw = arith.extsi %b : i8 to i32
    %p = arith.muli %aw, %bw : i32
    %s = arith.addi %p, %o : i32
    linalg.yield %s : i32
  } -> tensor<12x4xi32>
  return %v9 : tensor<12x4xi32>
}
