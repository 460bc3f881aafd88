// The pass works on xDSL's own ops, in xDSL's own driver.
// RUN: xdsl-opt %s -p 'convert-strided-insert-slice-to-generic{force=true}' | filecheck %s
// RUN: xdsl-opt %s -p 'convert-strided-insert-slice-to-generic{only_contraction_inputs=true}' | filecheck %s --check-prefix=LEFT

func.func @scatter(%x: tensor<4x4xf16>) -> tensor<9x10xf16> {
  %zeros = arith.constant dense<0.0> : tensor<9x10xf16>
  %0 = tensor.insert_slice %x into %zeros[0, 1] [4, 4] [2, 2] : tensor<4x4xf16> into tensor<9x10xf16>
  return %0 : tensor<9x10xf16>
}

// CHECK-LABEL: @scatter
// CHECK-NOT:   insert_slice
// CHECK:       linalg.generic
// CHECK:       arith.shrsi
// CHECK:       arith.select

// LEFT-LABEL: @scatter
// LEFT:       tensor.insert_slice
