// `force` rewrites whatever it costs.
// RUN: convir-opt %s --split-input-file -p 'convert-strided-insert-slice-to-generic{force=true}' | filecheck %s
// RUN: convir-opt %s --split-input-file -p 'convert-strided-insert-slice-to-generic{force=true}' --remarks -o %t 2>&1 | filecheck %s --check-prefix=REMARK

// A destination with elements of its own: they show in the holes, read as the generic's init.

func.func @live_destination(%x: tensor<4xf32>, %y: tensor<32xf32>) -> tensor<32xf32> {
  %0 = tensor.insert_slice %x into %y[3] [4] [4] : tensor<4xf32> into tensor<32xf32>
  return %0 : tensor<32xf32>
}

// REMARK: insert_slice rewritten: forced: one pass {{[0-9.]+}} us, strided copy of 4-byte runs {{[0-9.]+}} us
// CHECK-LABEL: @live_destination
// CHECK-NOT:     tensor.empty
// CHECK:         linalg.generic {{.*}} outs(%y : tensor<32xf32>)
// CHECK-NEXT:    ^bb0(%[[OLD:.+]]: f32):
// CHECK:         %[[P:.+]] = arith.subi
// CHECK-NEXT:    arith.shrsi %[[P]], %c2 : index
// CHECK-NEXT:    arith.andi %[[P]], %c3 : index
// CHECK:         arith.select %{{.+}}, %{{.+}}, %[[OLD]] : f32

// -----

// A whole in-order copy is not a scatter, forced or not.

func.func @copy(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor.insert_slice %x into %y[0] [4] [1] : tensor<4xf32> into tensor<4xf32>
  return %0 : tensor<4xf32>
}

// REMARK: insert_slice not rewritten: no dimension is strided
// CHECK-LABEL: @copy
// CHECK:         tensor.insert_slice
